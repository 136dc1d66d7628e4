"""Who comes in: tokens, and the rule that without them only this machine is served."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request

from penstock.server.caller import Caller

if TYPE_CHECKING:
    from penstock.server.house import House


class Gate:
    """Turns the credential of a request into its caller."""

    def __init__(self) -> None:
        self.house: House | None = None

    async def caller(self, request: Request) -> Caller:
        """Who asks. Raises: Forbidden, Busy."""
        assert self.house is not None
        return Caller(self.house)
