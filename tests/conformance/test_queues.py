"""Queues: made, changed, listed, deleted and made again."""

import pytest

from tests.conformance.steps import counts, is_empty, one, sent, taken, texts
from tests.support.each import each
from turnabout import (
    AlreadyExists,
    Created,
    Dead,
    Deleted,
    LeaseLost,
    Policy,
    QueueNotFound,
    QueueSettings,
    Rate,
    Receipt,
    UsageError,
)
from turnabout.words import verbs as v

SETTINGS = {
    "lease_seconds": 12.5,
    "max_attempts": 9,
    "backoff_seconds": 0.25,
    "backoff_max_seconds": 100.0,
    "backoff_jitter": 0.5,
    "delay_seconds": 0.001,
    "paused": True,
    "history_seconds": 60.0,
    "policy": Policy(max_concurrency=2, rate=Rate(3, 1.5, 2), max_size=4, weight=7),
    "labels": {"team": "mail", "näme\n=": "", "z": "\x01\"'\\ 😀"},
}


@pytest.mark.driving
def test_a_queue_keeps_the_settings_it_was_made_with(door, clock):
    queue = door.mq.queue(door.name_of_a_queue())
    outcome = queue.create(**SETTINGS)
    assert isinstance(outcome, Created)
    assert outcome.queue.name == queue.name
    assert outcome.queue.dead_letter == f"{queue.name}-dead"
    assert outcome.queue.created_at == outcome.queue.modified_at == clock.now
    for settings in (outcome.queue.settings, queue.settings()):
        for name, value in SETTINGS.items():
            assert getattr(settings, name) == value, name


def test_a_queue_without_settings_has_the_defaults(door):
    queue = door.mq.queue(door.name_of_a_queue())
    queue.create()
    got, default = queue.settings(), QueueSettings()
    for name in QueueSettings.__struct_fields__:
        if name != "dead_letter":
            assert getattr(got, name) == getattr(default, name), name


@pytest.mark.driving
def test_a_queue_that_is_there_is_left_as_it_is(queue):
    queue.update(lease_seconds=7)
    outcome = queue.create(lease_seconds=99)
    assert isinstance(outcome, AlreadyExists)
    assert outcome.queue.settings.lease_seconds == 7
    assert queue.settings().lease_seconds == 7


def test_its_dead_letter_queue_comes_with_it(door):
    queue = door.fresh()
    grave = door.mq.queue(f"{queue.name}-dead")
    assert grave.settings().max_attempts is None
    assert counts(grave).sent == 0
    entries = {entry.name: entry for entry in door.mq.queues()}
    assert entries[queue.name].dead_letter == grave.name
    assert entries[grave.name].dead_letter is None


@pytest.mark.driving
def test_settings_change_and_the_others_stay(queue):
    before = queue.settings()
    after = queue.update(lease_seconds=99, max_attempts=None)
    assert after == before.changed({"lease_seconds": 99.0, "max_attempts": None})
    assert queue.settings() == after


def test_changing_nothing_changes_nothing(queue):
    assert queue.update() == queue.settings()


def test_changed_settings_hold_for_what_comes_next(queue, clock):
    queue.update(lease_seconds=2, delay_seconds=5)
    sent(queue, "a")
    assert is_empty(queue)
    clock.advance(5)
    assert one(queue).lease_until == clock.now + 2_000


@each(
    "changes",
    [
        {"lease_seconds": 0},
        {"lease_seconds": "5"},
        {"max_attempts": 0},
        {"max_attempts": True},
        {"max_attempts": 1.5},
        {"backoff_seconds": -1},
        {"backoff_max_seconds": float("inf")},
        {"backoff_jitter": 1.1},
        {"backoff_jitter": -0.1},
        {"delay_seconds": -1},
        {"history_seconds": -1},
        {"paused": "yes"},
        {"fifo": 1},
        {"dead_letter": ""},
        {"dead_letter": 5},
        {"policy": {"weight": 0}},
        {"policy": {"nonsense": 1}},
        {"policy": None},
        {"nonsense": 1},
    ],
)
def test_wrong_settings_are_refused_and_change_nothing(door, queue, changes):
    before = queue.settings()
    with pytest.raises(UsageError):
        queue.update(**changes)
    assert queue.settings() == before
    missing = door.mq.queue(door.name_of_a_queue())
    with pytest.raises(UsageError):
        missing.create(**changes)
    with pytest.raises(QueueNotFound):
        missing.settings()


def test_some_fields_of_the_default_policy_change_and_the_others_stay(door):
    queue = door.fresh(policy=Policy(max_concurrency=2, weight=3))
    assert queue.update(policy={"weight": 5}).policy == Policy(max_concurrency=2, weight=5)
    assert queue.update(policy=Policy(max_size=1)).policy == Policy(max_size=1)


def test_fifo_is_fixed_at_creation(door):
    queue = door.fresh(fifo=True)
    assert queue.settings().fifo
    with pytest.raises(UsageError):
        queue.update(fifo=False)
    assert queue.settings().fifo


@pytest.mark.driving
def test_queues_are_listed_by_name(door):
    names = [door.fresh().name for _ in range(3)]
    listed = [entry.name for entry in door.mq.queues()]
    assert listed == sorted(listed)
    assert set(names) <= set(listed)
    assert {s.queue for s in door.mq.stats()} == set(listed)


# --- names ---


@each("name", ["a", "A.b_c-9", "0", "x" * 80, "x" * 80 + "-dead"])
@pytest.mark.driving
def test_names_at_their_limits_are_taken(door, name):
    queue = door.mq.queue(name)
    assert taken(queue, "x").queue.name == name


