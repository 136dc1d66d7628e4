"""Health probes: `/livez`, `/readyz`, and `/healthz` with details.

The database is queried at most once a second, for any number of probes; a probe never waits longer
than two. No probe needs a token: without the right to see metrics `/healthz` says yes or no only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from turnabout import __version__
from turnabout.server.api.metrics import check_look
from turnabout.server.verbs import TokenRevoke
from turnabout.words.errors import Disconnected, Forbidden, StorageFull, TurnaboutError, Unavailable

if TYPE_CHECKING:
    from turnabout.server.context import ServerContext

FRESH_SECONDS = 1.0
"""Lifetime of the database's answer, for probes that follow."""
PATIENCE_SECONDS = 2.0
DISK_FREE_BYTES = 16 * 1024 * 1024
"""Minimum free space beside an SQLite file; with less, even acks will soon fail."""
FULL_SECONDS = 10.0
"""Time during which the server reports not ready after the database refused a verb for want of
room; then it takes requests again, to see whether there is room.
"""
_PING = TokenRevoke("a" * 12)
"""Revokes a token that does not exist: this needs the schema, our functions, permissions, and a
writable database, which a standby is not.
"""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """The result of one check. `problem` is a code, never the database's own text."""

    name: str
    problem: str | None = None
    seconds: float | None = None
    stops: bool = True
    """A problem here makes the server not ready."""


class Health:
    """The store's state, not older than a second."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._ping = HealthCheck("store", "unknown")
        self._asked_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    async def checks(self) -> tuple[HealthCheck, ...]:
        """Run all checks, in two seconds at most."""
        if self._context.lifecycle.leaving:
            return (HealthCheck("closing", "closing"),)
        await self._ask()
        failing = self._context.long_poll.maintenance.failing
        kept = HealthCheck("maintenance", "maintenance" if failing else None, stops=False)
        return HealthCheck("closing"), self._ping, self._disk(), kept

    def close(self) -> None:
        """Cancel a query that is under way."""
        if self._asking is not None:
            self._asking.cancel()

    async def _ask(self) -> None:
        now = time.monotonic()
        if self._asking is None:
            if now - self._asked_at < FRESH_SECONDS:
                return
            self._asking = asyncio.create_task(self._look())
        done, _ = await asyncio.wait({self._asking}, timeout=PATIENCE_SECONDS)
        if not done:  # the look goes on, and the next probe waits for the same one
            self._ping = HealthCheck("store", "timeout")

    async def _look(self) -> None:
        started = time.perf_counter()
        problem = None
        try:
            await self._context.store.run(_PING)
        except TurnaboutError as error:
            problem = error.code
        except OSError:
            problem = Disconnected.code
        except Exception:  # noqa: BLE001 - a bug must not make the store look healthy
            problem = "internal"
        finally:
            self._asking = None
            self._asked_at = time.monotonic()
        self._ping = HealthCheck("store", problem, time.perf_counter() - started)

    def _disk(self) -> HealthCheck:
        free = self._context.store.measures().get("disk_free_bytes")
        is_told = time.monotonic() - self._context.counts.full_at < FULL_SECONDS
        full = is_told or (free is not None and free < DISK_FREE_BYTES)
        return HealthCheck("disk", StorageFull.code if full else None)


def problems(checks: Sequence[HealthCheck]) -> list[str]:
    """Codes of the problems that make the server not ready; empty if there are none."""
    return [check.problem for check in checks if check.stops and check.problem is not None]


def routes(context: ServerContext) -> Sequence[BaseRoute]:
    """The routes of the probes."""
    health = Health(context)
    context.lifecycle.on_close.append(health.close)

    async def _may_look(request: Request) -> bool:
        try:
            await check_look(context, request)
        except (Forbidden, Unavailable):  # no token, or the database cannot tell
            return False
        return True

    async def livez(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        checks = await health.checks()
        found = problems(checks)
        if found:
            headers = {"Retry-After": "1"}
            return PlainTextResponse(f"not ready: {', '.join(found)}\n", 503, headers=headers)
        failing = any(check.problem for check in checks)
        return PlainTextResponse("ok, but maintenance fails: see the log\n" if failing else "ok\n")

    async def healthz(request: Request) -> Response:
        checks = await health.checks()
        found = problems(checks)
        document: dict[str, Any] = {"status": "not ready" if found else "ok"}
        if await _may_look(request):
            document["version"] = __version__
            document["checks"] = {
                check.name: {"ok": check.problem is None}
                | ({} if check.problem is None else {"code": check.problem})
                | ({} if check.seconds is None else {"seconds": round(check.seconds, 6)})
                for check in checks
            }
            document["store"] = dict(context.store.measures())
        return JSONResponse(document, 503 if found else 200)

    return [
        Route("/livez", livez, methods=["GET"]),
        Route("/readyz", readyz, methods=["GET"]),
        Route("/healthz", healthz, methods=["GET"]),
    ]
