"""Generate `_sync/`, what blocking callers use, from `_async/`: the face, the port, waiting, and
the stores of PostgreSQL and of servers.

    python tools/unasync.py           write them
    python tools/unasync.py --check   fail if a written file is stale, missing or left over

A table of whole words for each. A rule that matches nothing is an error, so no table can rot. A
method under the comment `# asyncio only` is left out.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "turnabout"
HEADER = (
    '"""For blocking callers. Generated from `_async/{}` by `tools/unasync.py`: do not edit."""\n'
)
COMMON = {
    r"async def": "def",
    r"await ": "",
}
FACE = COMMON | {
    r"async for": "for",
    r"turnabout\._async": "turnabout._sync",
    r"AsyncTurnabout": "Turnabout",
    r"AsyncQueue": "Queue",
    r"AsyncQueueAdmin": "QueueAdmin",
    r"AsyncJoinedQueue": "JoinedQueue",
    r"AsyncBatchBlock": "BatchBlock",
    r"AsyncJoined": "Joined",
    r"AsyncChannel": "Channel",
    r"AsyncMessageLoop": "MessageLoop",
    r"AsyncMessage": "Message",
    r"AsyncSchedules": "Schedules",
    r"AsyncStore": "Store",
    r"AsyncIterator": "Iterator",
    r"Awaitable, ": "",
    r"Awaitable\[Received\]": "Received",
    r"from asyncio import sleep": "from time import sleep",
    r"turnabout\.waiting\._async": "turnabout.waiting._sync",
    r"beside_async": "beside",
    r"ended_async": "ended",
    r"StopAsyncIteration": "StopIteration",
    r"__aiter__": "__iter__",
    r"__anext__": "__next__",
    r"__aenter__": "__enter__",
    r"__aexit__": "__exit__",
}
POSTGRES = COMMON | {
    r"async for": "for",
    r"async with": "with",
    r"turnabout\.postgres\._async": "turnabout.postgres._sync",
    r"turnabout\.aio\.connect": "turnabout.connect",
    r"from asyncio import": "from threading import",
    r"async_socket": "socket",
    r"wait_async": "wait",
    r"wait_for_event_async": "wait_for_event",
    r"AsyncSocket": "Socket",
    r"connect_async": "connect",
    r"wait_for_async": "wait_for",
    r"adapted_async": "adapted",
    r"AsyncBackground": "Background",
    r"AsyncClient": "Client",
    r"psycopg\.AsyncConnection": "psycopg.Connection",
    r"AsyncConnection": "LibpqConnection",
    r"AsyncJoined": "Joined",
    r"AsyncLateNotices": "LateNotices",
    r"AsyncListener": "Listener",
    r"AsyncPool": "Pool",
    r"AsyncPostgresJoined": "PostgresJoined",
    r"AsyncPostgresStore": "PostgresStore",
    r"AsyncRun": "Run",
    r"AsyncStore": "Store",
    r"Awaitable, ": "",
    r"Awaitable\[Any\]": "Any",
    r"Awaitable\[None\]": "None",
}
REMOTE = COMMON | {
    r"turnabout\.aio\.connect": "turnabout.connect",
    r"carry_async": "carry",
    r"open_async": "open_blocking",
    r"wait_async": "wait",
    r"aclose": "close",
    r"AsyncRemoteStore": "RemoteStore",
    r"AsyncStore": "Store",
    r"RemoteListener": "ListenerThread",
}
TASKS = COMMON | {
    r"turnabout\.tasks\._async": "turnabout.tasks._sync",
    r"turnabout\._async": "turnabout._sync",
    r"AsyncApplication": "Application",
    r"AsyncChain": "Chain",
    r"AsyncHandle": "Handle",
    r"AsyncQueue": "Queue",
    r"AsyncStep": "Step",
    r"AsyncTask": "Task",
    r"AsyncTasks": "Tasks",
    r"AsyncTurnabout": "Turnabout",
    r"connect_async": "connect",
    r"handle_async": "handle",
}
WAITING = COMMON | {
    r"AsyncStore": "Store",
    r"beside_async": "beside",
    r"from asyncio import Event": "from threading import Event",
    r"from asyncio import sleep": "from time import sleep",
    r"to_its_end_async": "to_its_end",
    r"wait_for_event_async": "wait_for_event",
}
STORE = COMMON | {
    r"from turnabout\.store\.connections import Connections\n": "",
    r", no_transactions": "",
    r"AsyncForwardingStore": "ForwardingStore",
    r"AsyncJoined": "Joined",
    r"AsyncStore": "Store",
}
ROOMS = {
    PACKAGE: FACE,
    PACKAGE / "store": STORE,
    PACKAGE / "postgres": POSTGRES,
    PACKAGE / "remote": REMOTE,
    PACKAGE / "tasks": TASKS,
    PACKAGE / "waiting": WAITING,
}
ASYNCIO_ONLY = re.compile(
    r"    # asyncio only\n    (?:async )?def .*?\n(?=    (?:async )?def |    # |\n\n|\Z)", re.DOTALL
)


def translate(sources: dict[str, str], rules: dict[str, str]) -> dict[str, str]:
    """The blocking text of each asyncio text; its module docstring is replaced by the header."""
    bodies = {
        name: ASYNCIO_ONLY.sub("", text[text.index('"""', 3) + 4 :])
        for name, text in sources.items()
    }
    for word, plain in rules.items():
        pattern = re.compile(rf"\b{word}" + (r"\b" if word[-1].isalnum() else ""))
        found = 0
        for name, body in bodies.items():
            bodies[name], count = pattern.subn(plain, body)
            found += count
        if not found:
            raise SystemExit(f"unasync: the rule for {word!r} matched nothing; drop it")
    return {name: HEADER.format(name) + _sorted_imports(body) for name, body in bodies.items()}


def _sorted_imports(body: str) -> str:
    """Renamed words may stand out of order in an import of one line, or in `__all__`."""

    def in_order(found: re.Match[str]) -> str:
        words = sorted(found[2].split(", "), key=lambda word: (not word.isupper(), word))
        return found[1] + ", ".join(words) + found[3]

    body = re.sub(r"^(from \S+ import )([\w, ]+)()$", in_order, body, flags=re.MULTILINE)
    return re.sub(r'^(__all__ = \[)(["\w, ]+)(\])$', in_order, body, flags=re.MULTILINE)


def main() -> int:
    """Write the blocking files, or check them."""
    stale: list[Path] = []
    for room, rules in ROOMS.items():
        sources = sorted((room / "_async").glob("*.py"))
        texts = {path.name: path.read_text(encoding="utf-8") for path in sources}
        wanted = {room / "_sync" / name: text for name, text in translate(texts, rules).items()}
        written = {path: path.read_text(encoding="utf-8") for path in (room / "_sync").glob("*.py")}
        stale += [path for path in {**wanted, **written} if wanted.get(path) != written.get(path)]
        if sys.argv[1:] != ["--check"]:
            _write(wanted, written)
    if sys.argv[1:] != ["--check"]:
        return 0
    for path in stale:
        name = path.relative_to(PACKAGE.parent.parent)
        print(f"{name} is stale: run `python tools/unasync.py`", file=sys.stderr)
    return 1 if stale else 0


def _write(wanted: dict[Path, str], written: dict[Path, str]) -> None:
    for path in written.keys() - wanted.keys():
        path.unlink()
    for path, text in wanted.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
