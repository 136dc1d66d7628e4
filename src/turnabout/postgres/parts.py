"""The parts to install: the core's steps and functions, and those of each slice.

A *part* is the core or a slice. Its functions are a set in a schema of its own: `turnabout_r2` has
the core's revision 2, `turnabout_r2_pipeline_r1` the pipeline's revision 1 made for it, since a
slice's functions call the core's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from turnabout import slices
from turnabout.postgres.permissions import functions_of_kinds, functions_of_slice
from turnabout.postgres.revision import REVISION, rendered, schema
from turnabout.postgres.source import ROOMS, functions_of, sql_files, text_of
from turnabout.words.migration import Migration, step_of

_PACKAGE = "turnabout.postgres"


@dataclass(frozen=True, slots=True)
class CallPart:
    """The core, or a slice. `kinds`: its functions that each kind of permission is for; `views`:
    those that a role which may operate can read.
    """

    name: str
    revision: int
    package: str
    kinds: Mapping[str, list[str]]
    views: tuple[str, ...] = ()

    @property
    def schema(self) -> str:
        """Schema of its set of functions."""
        return schema(self.name)

    def migrations(self) -> tuple[Migration, ...]:
        """The steps for its tables, in order. A step is the files of one number."""
        found = sql_files(self.package, "migrations")
        return tuple(
            step_of(files[0].name, "\n".join(map(text_of, files)), self.name)
            for _, group in groupby(found, key=lambda file: file.name[:4])
            if (files := list(group))
        )

    def functions(self) -> str:
        """Return all functions of its set as one text, with the names in their files."""
        folders = ["functions"] if self.name else [f"sql/{room}" for room in ROOMS]
        return "\n".join(map(functions_of, sql_files(self.package, *folders)))

    def rendered(self) -> str:
        """The same, each name with the schema of its set."""
        return rendered(self.functions())

    def kinds_as_json(self) -> str:
        """Digests as the ledger keeps them."""
        return json.dumps(self.kinds, sort_keys=True)

    def open_functions(self) -> list[str]:
        """Functions with their owner's rights: all of `operate` that are not inlined."""
        return [name for name in self.kinds["operate"] if name != "clock_ms"]

    def digest(self, *more: str) -> str:
        """The digest of its set, in 16 characters."""
        texts = "\n".join((self.functions(), *more, self.kinds_as_json()))
        return hashlib.sha256(texts.encode()).hexdigest()[:16]


@cache
def core() -> CallPart:
    """The core."""
    return CallPart("", REVISION, _PACKAGE, functions_of_kinds())


@cache
def parts() -> tuple[CallPart, ...]:
    """The core, then the slices that are here and have something in PostgreSQL."""
    some = [core()]
    for slice_ in slices.found():
        module = slice_.load("postgres")
        if module is not None:
            kinds = {"operate": functions_of_slice(slice_.name, module.CALLS)}
            name, package = slice_.name, module.__name__
            some.append(CallPart(name, slice_.revision, package, kinds, tuple(module.VIEWS)))
    return tuple(some)


@cache
def latest() -> str:
    """Functions of the schema `turnabout` only: for people who write SQL, and for permissions."""
    return "\n".join(map(functions_of, sql_files(_PACKAGE, "latest")))
