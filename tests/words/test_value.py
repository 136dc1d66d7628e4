"""Values: compared, hashed and shown by their fields; small; fit to be copied and sent."""

import copy
import pickle
from dataclasses import replace

import pytest

from tests.support.each import each
from turnabout import Policy, Rate, Sent
from turnabout.words.entities import Outgoing
from turnabout.words.value import value
from turnabout.words.verbs import VOCABULARY, Purge


@value
class Twin:
    """As Sent, but of another class."""

    ids: tuple[int, ...]
    duplicates: tuple[int, ...] = ()
    replaced: tuple[int, ...] = ()


def test_equal_fields_of_one_class_are_equal():
    assert Policy(weight=2) == Policy(weight=2)
    assert hash(Policy(weight=2)) == hash(Policy(weight=2))
    assert Policy(weight=2) != Policy(weight=3)
    assert Sent((1,)) != Twin((1,))
    assert Sent((1,)) != ((1,), (), ())
    assert {Sent((1,)), Sent((1,)), Twin((1,))} == {Sent((1,)), Twin((1,))}


def test_it_is_shown_as_it_would_be_written():
    assert repr(Sent((1, 2), duplicates=(1,))) == "Sent(ids=(1, 2), duplicates=(1,))"
    assert repr(Policy(rate=Rate(3, burst=2))) == "Policy(rate=Rate(count=3, burst=2))"
    assert repr(Policy()) == "Policy()"


def test_there_is_no_room_for_anything_else():
    with pytest.raises(AttributeError):
        Policy().wieght = 3  # pyright: ignore[reportAttributeAccessIssue]
    assert not any(hasattr(verb, "__dict__") for verb in map(object.__new__, VOCABULARY))


@each("given", [Sent((1,), (0,)), Policy(weight=2), Purge("q", channel="c")])
def test_it_can_be_copied_and_pickled(given):
    assert pickle.loads(pickle.dumps(given)) == given
    assert copy.deepcopy(given) == given
    assert replace(given) == given


def test_a_replaced_field_is_checked_again():
    with pytest.raises(ValueError, match="priority"):
        replace(Outgoing(b""), priority=1.5)
