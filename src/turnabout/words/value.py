"""`@value`: a frozen dataclass with slots, for the many small types of this package.

Frozen at run time, too: what was checked when it was made stays as it was. `dataclass(frozen=True)`
sets each field by a call and compiles six functions for each class, which is most of the time of
`import turnabout`. Here an instance belongs to an *open* class of the same layout until `__init__`
has set its fields at full speed (docs/design/decisions/0024-values.md). Equality, hash and repr are
shared functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar, cast, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """Make the class a value: compared and hashed by its fields, and never changed."""
    made: Any = dataclass(slots=True, init=False, repr=False, eq=False)(cls)
    opened = type(made.__name__, (made,), {**_OPEN, "__module__": made.__module__})
    made.__init__ = _init(made, opened)
    for name, shared in _SHARED.items():
        if name not in cls.__dict__:
            setattr(made, name, shared)
    return made


def unchecked(kind: type[T], values: Mapping[str, Any]) -> T:
    """A value of fields that were checked before: `__post_init__` is not called."""
    made = object.__new__(kind)
    for name, given in values.items():
        object.__setattr__(made, name, given)
    return made


def _init(made: Any, opened: type[Any]) -> Callable[..., None]:
    """Written as `dataclass` writes it, but for the classes."""
    scope: dict[str, Any] = {"_set_class_": _set_class, "_open_": opened, "_made_": made}
    parameters: list[str] = []
    for f in fields(made):
        parameters.append(f.name if f.default is MISSING else f"{f.name}=_{f.name}")
        scope[f"_{f.name}"] = f.default
    lines = [f"def __init__({', '.join(['self', *parameters])}):", "_set_class_(self, _open_)"]
    lines += [f"self.{f.name} = {f.name}" for f in fields(made)]
    lines += ["self.__class__ = _made_"]
    if hasattr(made, "__post_init__"):
        lines += ["self.__post_init__()"]
    exec("\n ".join(lines), scope)  # noqa: S102 - of names that are identifiers
    init = scope["__init__"]
    init.__qualname__ = f"{made.__qualname__}.__init__"
    return init


def _refuse_set(self: Any, name: str, value: object) -> NoReturn:  # noqa: ARG001
    raise AttributeError(
        f"{type(self).__name__}.{name} does not change; dataclasses.replace makes another value"
    )


def _refuse_delete(self: Any, name: str) -> NoReturn:
    _refuse_set(self, name, None)


def _reduce(self: Any) -> tuple[Any, ...]:
    """Copied and unpickled by its class, which checks it again."""
    kind = cast("type[Any]", self.__class__)
    return kind, tuple([_plain(getattr(self, name)) for name in self.__match_args__])


def _plain(given: Any) -> Any:
    """A field as it was given: a mapping is kept behind a proxy, which can't be pickled."""
    return dict(cast("Any", given)) if type(given) is MappingProxyType else given


def _repr(self: Any) -> str:
    """As it would be written: without the fields that are at their defaults."""
    parts = [
        f"{f.name}={_plain(getattr(self, f.name))!r}"
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


_set_class: Callable[[object, type[Any]], None] = object.__dict__["__class__"].__set__
_OPEN: dict[str, Any] = {
    "__slots__": (),
    "__setattr__": object.__setattr__,
    "__delattr__": object.__delattr__,
}
_SHARED: dict[str, Callable[..., Any]] = {
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _refuse_set,
    "__delattr__": _refuse_delete,
    "__reduce__": _reduce,
}
