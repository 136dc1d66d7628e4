"""The table of routes, the shapes and the errors leave nothing out."""

import inspect
import json
from typing import Any

import pytest

from tests.support.each import each
from turnabout import wire
from turnabout.wire.plans import answer_of, plan_of
from turnabout.wire.routes import NOT_ON_THE_WIRE, REFUSALS
from turnabout.wire.shapes import parts_of, shape_of
from turnabout.words import entities, errors, outcomes, policy, records, schedules
from turnabout.words import verbs as v
from turnabout.words.errors import QueueNotFound, TurnaboutError, UsageError

VALUES = [
    pytest.param(kind, id=kind.__name__)
    for module in (entities, outcomes, policy, records, schedules)
    for _, kind in inspect.getmembers(module, inspect.isclass)
    if kind.__module__ == module.__name__
    and (hasattr(kind, "__struct_fields__") or kind is entities.Delivery)
]


def all_errors(kind: type[TurnaboutError] = TurnaboutError) -> list[type[TurnaboutError]]:
    found = [kind] if kind.__module__ == errors.__name__ else []
    return found + [one for below in kind.__subclasses__() for one in all_errors(below)]


def test_each_verb_has_one_route() -> None:
    assert [row.verb for row in wire.ROUTES] == list(v.VOCABULARY)
    places = [(row.method, path) for row in wire.ROUTES for path in (row.path, row.also) if path]
    assert len(set(places)) == len(places)


@each("kind", v.VOCABULARY)
def test_each_field_of_a_verb_has_its_place(kind: Any) -> None:
    plan, route = plan_of(kind), wire.ROUTE_OF[kind]
    names = {part.name for part in parts_of(kind)}
    named = {*route.in_path, *route.query}
    if kind is not v.ScheduleSet:
        assert named <= names
        assert {part.name for part in (*plan.parameters.values(), *plan.body)} == (
            names - NOT_ON_THE_WIRE
        ) | ({"wait_seconds"} if route.waits else set())
    if route.method == "GET":
        assert not plan.body
    assert answer_of(kind).type


@each("kind", VALUES)
def test_each_value_has_a_shape(kind: Any) -> None:
    assert shape_of(kind).type


def test_refusals_are_409() -> None:
    assert {kind.__name__ for kind in REFUSALS} == {"ChannelFull", "QueueFull", "AlreadyExists"}
    assert wire.status_of(outcomes.QueueFull(1, 1)) == 409
    assert wire.status_of(outcomes.Sent((1,))) == 200
    assert wire.status_of((outcomes.LeaseLost("gone"),)) == 200


@each("kind", all_errors())
def test_an_error_comes_back_as_the_same_class(kind: type[TurnaboutError]) -> None:
    error = kind("emails")
    status, body = wire.error_body(error)
    assert status in range(400, 600)
    said = json.loads(body)["error"]
    assert said["code"] == error.code
    assert said["retryable"] is error.retryable
    back = wire.load_error(status, body)
    assert type(back) is kind
    assert str(back) == said["message"]
    if isinstance(back, QueueNotFound):
        assert back.queue == "emails"
    assert (wire.retry_after(error) is not None) is error.retryable


@each("kind", [k for k in all_errors() if not issubclass(k, UsageError)])
def test_what_came_from_below_is_not_told(kind: type[TurnaboutError]) -> None:
    error = kind("cannot reach postgresql://secret")
    error.__cause__ = OSError("secret")
    assert b"secret" not in wire.error_body(error)[1]


def test_a_bug_is_not_told() -> None:
    status, body = wire.error_body(ZeroDivisionError("secret"))
    assert status == 500
    assert b"secret" not in body


def test_the_time_to_wait_comes_back() -> None:
    error = errors.TooManyRequests("slowly", 2.25)
    status, body = wire.error_body(error)
    back = wire.load_error(status, body)
    assert isinstance(back, errors.TooManyRequests)
    assert back.retry_after_seconds == 2.25
    assert wire.retry_after(error) == "3"


@each(
    ("status", "kind"),
    [(400, "UsageError"), (404, "UsageError"), (403, "Forbidden"), (502, "Uncertain"),
     (503, "Unavailable"), (429, "Unavailable"), (500, "Uncertain")],
)  # fmt: skip
def test_an_answer_of_somebody_else(status: int, kind: str) -> None:
    assert type(wire.load_error(status, b"<html>")).__name__ == kind
    assert (
        type(
            wire.load_error(
                status, b'{"error": {"code": "new", "message": "x", "retryable": false}}'
            )
        ).__name__
        == kind
    )
