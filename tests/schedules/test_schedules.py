"""Schedules at every door: kept, listed, fired, and what becomes of due times in between."""

from datetime import UTC, datetime

import pytest

import turnabout
from tests.schedules.swept import swept
from tests.support.doors import START
from tests.support.each import each
from turnabout import Outgoing, UsageError
from turnabout.words.outcomes import Fired
from turnabout.words.value import replace
from turnabout.words.verbs import ScheduleFire, ScheduleList, ScheduleSet

MINUTE = 60_000
HOUR = 60 * MINUTE


@pytest.fixture
def schedules(door):
    """The schedules behind the door, of this test only: queues are fresh, the door is not."""
    door.clock.now = max(door.clock.now, START) // HOUR * HOUR + HOUR + 1
    with swept(door.mq) as schedules:
        yield schedules


@pytest.fixture
def hour(schedules, clock):
    """The last full hour."""
    return clock.now // HOUR * HOUR


def due_ats(queue):
    """The due times of the messages there, which are acked."""
    messages = queue.receive(max_messages=1_000)
    for message in messages:
        message.ack()
    return [int(m.headers["due-at"]) for m in messages]


def test_a_schedule_sends_its_message(schedules, queue, clock, hour):
    message = turnabout.message({"n": 1}, channel="c", headers={"a": "b"})
    made = schedules.set("hourly", queue.name, message, every_seconds=3600)
    assert made.next_at == hour + HOUR
    assert (made.last_at, made.last_id, made.sent) == (None, None, 0)
    assert schedules.fire_due() == ()
    clock.now = hour + HOUR - 1
    assert schedules.fire_due() == (), "never early"
    clock.now = hour + HOUR
    (sent,) = schedules.fire_due()
    assert (sent.schedule, sent.queue, sent.due_at) == ("hourly", queue.name, hour + HOUR)
    assert schedules.fire_due() == ()
    (message,) = queue.receive()
    assert message.id == sent.id
    assert message.json() == {"n": 1}
    assert message.channel == "c"
    assert message.headers == {"a": "b", "schedule": "hourly", "due-at": str(hour + HOUR)}
    now = schedules.get("hourly")
    assert (now.next_at, now.last_at, now.last_id, now.sent) == (
        hour + 2 * HOUR, hour + HOUR, sent.id, 1,
    )  # fmt: skip
    assert now.schedule == made.schedule
    assert now.now == clock.now


def test_all_of_the_message_is_kept(schedules, queue, clock, hour):
    fields = {
        "channel": "ч",
        "priority": -3,
        "headers": {"k": "ü"},
        "content_type": "text/plain; charset=utf-8",
        "ttl_seconds": 90,
        "dedup_key": "one",
        "dedup_mode": "until_finished",
        "dedup_scope": "channel",
    }
    made = schedules.set(
        "s", queue.name, turnabout.message("x\u2028", delay_seconds=5, **fields),
        cron="30 9 * * 1-5", zone="Europe/Berlin", missed="all", overlap="skip",
        gap="skip", fold="both",
    )  # fmt: skip
    assert schedules.get("s") == replace(made, now=schedules.get("s").now)
    assert made.schedule.message == turnabout.message("x\u2028", delay_seconds=5, **fields)
    one = made.schedule
    assert (one.missed, one.overlap, one.gap, one.fold) == ("all", "skip", "skip", "both")
    assert (one.cron, one.zone) == ("30 9 * * 1-5", "Europe/Berlin")
    clock.now = made.next_at
    assert len(schedules.fire_due()) == 1
    assert not queue.receive(), "its delay counts from now"
    clock.now += 5_000
    (message,) = queue.receive()
    assert (message.channel, message.priority, message.text()) == ("ч", -3, "x\u2028")


def test_list_delete_get(schedules, door, queue, hour):
    other = door.fresh()
    for name, where in (("b", queue), ("a", other), ("C", queue)):
        schedules.set(name, where.name, "x", every_seconds=60)
    assert [e.schedule.name for e in schedules.list()] == ["C", "a", "b"]
    assert [e.schedule.name for e in schedules.list(queue=queue.name)] == ["C", "b"]
    assert schedules.delete("a") is True
    assert schedules.delete("a") is False
    assert schedules.get("a") is None
    assert schedules.get("b").schedule.queue == queue.name


