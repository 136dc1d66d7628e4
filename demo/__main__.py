"""The command: `python -m demo`, or `python3 dev.py demo`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from demo import picture, shop
from demo.run import DemoOptions, run
from turnabout.words.errors import TurnaboutError, Unavailable, Uncertain

ABOUT = """\
See it work: a year of flights, fairly shared by sixteen airlines, and a worker killed on the way.
In the end it is counted that nothing was lost. It uses a new SQLite file of its own, unless --url
names a database; TURNABOUT_URL is left alone, as that may be the one you work with."""


def main(words: Sequence[str] | None = None) -> int:
    """0: every promise was kept; 1: one was broken; 2: it was called wrongly; 3: the database is
    away; 130: interrupted.
    """
    given = vars(_parser().parse_args(words))
    file, record, dashboard = (given.pop(name) for name in ("picture", "record", "dashboard"))
    options = DemoOptions(**given)
    try:
        if dashboard:
            with tempfile.TemporaryDirectory(prefix="turnabout-demo-") as folder:
                shop.run(options.url, Path(folder), threading.Event().wait)
            return 0
        if file is not None:
            picture.make(options, file)
            return 0
        return 0 if run(options, record) else 1
    except (Unavailable, Uncertain) as error:
        return _refused(str(error), 3)
    except TurnaboutError as error:
        return _refused(str(error), 2)
    except KeyboardInterrupt:
        return _refused("interrupted", 130)


def _refused(text: str, code: int) -> int:
    print(f"demo: {text}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dev.py demo", description=ABOUT, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("--url", help="a database, instead of a new SQLite file")
    add("--rows", type=_above_0, help="how many flights (default: all 336,776)")
    add("--workers", type=_above_0, default=3, help="worker processes (default: 3)")
    add("--batch", type=_above_0, help="flights that a worker takes at once")
    add("--lease", type=float, default=3.0, help="seconds that a worker holds them (default: 3)")
    add("--no-channels", dest="channels", action="store_false",
        help="one queue without channels, as elsewhere: the small airlines wait")  # fmt: skip
    add("--no-kill", dest="kill", action="store_false", help="let all workers live")
    add("--keep", action="store_true", help="leave the queue and the workers' diaries")
    add("--json", dest="as_json", action="store_true", help="the verdict, as one document")
    add("--dashboard", action="store_true",
        help="instead: tenants, one floods, one fails: to look at in a browser")  # fmt: skip
    add("--pipeline", action="store_true", help="then archive it all with Spark, and report")
    add("--out", type=Path, help="where lake and report go (--pipeline)")
    add("--no-open", dest="opens", action="store_false", help="don't open the report in a browser")
    add("--picture", type=Path, metavar="FILE",
        help="run it without and with channels; draw when each airline was served")  # fmt: skip
    add("--record", type=Path, metavar="FILE", help="write what the terminal shows as an SVG, too")
    return parser


def _above_0(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


if __name__ == "__main__":
    sys.exit(main())
