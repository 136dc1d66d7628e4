"""`Value`: what the many small types of this package are, frozen structs.

Compared and hashed by their fields; what was checked when one was made stays as it was. Changed
copies are made by `replace`, which checks again.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from types import MappingProxyType
from typing import Any, TypeVar, cast, dataclass_transform

from msgspec import Struct
from msgspec.structs import force_setattr, replace

__all__ = ["Value", "force_setattr", "replace", "unchecked"]

T = TypeVar("T", bound="Value")


@dataclass_transform(frozen_default=True)
class Value(Struct, frozen=True, repr_omit_defaults=True):
    """Immutable record: its fields are given by position or by name."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied and unpickled by its class, which checks it again."""
        return type(self), tuple([_plain(getattr(self, name)) for name in self.__struct_fields__])


def unchecked(value: T, changes: Mapping[str, Any]) -> T:
    """A copy with other fields, which were checked before: `__post_init__` is not called."""
    made = copy(value)
    for name, new_value in changes.items():
        force_setattr(made, name, new_value)
    return made


def _plain(value: Any) -> Any:
    """A field as it was given: a mapping is kept behind a proxy, which can't be pickled."""
    return dict(cast("Any", value)) if type(value) is MappingProxyType else value