def test_coming_due_times(schedules, queue, clock, hour):
    schedules.set("s", queue.name, "x", every_seconds=3600)
    assert schedules.next("s", 2) == (hour + HOUR, hour + 2 * HOUR)
    clock.now = hour + 3 * HOUR
    assert schedules.next("s", 1) == (hour + HOUR,), "what was missed comes first"
    assert len(schedules.next("s")) == 10
    schedules.set("s", queue.name, "x", at=hour)
    assert schedules.next("s") == (hour,)
    schedules.fire_due()
    assert schedules.next("s") == ()
    with pytest.raises(UsageError, match="no schedule 'none'"):
        schedules.next("none")
    with pytest.raises(UsageError, match="limit"):
        schedules.next("s", 0)


def test_a_pause(schedules, queue, clock, hour):
    schedules.set("s", queue.name, "x", every_seconds=3600, missed="all")
    assert schedules.pause("s").schedule.paused
    clock.now = hour + 3 * HOUR
    assert schedules.fire_due() == ()
    again = schedules.set("s", queue.name, "y", every_seconds=3600, missed="all")
    assert again.schedule.paused, "a program that starts does not end a pause"
    assert schedules.fire_due() == ()
    assert not schedules.resume("s").schedule.paused
    assert len(schedules.fire_due()) == 3, "what passed counts as missed"
    said = schedules.set("s", queue.name, "y", every_seconds=3600, missed="all", paused=True)
    assert said.schedule.paused
    for change in (schedules.pause, schedules.resume):
        with pytest.raises(UsageError, match="no schedule 'none'"):
            change("none")


@pytest.mark.parametrize(
    ("missed", "hours"), [("once", [1]), ("all", [1, 2, 3, 4, 5]), ("skip", [5])]
)
def test_due_times_that_were_missed(schedules, queue, door, missed, hours):
    hour = door.clock.now // HOUR * HOUR
    schedules.set("s", queue.name, "x", every_seconds=3600, missed=missed)
    door.clock.now = hour + 5 * HOUR + 30_000
    schedules.fire_due()
    assert due_ats(queue) == [hour + n * HOUR for n in hours]
    assert schedules.get("s").next_at == hour + 6 * HOUR


def test_a_long_backlog_is_sent_in_parts(schedules, queue, clock, hour):
    schedules.set("s", queue.name, "x", every_seconds=60, missed="all")
    clock.now = hour + 4 * HOUR
    counts = []
    while sent := schedules.fire_due():
        counts.append(len(sent))
    assert counts == [100, 100, 40]
    assert due_ats(queue) == [hour + (n + 1) * MINUTE for n in range(240)]


def test_a_one_off(schedules, queue, clock, hour):
    at = hour + HOUR
    moment = datetime.fromtimestamp(at / 1000, UTC)
    assert schedules.set("s", queue.name, "x", at=moment).next_at == at
    clock.now = at + 5
    assert len(schedules.fire_due()) == 1
    assert schedules.get("s").next_at is None
    for payload in ("x", "changed"):
        assert schedules.set("s", queue.name, payload, at=at).next_at is None
        assert schedules.fire_due() == ()
    assert schedules.set("s", queue.name, "x", at=at + HOUR).next_at == at + HOUR


def test_setting_again(schedules, queue, clock, hour):
    made = schedules.set("s", queue.name, "x", every_seconds=3600)
    clock.now = hour + HOUR + 5
    again = schedules.set("s", queue.name, "x", every_seconds=3600)
    assert again == replace(made, now=clock.now), "what is the same stays as it is"
    changed = schedules.set("s", queue.name, "y", every_seconds=3600)
    assert changed.next_at == hour + HOUR, "a program that starts again forgets no due time"
    moved = schedules.set("s", queue.name, "y", every_seconds=1800)
    assert moved.next_at == hour + HOUR + 30 * MINUTE
    assert schedules.fire_due() == ()


