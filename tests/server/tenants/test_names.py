"""Names in a namespace: no field that holds one is forgotten, and what is put on is taken off."""

import inspect
import json
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.support.each import each
from turnabout.server.tenants.namespaces import (
    ANSWERS_NAME,
    CHANGES,
    NAMED,
    inside,
    outside,
    outside_error,
)
from turnabout.server.verbs import NamespaceList
from turnabout.words import entities, limits, outcomes, policy, records, schedules, verbs
from turnabout.words.administration import ADMINISTRATION
from turnabout.words.errors import Busy, QueueNotFound, TooManyRequests, UsageError
from turnabout.words.namespaces import NO_NAMESPACE, plain, stored
from turnabout.words.value import replace, unchecked

TEXTS = {
    "AttemptError": {"error", "worker"},
    "ChannelDelete": {"channel"},
    "ChannelFull": {"channel"},
    "ChannelPolicy": {"channel"},
    "ChannelShare": {"channel"},
    "ChannelStats": {"channel"},
    "Delivery": {"channel", "content_type", "headers_json"},
    "Ending": {"error"},
    "Event": {"channel", "cursor"},
    "EventPage": {"cursor"},
    "Events": {"cursor"},
    "Failure": {"error", "worker"},
    "Fairness": {"find"},
    "History": {"channel", "cursor", "error"},
    "HistoryEntry": {"channel", "content_type", "error", "headers"},
    "HistoryPage": {"cursor"},
    "Note": {"text"},
    "Origin": {"first_error", "last_error", "reason"},
    "Outgoing": {"channel", "content_type", "dedup_key", "headers"},
    "Peek": {"channel"},
    "Peeked": {"channel", "content_type", "error", "headers"},
    "Policy": {"pause_reason"},
    "PolicyGet": {"channel"},
    "PolicyList": {"after"},
    "PolicySet": {"channel", "changes"},
    "Purge": {"channel"},
    "QueueSettings": {"labels", "pause_reason"},
    "QueueStats": {"pause_reason"},
    "Redrive": {"started_by"},
    "RedriveFilter": {"channel", "error"},
    "RedriveStart": {"started_by"},
    "Result": {"content_type"},
    "Schedule": {"cron", "zone"},
    "Turn": {"channel"},
    "WorkerEntry": {"worker"},
    "WorkerReport": {"worker"},
    "WorkerState": {"host", "version"},
}
"""Fields of text that never hold the name of a queue or schedule. Whoever adds a field of text
adds it here, or to `NAMED`.
"""

NAMES = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,20}\Z")
NAMESPACES = NAMES | st.just(NO_NAMESPACE)


def parts(hint: Any) -> Iterator[Any]:
    """The plain types that a type hint is made of; a Mapping is one."""
    origin = get_origin(hint)
    if origin is Literal:
        return
    if origin in (Union, types.UnionType, tuple):
        for part in get_args(hint):
            if part is not ...:
                yield from parts(part)
    else:
        yield origin or hint


def is_record(kind: Any) -> bool:
    return hasattr(kind, "__struct_fields__") or hasattr(kind, "_fields")


def fields(kind: Any) -> dict[str, list[Any]]:
    """The fields of a value or a named tuple, each with its plain types."""
    spaces = (entities, outcomes, policy, records, schedules, verbs)
    names = {name: value for module in spaces for name, value in vars(module).items()}
    base = kind if inspect.get_annotations(kind) else kind.__mro__[1]
    return {
        name: list(parts(hint))
        for name, hint in typing.get_type_hints(base, localns=names).items()
        if get_origin(hint) is not typing.ClassVar
    }


def answer_of(verb: Any) -> Any:
    (base,) = verb.__orig_bases__
    return get_args(base)[0]


def reach(hint: Any, seen: set[Any]) -> set[Any]:
    """All values that can be in one of that type, itself included."""
    for part in parts(hint):
        if is_record(part) and part not in seen:
            seen.add(part)
            for held in fields(part).values():
                for inner in held:
                    reach(inner, seen)
    return seen


VALUES = sorted(
    {one for verb in verbs.VOCABULARY for one in reach(verb, set())}
    | {one for verb in verbs.VOCABULARY for one in reach(answer_of(verb), set())},
    key=lambda kind: kind.__name__,
)


def test_the_walk_sees_what_there_is():
    assert {verbs.Send, outcomes.Dead, entities.Origin, schedules.Schedule} <= set(VALUES)
    assert str in fields(verbs.Send)["queue"]
    assert Mapping in fields(verbs.QueueUpdate)["changes"]
    assert Mapping in fields(entities.Peeked)["headers"]


