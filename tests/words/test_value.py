"""Values: compared, hashed and shown by their fields; small; fit to be copied and sent."""

import copy
import pickle

import pytest

from tests.support.each import each
from turnabout import Policy, Rate, Sent, UsageError
from turnabout.words import entities, outcomes, policy, records, verbs
from turnabout.words.entities import Outgoing
from turnabout.words.value import Value, replace
from turnabout.words.verbs import VOCABULARY, Purge


class SameFields(Value):
    """As Sent, but of another class."""

    ids: tuple[int, ...]
    duplicates: tuple[int, ...] = ()
    replaced: tuple[int, ...] = ()


HEADED = Outgoing(b"", headers={"a": "1"})


def test_equal_fields_of_one_class_are_equal():
    assert Policy(weight=2) == Policy(weight=2)
    assert hash(Policy(weight=2)) == hash(Policy(weight=2))
    assert Policy(weight=2) != Policy(weight=3)
    assert Sent((1,)) != SameFields((1,))
    assert Sent((1,)) != ((1,), (), ())
    assert {Sent((1,)), Sent((1,)), SameFields((1,))} == {Sent((1,)), SameFields((1,))}


def test_it_is_shown_as_it_would_be_written():
    assert repr(Sent((1, 2), duplicates=(1,))) == "Sent(ids=(1, 2), duplicates=(1,))"
    assert repr(Policy(rate=Rate(3, burst=2))) == "Policy(rate=Rate(count=3, burst=2))"
    assert repr(Policy()) == "Policy()"


def test_there_is_no_room_for_anything_else():
    with pytest.raises(AttributeError):
        Policy().wieght = 3  # pyright: ignore[reportAttributeAccessIssue]
    assert not any("__dict__" in dir(verb) for verb in VOCABULARY)


@each(
    ("given", "field", "wrong"),
    [
        (Policy(max_concurrency=2), "weight", -5),
        (Outgoing(b""), "priority", 10**9),
        (Outgoing(b""), "channel", "x\0y"),
        (Outgoing(b""), "headers", {"a": 1}),
        (Outgoing(b""), "payload", "text"),
        (Sent((1,)), "ids", ()),
        (Purge("q"), "queue", "other"),
        (SameFields((1,)), "ids", ()),
    ],
)
def test_nothing_is_changed_that_was_checked(given, field, wrong):
    before, places = repr(given), {given: 1}
    with pytest.raises(AttributeError, match="immutable type"):
        setattr(given, field, wrong)
    with pytest.raises(AttributeError, match="immutable type"):
        delattr(given, field)
    assert repr(given) == before
    assert given in places


def test_every_value_refuses():
    modules = (entities, outcomes, policy, records, verbs)
    kinds = [kind for module in modules for kind in vars(module).values() if isinstance(kind, type)]
    values = [kind for kind in kinds if hasattr(kind, "__struct_fields__")]
    assert len(values) > 60
    assert [kind for kind in values if not kind.__struct_config__.frozen] == []


def test_headers_are_the_message_s_own():
    headers = {"a": "1"}
    message = Outgoing(b"", headers=headers)
    headers["b"] = "x" * 100_000
    assert message.headers == {"a": "1"}
    with pytest.raises(TypeError):
        message.headers["a"] = "x\0y"
    assert repr(message) == "Outgoing(payload=b'', headers=mappingproxy({'a': '1'}))"


def test_a_payload_of_text_is_refused_in_our_words():
    with pytest.raises(UsageError, match="payload is bytes here, not str"):
        Outgoing("text")  # type: ignore[arg-type]


@each("given", [Sent((1,), (0,)), Policy(weight=2), Purge("q", channel="c"), HEADED])
def test_it_can_be_copied_and_pickled(given):
    assert pickle.loads(pickle.dumps(given)) == given
    assert copy.deepcopy(given) == given
    assert replace(given) == given


def test_a_replaced_field_is_checked_again():
    with pytest.raises(ValueError, match="priority"):
        replace(Outgoing(b""), priority=1.5)
