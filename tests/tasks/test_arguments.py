"""Arguments as JSON: typed both ways, refused in words."""

import enum
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest

from turnabout.tasks.arguments import Arguments
from turnabout.words.errors import UsageError


class Template(enum.Enum):
    WELCOME = "welcome"
    GOODBYE = "goodbye"


@dataclass
class Address:
    street: str
    number: int = 1


class Model(pydantic.BaseModel):
    name: str
    since: datetime | None = None


def everything(
    *,
    text: str,
    at: datetime,
    uuid: UUID,
    price: Decimal,
    template: Template,
    address: Address,
    model: Model,
    later: "Later",
    some: list[int] | None = None,
) -> tuple[int, Decimal]: ...


Later = dict[str, float]  # annotations are read late


def test_what_is_given_is_what_arrives() -> None:
    arguments = Arguments("everything", everything)
    given = {
        "text": "ü \x00",
        "at": datetime(2026, 11, 26, tzinfo=UTC),
        "uuid": UUID(int=7),
        "price": Decimal("1.10"),
        "template": Template.GOODBYE,
        "address": Address("Main"),
        "model": Model(name="m", since=datetime(2026, 11, 26, tzinfo=UTC)),
        "later": {"a": 1.5},
    }
    payload = arguments.encoded(arguments.bound((), given))
    assert arguments.decoded(payload) == given
    assert msgspec.json.decode(payload)["price"] == "1.10"
    assert arguments.result(b'[1,"2.50"]') == (1, Decimal("2.50"))


def test_a_default_is_left_to_the_function() -> None:
    def task(a: int, b: int | None = None) -> None: ...

    arguments = Arguments("task", task)
    assert arguments.encoded(arguments.bound((1,), {})) == b'{"a":1}'
    assert arguments.decoded(b'{"a":1}') == {"a": 1}
    assert arguments.decoded(b'{"a":1,"b":null}') == {"a": 1, "b": None}


@pytest.mark.parametrize(
    ("args", "kwargs", "told"),
    [
        (("x",), {}, r"the task t\(n: int, who: str = 'me'\) -> None: Expected `int`, got `str`"),
        ((), {}, "missing a required argument: 'n'"),
        ((1, "a", 2), {}, "too many positional arguments"),
        ((1,), {"nobody": 1}, "unexpected keyword argument 'nobody'"),
        ((object(),), {}, "an argument of the task t: there is no JSON for object"),
        ((float("nan"),), {}, "Expected `int`, got `null`"),
        (("\ud800",), {}, "surrogates not allowed"),
        ((True,), {}, "Expected `int`, got `bool`"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is_sent(
    args: tuple[Any, ...], kwargs: dict[str, Any], told: str
) -> None:
    def task(n: int, who: str = "me") -> None: ...

    arguments = Arguments("t", task)
    with pytest.raises(UsageError, match=told):
        arguments.encoded(arguments.bound(args, kwargs))


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b"{", b'{"n":1,"x":2}', b"{}", b'{"n":"1"}', b"\xff", b"[" * 100_000]
)
def test_what_does_not_fit_is_refused_where_it_arrives(payload: bytes) -> None:
    def task(n: int) -> None: ...

    with pytest.raises((msgspec.MsgspecError, RecursionError, UnicodeDecodeError)):
        Arguments("t", task).decoded(payload)


def test_arguments_without_a_name_are_refused_at_once() -> None:
    def many(*some: int) -> None: ...
    def more(**some: int) -> None: ...
    def places(a: int, /) -> None: ...

    for function, shown in ((many, r"\*some: int"), (more, r"\*\*some: int"), (places, "a: int")):
        with pytest.raises(UsageError, match=f"the task t takes {shown}, which has no name"):
            Arguments("t", function)