def test_what_was_sent_stays_known_and_is_not_sent_again(schedules, queue, clock, hour, door):
    schedules.set("s", queue.name, "x", every_seconds=3600)
    clock.now = hour + HOUR + 5
    (entry,) = door.mq.store.run(ScheduleList(queue.name, due=True))
    (sent,) = schedules.fire_due()
    # Somebody who had read it before it was fired sets it: the old due time is back.
    back = door.mq.store.run(ScheduleSet(entry.schedule, entry.next_at))
    assert (back.next_at, back.last_at, back.last_id) == (hour + HOUR, hour + HOUR, sent.id)
    fire = ScheduleFire("s", hour + HOUR, hour + 2 * HOUR)
    assert door.mq.store.run(fire) == Fired(None)
    assert schedules.get("s").next_at == hour + 2 * HOUR
    assert due_ats(queue) == [hour + HOUR]


def test_one_that_cannot_be_fired_keeps_no_other_from_it(schedules, queue, clock, hour, door):
    schedules.set("z", queue.name, "x", every_seconds=3600)
    good = schedules.set("a", queue.name, "x", every_seconds=3600)
    bad = replace(good.schedule, every_ms=None, cron="no cron", name="b")
    door.mq.store.run(ScheduleSet(bad, hour + HOUR))
    clock.now = hour + HOUR
    with pytest.raises(UsageError, match="no cron"):
        schedules.fire_due()
    assert len(due_ats(queue)) == 2
    told = []
    assert schedules.fire_due(on_error=told.append) == ()
    assert [type(error) for error in told] == [UsageError]


@each(
    ("fields", "says"),
    [
        ({}, "one of cron, every and at"),
        ({"cron": "* * * * *", "at": 5}, "one of cron, every and at"),
        ({"cron": "* * * *"}, "4 fields"),
        ({"cron": "0 0 31 2 *"}, "never due"),
        ({"cron": "* * * * *", "zone": "Europe/Atlantis"}, "not a time zone"),
        ({"every_seconds": 0.9}, "every_seconds"),
        ({"every_seconds": "60"}, "every_seconds"),
        ({"at": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001 - the point
        ({"at": 5, "missed": "twice"}, "missed"),
        ({"at": 5, "overlap": "wait"}, "overlap"),
        ({"at": 5, "gap": "before"}, "gap"),
        ({"at": 5, "fold": "none"}, "fold"),
        ({"at": 5, "paused": 1}, "paused"),
        ({"at": 5, "fold": "both"}, "only apply to cron"),
        ({"every_seconds": 60, "gap": "skip"}, "only apply to cron"),
        ({"every_seconds": 60, "zone": "Europe/Berlin"}, "zone only applies to cron"),
        ({"at": 5, "anchor": 5}, "only applies to every_seconds"),
        ({"cron": "* * * * *", "anchor": 5}, "only applies to every_seconds"),
    ],
)
def test_what_is_refused(schedules, queue, fields, says):
    with pytest.raises(UsageError, match=says):
        schedules.set("s", queue.name, "x", **fields)
    assert schedules.get("s") is None


def test_room_is_left_for_the_headers_that_are_added(schedules, queue):
    for count in (62, 63):
        message = turnabout.message("x", headers={f"h{n}": "" for n in range(count)})
        if count == 62:
            schedules.set("s", queue.name, message, at=5)
        else:
            with pytest.raises(UsageError, match="64 headers"):
                schedules.set("s", queue.name, message, at=5)
    assert len(schedules.fire_due()) == 1
    assert len(queue.receive()[0].headers) == 64


def test_names(schedules, queue):
    for wrong in ("", "a b", "é", "x" * 81, 5):
        with pytest.raises(UsageError):
            schedules.set(wrong, queue.name, "x", at=5)
        with pytest.raises(UsageError):
            schedules.set("s", wrong, "x", at=5)
        for asks in (schedules.get, schedules.delete, schedules.pause):
            with pytest.raises(UsageError):
                asks(wrong)


def test_a_payload_over_the_limit_of_the_connection(door, schedules, queue):
    large = b"x" * (1024 * 1024 + 1)
    for given in (large, Outgoing(large)):
        with pytest.raises(UsageError, match="over the limit"):
            schedules.set("s", queue.name, given, at=5)