@each("kind", VALUES)
def test_each_field_of_text_is_known_to_hold_a_name_or_not(kind):
    named, innocent = set(NAMED.get(kind, {})), TEXTS.get(kind.__name__, set())
    for name, held in fields(kind).items():
        if str in held or Mapping in held:
            assert (name in named) != (name in innocent), (
                f"{kind.__name__}.{name} is text: does it hold the name of a queue or schedule? "
                "Then NAMED in server/tenants/namespaces.py has to tell; else TEXTS here"
            )
        if any(part in NAMED for inner in held for part in reach(inner, set())):
            assert name in named, f"{kind.__name__}.{name} holds a value with a name in it"


def test_no_word_is_told_in_vain():
    by_name = {kind.__name__: kind for kind in VALUES}
    assert set(NAMED) <= set(VALUES)
    assert set(TEXTS) <= set(by_name)
    for kind, named in NAMED.items():
        assert set(named) <= set(fields(kind)), kind
    for name, innocent in TEXTS.items():
        assert innocent <= set(fields(by_name[name])), name


def test_settings_that_hold_a_name_are_known_as_changes():
    assert set(NAMED[policy.QueueSettings]) == set(CHANGES)


@each("verb", verbs.VOCABULARY)
def test_it_is_known_which_answers_hold_names(verb):
    holds = any(kind in NAMED for kind in reach(answer_of(verb), set()))
    assert (verb in ANSWERS_NAME) == holds


# --- there and back ------------------------------------------------------------------------------


