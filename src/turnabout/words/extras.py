"""Hints on missing dependencies: the one place for the texts that all messages of the program
use.

There is no release yet, and a bare name on the package index may belong to somebody else: until
then every hint names the clone.
"""

from __future__ import annotations

import sys

from turnabout.words.errors import UsageError

UPGRADE_HINT = "update your clone of Turnabout (git pull) and run: pip install ."


def install_hint(extra: str) -> str:
    """The command that installs an extra, such as `postgres`."""
    return f"in a clone of Turnabout, run: pip install '.[{extra}]'"


def refuse_windows(what: str) -> None:
    """Raises: UsageError there."""
    if sys.platform == "win32":
        raise UsageError(f"{what} needs Linux or macOS: on Windows, run it in WSL")
