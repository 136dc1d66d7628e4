"""Slices: folders beside this file that the core does not know, and that can be deleted.

A slice is a package `turnabout/<name>/` with a module `slice.py`, which says what it brings:

    SLICE = Slice("pipeline", sqlite="turnabout.pipeline.sqlite", …)

Its parts are named, not imported: each is loaded when somebody asks for it. `slice.py` itself, and
the package's `__init__`, import nothing but this file. The core asks for slices where it meets what
it doesn't know: a store for a verb, an installer for steps and functions, the command line for
commands, `doctor` for checks; the server, for routes. So imports point from slices to the core.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Slice:
    """The parts of a slice. Each is the name of a module or package; None: nothing.

    verbs     `VERBS`: the classes of its verbs
    sqlite    `PROCEDURES`: one for each verb; beside them `sql/` and `migrations/`
    postgres  `CALLS`: a call for each verb, which roles that may `operate` can make, and `VIEWS`,
              which they may read; beside them `functions/` and `migrations/`
    routes    `routes(context)`: more paths for the server, which alone loads this; may import it.
              `IS_BUSY = True`: few paths with many requests, which come first
    tracing   `Spans`, for `connect(tracing=…)`, and `SpansOnBehalf`, for a server
    commands  `SECTIONS`: commands by the title of their section in the help
    checks    `checks(url)`: what `doctor` asks, once the schema is there
    metrics   `gauges(run, totals)`: more families for the server's `/metrics`

    revision  of its set of PostgreSQL functions, which the files call `turnabout_<name>.…`. Rises
              with the first change of one of them after each release, like the core's.
    digest    of these functions as they are now: a test compares
    """

    name: str
    verbs: str | None = None
    sqlite: str | None = None
    postgres: str | None = None
    routes: str | None = None
    tracing: str | None = None
    commands: str | None = None
    checks: str | None = None
    metrics: str | None = None
    revision: int = 1
    digest: str = ""

    def load(self, part: str) -> ModuleType | None:
        """The module of a part, or None."""
        module: str | None = getattr(self, part)
        return None if module is None else import_module(module)

    def folder(self, part: str) -> Path | None:
        """Return the folder of a part without loading it; None if there is no such part."""
        module: str | None = getattr(self, part)
        return None if module is None else _HERE.parent.joinpath(*module.split("."))


@cache
def found() -> tuple[Slice, ...]:
    """The slices that are here, in order of their names."""
    names = sorted(file.parent.name for file in _HERE.glob("*/slice.py"))
    return tuple(import_module(f"turnabout.{name}.slice").SLICE for name in names)


def modules(part: str) -> list[ModuleType]:
    """Load that part of each slice that has one."""
    return [module for slice_ in found() if (module := slice_.load(part)) is not None]


def merged(part: str, table: str) -> dict[Any, Any]:
    """A table of all slices, such as the calls of their verbs: `merged("postgres", "CALLS")`."""
    return {key: value for module in modules(part) for key, value in getattr(module, table).items()}
