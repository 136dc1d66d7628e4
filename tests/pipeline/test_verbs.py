"""A pipeline's values: each limit at, below and above; wrong types are refused."""

import pickle

import pytest

from tests.support.each import each
from turnabout import UsageError, message
from turnabout.pipeline import verbs as p
from turnabout.words import limits
from turnabout.words.verbs import VOCABULARY

GOOD = {
    p.SubscriptionOpen: {"subscription": "s", "owner": "host"},
    p.SubscriptionRelease: {"subscription": "s"},
    p.SubscriptionList: {},
    p.EpochLease: {
        "subscription": "s",
        "generation": 1,
        "queues": ("q",),
        "after": 0,
        "max_messages": 10,
        "lease_ms": 1,
    },
    p.EpochPlan: {
        "subscription": "s",
        "generation": 1,
        "epoch": 1,
        "lease_ms": 1,
        "max_plans": 1,
        "error": "",
    },
    p.EpochExtend: {"subscription": "s", "generation": 1, "lease_ms": 1},
    p.Stage: {"attempt": "a", "parts": (p.StagedMessages("q", [b"x"]),)},
    p.Publish: {"sink": "s", "batch": 0, "attempts": ("a",), "messages": 1},
    p.Unstage: {"attempts": ("a",)},
    p.LogNext: {"after": p.START},
    p.LogAt: {"at": 0},
    p.LogCut: {"after": "", "until": "1.1", "parts": 1},
    p.LogLook: {},
    p.LogFiles: {},
    p.LogPurge: {"until": "1.1", "finished_before": 0},
    p.WatermarkSet: {"archive": "a", "position": "1.1", "messages": 0},
    p.WatermarkDelete: {"archive": "a"},
    p.WatermarkList: {},
}
LEASES = [p.EpochLease, p.EpochPlan, p.EpochExtend]


def whole(least, most):
    """Values at the ends, and what is beyond them or no whole number."""
    return [least, most], [least - 1, most + 1, True, None, "1", 1.0]


NAMES = ["a", "a" * 80, "ns/a", "a-dead"], ["", "a" * 81, "/a", "a/b/c", "-a", "ü", None, 1]
TUPLES = [(), ("a",), ("a", "ns/a")], [["a"], ("a", "a"), ("",), (1,), "a", None]
POSITIONS = ["", "1.1", "x" * limits.POSITION_BYTES_MAX]
NO_POSITIONS = ["a\x00", "\ud800", None, 1, "x" * (limits.POSITION_BYTES_MAX + 1)]
OWNERS = ["a", "ü" * 255], ["", "ü" * 256, "a\x00", "\ud800", None, 1]
ID = limits.ID_MAX
CASES = [
    *[(verb, "subscription", *NAMES) for verb in [*LEASES, p.SubscriptionOpen]],
    (p.SubscriptionRelease, "subscription", *NAMES),
    (p.SubscriptionOpen, "owner", *OWNERS),
    *[(verb, "generation", *whole(1, ID)) for verb in LEASES],
    *[(verb, "lease_ms", *whole(1, 604_800_000)) for verb in LEASES],
    (p.EpochLease, "queues", *TUPLES),
    (p.EpochLease, "queues", [tuple(f"q{n}" for n in range(1_000))], []),
    (p.EpochLease, "queues", [], [tuple(f"q{n}" for n in range(1_001))]),
    (p.EpochLease, "after", *whole(0, ID - 1)),
    (p.EpochLease, "beyond", *whole(0, ID - 1)),
    (p.EpochLease, "max_messages", *whole(0, 1_000_000)),
    (p.EpochLease, "max_bytes", [None, 1, ID], [0, -1, ID + 1, True, 1.0, "1"]),
    (p.EpochLease, "parts", *whole(1, 1_000)),
    (p.EpochPlan, "epoch", *whole(1, ID)),
    (p.EpochPlan, "max_plans", *whole(1, limits.INTEGER_MAX)),
    (p.EpochPlan, "error", ["", "a\x00", "x" * 100_000], [None, 1, b"x"]),
    (p.Stage, "attempt", *NAMES),
    (p.Stage, "parts", [(), GOOD[p.Stage]["parts"] * 10_000], []),
    (p.Stage, "parts", [], [GOOD[p.Stage]["parts"] * 10_001]),
    (p.Publish, "sink", *NAMES),
    (p.Publish, "batch", *whole(0, ID)),
    (p.Publish, "attempts", *TUPLES),
    (p.Publish, "messages", *whole(0, ID)),
    (p.Unstage, "attempts", *TUPLES),
    (p.LogNext, "after", POSITIONS, NO_POSITIONS),
    (p.LogNext, "limit", [None, 1, ID], [0, -1, ID + 1, True, "1", 1.0]),
    (p.LogAt, "at", *whole(0, limits.FOREVER_MS)),
    (p.LogCut, "after", POSITIONS, NO_POSITIONS),
    (p.LogCut, "until", POSITIONS, NO_POSITIONS),
    (p.LogCut, "parts", *whole(1, 1_000)),
    (p.LogPurge, "until", POSITIONS, NO_POSITIONS),
    (p.LogPurge, "finished_before", *whole(0, limits.FOREVER_MS)),
    (p.LogPurge, "limit", *whole(1, ID)),
    (p.WatermarkSet, "archive", *NAMES),
    (p.WatermarkSet, "position", POSITIONS[1:], [*NO_POSITIONS, ""]),
    (p.WatermarkSet, "messages", *whole(0, ID)),
    (p.WatermarkDelete, "archive", *NAMES),
]


@each(("verb", "field", "good", "bad"), CASES)
def test_each_field_at_below_and_above_its_limits(verb, field, good, bad):
    for value in good:
        assert verb(**{**GOOD[verb], field: value}) is not None
    for value in bad:
        with pytest.raises(UsageError) as caught:
            verb(**{**GOOD[verb], field: value})
        assert len(str(caught.value)) < 300, "an error never carries a whole value"


def test_staged_messages_name_a_queue_and_come_back_as_they_were():
    made = [message("x"), message(b"y", channel="c", headers={"a": "b"}, delay_seconds=0)]
    staged = p.StagedMessages.of("ns/q", made)
    assert list(staged.messages()) == made
    with pytest.raises(UsageError):
        p.StagedMessages("", [])
    with pytest.raises(UsageError, match="no due_at"):
        p.StagedMessages.of("q", [message("x", due_at=1)])


def test_an_error_s_text_is_kept_in_bounds():
    plan = p.EpochPlan(**{**GOOD[p.EpochPlan], "error": "a\x00" + "x" * 100_000})
    assert len(plan.error) <= limits.ERROR_CHARS_MAX
    assert plan.error.startswith("a\\x00")


def test_all_of_them_are_listed_named_once_and_beside_the_vocabulary():
    assert set(p.VERBS) == set(GOOD)
    names = [verb.name for verb in (*p.VERBS, *VOCABULARY)]
    assert len(set(names)) == len(names)


@each("verb", p.VERBS)
def test_each_is_a_value(verb):
    made = verb(**GOOD[verb])
    assert made == verb(**GOOD[verb])
    if verb is not p.Stage:  # whose columns are lists: it is large
        assert hash(made) == hash(verb(**GOOD[verb]))
    assert pickle.loads(pickle.dumps(made)) == made


def _id(value):
    return value if isinstance(value, str) else getattr(value, "name", "")
