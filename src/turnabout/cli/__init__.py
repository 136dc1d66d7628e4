"""The command line: `turnabout …`. A file for each group of commands; `program` puts them together.

Only click and the words are loaded here; databases, Rich and the worker when a command needs them.
How commands are declared, and how they print: `_declare.py`. Slices bring theirs in `SECTIONS`;
they are declared with what is here, so `main` is made when somebody asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnabout.cli.program import main

__all__ = ["main"]


def __getattr__(name: str) -> Any:
    if name != "main":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from turnabout.cli.program import main

    return main
