"""A function's arguments as a JSON object, and back: typed both ways by its annotations.

So curl, plain SQL or a shell can enqueue a task, too. Arguments that do not fit are refused by the
sender, and once more by the worker. Nothing is pickled.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from turnabout.words.errors import UsageError

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Arguments:
    """The arguments of one function.

    Annotations are read when they are first needed, so they may name what is defined later.
    """

    def __init__(self, name: str, function: Callable[..., object]) -> None:
        """`name`: the task's, for errors. Raises: UsageError for `*args`, `**kwargs` and `/`."""
        self._name = name
        self._function = function
        self.signature = inspect.signature(function)
        self._names = tuple(self.signature.parameters)
        for parameter in self.signature.parameters.values():
            if parameter.kind not in _NAMED:
                raise UsageError(
                    f"the task {name} takes {parameter}, which has no name in a JSON object: give "
                    "each argument a name of its own"
                )

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self._function, include_extras=True)

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        fields: list[Any] = []
        for one in self.signature.parameters.values():
            kind = self._hints.get(one.name, Any)
            if one.default is inspect.Parameter.empty:
                fields.append((one.name, kind))
            else:
                fields.append((one.name, kind | UnsetType, UNSET))
        try:
            struct = msgspec.defstruct(
                "Arguments", fields, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
            )
            return msgspec.json.Decoder(struct, dec_hook=_from_json)
        except TypeError as error:
            raise UsageError(f"arguments of the task {self._name}: {error}") from error

    @cached_property
    def _result(self) -> msgspec.json.Decoder[Any]:
        return msgspec.json.Decoder(self._hints.get("return", Any), dec_hook=_from_json)

    def bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by their names. Raises: UsageError where the function can't be called so."""
        try:
            return self.signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise UsageError(f"the task {self._name}{self.signature}: {error}") from error

    def encoded(self, arguments: Mapping[str, Any]) -> bytes:
        """Write arguments as JSON. Raises: UsageError for wrong types, or values without JSON."""
        payload = to_json(arguments, f"an argument of the task {self._name}")
        try:
            self._decoder.decode(payload)
        except msgspec.ValidationError as error:
            raise UsageError(f"the task {self._name}{self.signature}: {error}") from error
        return payload

    def decoded(self, payload: bytes) -> dict[str, Any]:
        """Read the function's arguments. Raises: msgspec.DecodeError."""
        value = self._decoder.decode(payload)
        return {name: one for name in self._names if (one := getattr(value, name)) is not UNSET}

    def result(self, data: bytes) -> Any:
        """A result as the function's annotation has it."""
        return self._result.decode(data)


def to_json(value: Any, what: str) -> bytes:
    """Raises: UsageError for a value that has no JSON form; `what` it is, for the text."""
    try:
        return msgspec.json.encode(value, enc_hook=_to_json)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{what}: {error}") from error


def _to_json(value: Any) -> Any:
    """Models of pydantic know how."""
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json")
    raise TypeError(f"there is no JSON for {type(value).__name__}")


def _from_json(kind: Any, value: Any) -> Any:
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise TypeError(f"a value of {kind} can't be made of JSON")