@each(
    "name",
    [
        "",
        "x" * 81,
        ".a",
        "-a",
        "_a",
        "a b",
        "a/b/c",
        "/b",
        "a/",
        "é",
        "a\n",
        "a\x00",
        None,
        5,
        b"a",
    ],
)
def test_wrong_names_are_refused(door, name):
    with pytest.raises(UsageError):
        door.mq.queue(name)


def test_names_differ_by_case(door):
    lower, upper = door.mq.queue("case"), door.mq.queue("CASE")
    sent(lower, "x")
    sent(upper, "y", "z")
    assert (counts(lower).sent, counts(upper).sent) == (1, 2)


# --- deletion ---


@pytest.mark.driving
def test_a_deleted_queue_is_gone_with_its_messages(door):
    queue = door.fresh()
    sent(queue, "a", "b", "c")
    queue.receive(1)
    assert queue.delete() == Deleted(3)
    for verb in (queue.settings, queue.receive, queue.peek, queue.stats, queue.delete):
        with pytest.raises(QueueNotFound):
            verb()
    assert queue.name not in [entry.name for entry in door.mq.queues()]


def test_a_queue_that_was_made_again_knows_nothing_of_the_old_one(door):
    queue = door.fresh()
    (old_id,) = sent(queue, "a", channel="c")
    queue.channel("c").set_policy(Policy(paused=True))
    queue.channel("d").set_policy(Policy(max_concurrency=1))
    old = taken(queue, "b", channel="d")
    queue.delete()
    sent(queue, "new", channel="c")
    assert counts(queue).sent == 1
    assert queue.policies() == ()
    got = one(queue)
    assert got.text() == "new"
    assert got.id > old_id
    assert old.ack() == LeaseLost("gone")
    assert queue.ack([Receipt(old_id, 1)]) == (LeaseLost("gone"),)
    assert counts(queue).leased == 1


def test_a_dead_letter_queue_in_use_cannot_be_deleted(door):
    queue = door.fresh(max_attempts=1)
    grave = door.mq.queue(f"{queue.name}-dead")
    with pytest.raises(UsageError):
        grave.delete()
    assert taken(queue, "a").fail() == Dead(grave.name)
    queue.delete()
    assert texts(grave.receive()) == ["a"]
    assert grave.delete() == Deleted(1)


@each(
    "verb",
    [
        lambda q: q.settings(),
        lambda q: q.update(paused=True),
        lambda q: q.pause(),
        lambda q: q.delete(),
        lambda q: q.stats(),
        lambda q: q.channels(),
        lambda q: q.peek(),
        lambda q: q.purge(),
        lambda q: q.defer([]) or q.release([Receipt(1, 1)]),
        lambda q: q.extend([Receipt(1, 1)]),
    ],
)
@pytest.mark.driving
def test_a_missing_queue_is_said(door, verb):
    with pytest.raises(QueueNotFound, match="nosuch"):
        verb(door.mq.queue("nosuch"))


def entry(queue):
    return next(e for e in queue._store.run(v.QueueList()) if e.name == queue.name)


@pytest.mark.driving
def test_modified_at_is_the_last_change_of_the_settings(queue, clock):
    made = clock.now
    clock.advance(1)
    assert queue.update(lease_seconds=7).lease_seconds == 7
    changed = clock.now
    clock.advance(1)
    queue.update(lease_seconds=7)
    assert (entry(queue).created_at, entry(queue).modified_at) == (made, changed), "it was so"
    taken(queue, "a").ack()
    sent(queue, "b")
    queue.channel("c").set_policy(Policy(weight=2))
    assert entry(queue).modified_at == changed, "no setting of the queue"
    for act in (queue.pause, queue.resume, lambda: queue.update(labels={"a": "b"})):
        clock.advance(1)
        act()
        assert entry(queue).modified_at == clock.now


@pytest.mark.driving
def test_labels_are_replaced_as_a_whole_and_read_by_nobody(queue, clock):
    assert queue.settings().labels is None
    assert queue.update(labels={"b": "2", "a": "1"}).labels == {"a": "1", "b": "2"}
    clock.advance(1)
    queue.update(labels={"a": "1", "b": "2"})
    assert entry(queue).modified_at == clock.now - 1_000, "the same, in another order"
    assert queue.update(max_attempts=3).labels == {"a": "1", "b": "2"}
    assert queue.update(labels={"c": ""}).labels == {"c": ""}
    assert queue.update(labels={}).labels is None
    queue.update(labels={"a": "1"})
    assert queue.update(labels=None).labels is None


def test_labels_have_16_kib_of_json(queue):
    most = {"n" * 255: "x" * (16_384 - 255 - 7)}
    assert queue.update(labels=most).labels == most
    wide = {"ü" * 255: "\x01" * 2_600}  # six bytes each
    assert queue.update(labels=wide).labels == wide
    with pytest.raises(TypeError):
        queue.settings().labels["a"] = "b"


@each(
    "labels",
    [
        *([], "a=b", {"a": 1}, {1: "a"}, {"a": None}, {"": "a"}, {"n" * 256: ""}),
        *({"a": "\0"}, {"\0": ""}, {"a": "\ud800"}, {"\ud800": ""}),
        *({"n": "x" * (16_384 - 7)}, {"a": "\x01" * 2_800}, {str(n): "" for n in range(2_000)}),
    ],
)
def test_wrong_labels_are_refused(queue, labels):
    with pytest.raises(UsageError):
        queue.update(labels=labels)
    with pytest.raises(UsageError):
        QueueSettings(labels=labels)