def made(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a kind with names in all the fields that are for names."""
    if kind is entities.Delivery:
        return made(entities.Origin).map(delivered)
    how = NAMED.get(kind, {})
    given = {}
    for field in structs.fields(kind):
        match how.get(field.name):
            case "name":
                given[field.name] = NAMES
            case "or none":
                given[field.name] = st.none() | NAMES
            case "namespace":
                given[field.name] = st.none()
            case "changes":
                given[field.name] = st.dictionaries(
                    st.sampled_from(["dead_letter", "lease_seconds"]), NAMES
                )
            case "value" | "values" as form:
                inner = [p for p in fields(kind)[field.name] if p in NAMED]
                value = st.one_of([made(p) for p in inner])
                given[field.name] = value if form == "value" else st.tuples(value, value)
            case None:
                given[field.name] = st.just(PLAIN.get(field.name, field.name))
    return st.builds(kind, **given)


def delivered(origin: entities.Origin) -> entities.Delivery:
    """A message with that story."""
    story = json.dumps(msgspec.to_builtins(origin))
    return entities.Delivery(1, 1, "", 0, b"", "", None, None, 0, 0, 0, story, 0, 0)


PLAIN: dict[str, Any] = {
    "message": entities.Outgoing(b"x"),
    "cron": "* * * * *",
    "every_ms": None,
    "at": None,
    "anchor": 0,
    "missed": "once",
    "overlap": "allow",
    "gap": "after",
    "fold": "first",
    "acks": (),
    "receipts": (),
    "results": (),
    "errors": (),
    "paused": False,
    **{f.name: f.default for f in structs.fields(policy.QueueSettings) if f.name != "policy"},
    "policy": policy.NO_POLICY,
}
"""What stands in the other fields, where it is checked."""


def names_in(value: Any) -> Iterator[str]:
    """All names in a value, by `NAMED`."""
    if isinstance(value, entities.Delivery):
        yield from names_in(value.origin)
        return
    for name, how in NAMED.get(type(value), {}).items():
        held = getattr(value, name)
        if how in ("name", "or none") and held is not None:
            yield held
        elif how == "changes":
            yield from [held[key] for key in CHANGES if key in held]
        elif how in ("value", "values"):
            for inner in held if how == "values" else [held]:
                yield from names_in(inner)


def put_on(value: Any, namespace: str) -> Any:
    """An answer as a store would give it: written without `inside`, to hold it against."""
    if isinstance(value, entities.Delivery):
        return delivered(put_on(value.origin, namespace))
    changes: dict[str, Any] = {}
    for name, how in NAMED.get(type(value), {}).items():
        held = getattr(value, name)
        if how in ("name", "or none") and held is not None:
            changes[name] = f"{namespace}/{held}" if namespace else held
        elif how == "value":
            changes[name] = put_on(held, namespace)
        elif how == "values":
            changes[name] = tuple(put_on(inner, namespace) for inner in held)
    return replace(value, **changes)


@pytest.mark.slow
@pytest.mark.parametrize("kind", verbs.VOCABULARY, ids=lambda kind: kind.__name__)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_a_verb_inside_has_stored_names_and_comes_out_as_it_was(kind, data):
    verb, namespace = data.draw(made(kind)), data.draw(NAMESPACES)
    there = inside(verb, namespace)
    assert list(names_in(there)) == [
        f"{namespace}/{name}" if namespace else name for name in names_in(verb)
    ]
    if "namespace" in NAMED[kind]:
        assert there.namespace == namespace
    assert outside(there, namespace) == verb


ANSWERED = [kind for kind in NAMED if kind not in verbs.VOCABULARY]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ANSWERED, ids=lambda kind: kind.__name__)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_an_answer_outside_has_plain_names_and_no_other_s(kind, data):
    answer, namespace = data.draw(made(kind)), data.draw(NAMESPACES)
    kept = put_on(answer, namespace)
    assert outside(kept, namespace) == answer
    assert outside((kept, kept), namespace) == (answer, answer)
    other = data.draw(NAMESPACES.filter(lambda name: name != namespace))
    assert set(names_in(outside(put_on(answer, other), namespace))) <= {""}


def test_answers_without_names_are_passed_on_as_they_are():
    for answer in ((outcomes.Acked(),), outcomes.Sent((1,)), None, True, 5, "acme/x"):
        assert outside(answer, "acme") == answer
    delivery = entities.Delivery(1, 1, "acme/x", 0, b"", "", None, None, 0, 0, 0, None, 0, 0)
    assert outside((delivery,), "acme") == (delivery,)


# --- what is refused -----------------------------------------------------------------------------

BAD = ["acme/x", "/x", "x/", "a/b/c", "", ".", "../x", "x\x00", "é", " x", "x y", "x" * 81, "%2F"]


@each("name", BAD)
@each("namespace", [NO_NAMESPACE, "acme"])
def test_what_is_no_plain_name_is_refused_wherever_it_stands(name, namespace):
    schedule = schedules.Schedule("s", "q", entities.Outgoing(b""), every_ms=1000)
    bad = [
        verbs.Send(name, ()),
        verbs.Stats(name),
        verbs.RedriveStart("x", target=name),
        verbs.QueueUpdate("x", {"dead_letter": name}),
        verbs.ScheduleDelete(name),
        verbs.ScheduleList(schedule=name),
        verbs.ScheduleSet(_with(schedule, queue=name), None),
        verbs.ScheduleSet(_with(schedule, name=name), None),
        verbs.QueueCreate("x", _with(policy.QueueSettings(), dead_letter=name)),
    ]
    for verb in bad:
        with pytest.raises(UsageError):
            inside(verb, namespace)


def _with(value: Any, **changes: Any) -> Any:
    """A value with fields that its class would refuse."""
    return unchecked(value, changes)


def test_a_namespace_comes_from_nobody_s_words():
    for verb in (verbs.Stats(namespace="bob"), verbs.RedriveStep(1, ""), verbs.QueueList("")):
        with pytest.raises(UsageError, match="token"):
            inside(verb, "acme")


def test_no_door_carries_administration():
    assert ADMINISTRATION
    with pytest.raises(UsageError, match="owner of the database"):
        inside(NamespaceList(), NO_NAMESPACE)
    for kind in ADMINISTRATION:
        assert kind not in NAMED


def test_a_schedule_that_would_not_be_read_again_is_refused():
    """The marks on its messages are longer in the database."""
    room = limits.HEADERS_BYTES_MAX - len("schedule" + "s" + "due-at") - 16
    tight = entities.Outgoing(b"", headers={"h": "x" * (room - 1)})
    schedule = schedules.Schedule("s", "q", tight, every_ms=1000)
    assert inside(verbs.ScheduleSet(schedule, None), NO_NAMESPACE)
    with pytest.raises(UsageError):
        inside(verbs.ScheduleSet(schedule, None), "a-long-namespace")


def test_namespaces_whose_names_begin_alike_are_apart():
    for other in ("acme2/x", "acm/x", "acme.eu/x", "Acme/x", "x", "acme"):
        assert plain(other, "acme") is None
    assert plain("acme/x", "acme") == "x"
    assert plain("acme/x", NO_NAMESPACE) is None
    assert stored("x", "acme") == "acme/x"


# --- errors --------------------------------------------------------------------------------------


def test_errors_tell_plain_names():
    told = outside_error(QueueNotFound("acme/x"), "acme")
    assert isinstance(told, QueueNotFound)
    assert told.queue == "x"
    assert str(told) == str(QueueNotFound("x"))
    text = "'acme/x-dead' is where dead messages of 'acme/x' go: delete acme/x first"
    assert str(outside_error(UsageError(text), "acme")) == text.replace("acme/", "")


@each("namespace", ["acme", NO_NAMESPACE])
def test_errors_tell_no_name_of_another_namespace(namespace):
    for other in ("bob/x", "xacme/x", "acme2/x", "x.acme/x"):
        told = outside_error(UsageError(f'{other!r} and "{other}" are tied'), namespace)
        assert str(told) == "another one and another one are tied"
        assert "bob" not in str(outside_error(QueueNotFound(other), namespace))


def test_an_error_that_many_hold_is_left_as_it_is():
    error = TooManyRequests("acme/x waits", 2.5)
    told = outside_error(error, "acme")
    assert (type(told), str(told), told.retry_after_seconds) == (TooManyRequests, "x waits", 2.5)
    assert str(error) == "acme/x waits"
    assert str(outside_error(Busy("text/plain"), "acme")) == "text/plain"
