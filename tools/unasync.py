"""Generate `src/penstock/_sync.py`, the blocking face, from `src/penstock/_async.py`.

    python tools/unasync.py           write it
    python tools/unasync.py --check   fail if the written file is stale

One table of whole words. A rule that matches nothing is an error, so the table cannot rot.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

FACE = Path(__file__).resolve().parent.parent / "src" / "penstock"
HEADER = '"""The blocking face. Generated from `_async.py` by `tools/unasync.py`: do not edit."""\n'
RULES = {
    r"async def": "def",
    r"await ": "",
    r"AsyncPenstock": "Penstock",
    r"AsyncQueue": "Queue",
    r"AsyncChannel": "Channel",
    r"AsyncMessage": "Message",
    r"AsyncStore": "Store",
    r"AsyncIterator": "Iterator",
    r"__aenter__": "__enter__",
    r"__aexit__": "__exit__",
}


def translate(source: str) -> str:
    """The blocking text of an asyncio text; its module docstring is replaced by the header."""
    body = source[source.index('"""', 3) + 4 :]
    for word, plain in RULES.items():
        body, count = re.subn(rf"\b{word}" + (r"\b" if word[-1] != " " else ""), plain, body)
        if not count:
            raise SystemExit(f"unasync: the rule for {word!r} matched nothing; drop it")
    return HEADER + _sorted_imports(body)


def _sorted_imports(body: str) -> str:
    """Renamed words may stand out of order in the one import that names them."""
    line = "from collections.abc import Iterator, Iterable, Mapping, Sequence\n"
    return body.replace(line, "from collections.abc import Iterable, Iterator, Mapping, Sequence\n")


def main() -> int:
    """Write the blocking face, or check it."""
    wanted = translate((FACE / "_async.py").read_text(encoding="utf-8"))
    target = FACE / "_sync.py"
    if sys.argv[1:] == ["--check"]:
        fresh = target.exists() and target.read_text(encoding="utf-8") == wanted
        if not fresh:
            print("src/penstock/_sync.py is stale: run `python tools/unasync.py`", file=sys.stderr)
        return 0 if fresh else 1
    target.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
