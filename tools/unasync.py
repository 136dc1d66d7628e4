"""Generate `src/turnabout/_sync/`, the blocking face, from `src/turnabout/_async/`.

    python tools/unasync.py           write it
    python tools/unasync.py --check   fail if a written file is stale, missing or left over

One table of whole words. A rule that matches nothing is an error, so the table cannot rot.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

FACE = Path(__file__).resolve().parent.parent / "src" / "turnabout"
HEADER = '"""The blocking face. Generated from `_async/{}` by `tools/unasync.py`: do not edit."""\n'
RULES = {
    r"async def": "def",
    r"async for": "for",
    r"await ": "",
    r"turnabout\._async": "turnabout._sync",
    r"AsyncTurnabout": "Turnabout",
    r"AsyncQueue": "Queue",
    r"AsyncJoinedQueue": "JoinedQueue",
    r"AsyncBatchBlock": "BatchBlock",
    r"AsyncJoined": "Joined",
    r"AsyncChannel": "Channel",
    r"AsyncMessage": "Message",
    r"AsyncSchedules": "Schedules",
    r"AsyncStore": "Store",
    r"AsyncIterator": "Iterator",
    r"from asyncio import Event": "from threading import Event",
    r"from asyncio import sleep": "from time import sleep",
    r"__aenter__": "__enter__",
    r"__aexit__": "__exit__",
}


def translate(sources: dict[str, str]) -> dict[str, str]:
    """The blocking text of each asyncio text; its module docstring is replaced by the header."""
    bodies = {name: text[text.index('"""', 3) + 4 :] for name, text in sources.items()}
    for word, plain in RULES.items():
        pattern = re.compile(rf"\b{word}" + (r"\b" if word[-1] != " " else ""))
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
    """Write the blocking face, or check it."""
    written = {path.name: path for path in (FACE / "_sync").glob("*.py")}
    sources = sorted((FACE / "_async").glob("*.py"))
    wanted = translate({path.name: path.read_text(encoding="utf-8") for path in sources})
    left_over = sorted(written.keys() - wanted.keys())
    if sys.argv[1:] == ["--check"]:
        stale = [
            name
            for name, text in wanted.items()
            if name not in written or written[name].read_text(encoding="utf-8") != text
        ]
        for name in stale + left_over:
            print(
                f"src/turnabout/_sync/{name} is stale: run `python tools/unasync.py`",
                file=sys.stderr,
            )
        return 1 if stale or left_over else 0
    (FACE / "_sync").mkdir(exist_ok=True)
    for name in left_over:
        written[name].unlink()
    for name, text in wanted.items():
        (FACE / "_sync" / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
