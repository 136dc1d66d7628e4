"""`@value`: a frozen dataclass with slots, for the many small types of this package.

Frozen for the type checker. At run time nothing guards a field, and equality, hash and repr are
shared functions: `dataclass(frozen=True)` compiles six functions for each class, which is most of
the time of `import turnabout`, and sets each field by a call, which is half the time of a send.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """Make the class a value: compared and hashed by its fields, and never changed."""
    made: Any = dataclass(slots=True, repr=False, eq=False)(cls)
    for name, shared in _SHARED.items():
        if name not in cls.__dict__:
            setattr(made, name, shared)
    return made


def _repr(self: Any) -> str:
    """As it would be written: without the fields that are at their defaults."""
    parts = [
        f"{f.name}={getattr(self, f.name)!r}"
        for f in fields(self)
        if f.default is MISSING or getattr(self, f.name) != f.default
    ]
    return f"{type(self).__name__}({', '.join(parts)})"


def _eq(self: Any, other: Any) -> bool:
    if self.__class__ is not other.__class__:
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in self.__match_args__)


def _hash(self: Any) -> int:
    return hash((self.__class__, *[getattr(self, name) for name in self.__match_args__]))


_SHARED: dict[str, Callable[..., Any]] = {"__repr__": _repr, "__eq__": _eq, "__hash__": _hash}
