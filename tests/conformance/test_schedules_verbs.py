"""Schedules as verbs: kept, listed, fired exactly once per due time, removed."""

import threading
from collections import Counter

import pytest

from tests.conformance.steps import counts, grave_of, one, one_by_one, run, sent, texts
from tests.schedules.swept import swept
from tests.support.each import each
from turnabout import Policy, QueueNotFound, UsageError, message
from turnabout.words.outcomes import Fired, NotDue
from turnabout.words.schedules import EVERY_MS_MIN, Schedule
from turnabout.words.verbs import ScheduleDelete, ScheduleFire, ScheduleList, ScheduleSet

MINUTE = 60_000


@pytest.fixture(autouse=True)
def no_schedule_stays(door):
    """Queues are fresh, the door is not."""
    with swept(door.mq):
        yield


@pytest.fixture
def name(door):
    """A name that no other schedule has."""
    return f"s-{door.name_of_a_queue()}"


@pytest.fixture
def every(queue, name):
    """A schedule of each minute, as a value."""

    def make(**options):
        given = {"message": message("tick"), "every_ms": MINUTE, **options}
        return Schedule(name, queue.name, **given)

    return make


def due(queue):
    """The names of what is due, of this queue."""
    return [e.schedule.name for e in run(queue, ScheduleList(queue.name, due=True))]


@pytest.mark.driving
def test_a_schedule_is_kept_as_it_was_set(queue, name, clock):
    outgoing = message(
        {"n": 1},
        channel="c",
        priority=-3,
        delay_seconds=2,
        headers={"h": "v"},
        content_type="text/x",
        ttl_seconds=60,
        dedup_key="k",
        dedup_mode="latest",
        dedup_window_seconds=9,
        dedup_scope="channel",
    )
    schedules = [
        Schedule(
            name,
            queue.name,
            outgoing,
            cron="*/5 * * * *",
            zone="Europe/Berlin",
            missed="all",
            overlap="skip",
            gap="skip",
            fold="both",
            paused=True,
        ),
        Schedule(name, queue.name, message(b"\x00\xff"), every_ms=EVERY_MS_MIN, anchor=77),
        Schedule(name, queue.name, message(""), at=clock.now + 5),
    ]
    for schedule in schedules:
        entry = run(queue, ScheduleSet(schedule, clock.now + 10))
        assert entry.schedule == schedule
        assert (entry.next_at, entry.last_at, entry.last_id) == (clock.now + 10, None, None)
        assert (entry.sent, entry.now) == (0, clock.now)
        assert run(queue, ScheduleList(queue.name)) == (entry,)


def test_a_schedule_makes_its_queue_as_a_send_does(door, queue, name, clock):
    """Who receives may be there before the first due time."""
    there = door.mq.queue(door.name_of_a_queue())
    schedule = Schedule(name, there.name, message("x"), every_ms=EVERY_MS_MIN)
    with pytest.raises(QueueNotFound):
        there.receive()
    run(queue, ScheduleSet(schedule, clock.now + 1000))
    assert not there.receive()
    assert counts(there).sent == 0
    by_send = door.mq.queue(door.name_of_a_queue())
    by_send.send("x")
    assert there.settings() == by_send.settings()
    assert grave_of(there).settings() == grave_of(by_send).settings()
    (entry,) = [e for e in door.mq.queues() if e.name == there.name]
    assert entry.created_at == clock.now
    there.update(max_attempts=7)
    run(queue, ScheduleSet(schedule, clock.now))
    assert there.settings().max_attempts == 7
    there.delete()
    run(queue, ScheduleDelete(name))


@pytest.mark.driving
def test_schedules_are_listed_by_name_of_all_queues_or_one(door, queue, clock):
    other = door.fresh()
    names = [f"list-{queue.name}-{letter}" for letter in "cab"]
    for schedule in names:
        run(queue, ScheduleSet(Schedule(schedule, queue.name, message("x"), at=1), clock.now))
    run(queue, ScheduleSet(Schedule(f"{names[0]}-other", other.name, message("x"), at=1), None))
    assert [e.schedule.name for e in run(queue, ScheduleList(queue.name))] == sorted(names)
    everything = [e.schedule.name for e in run(queue, ScheduleList())]
    assert everything == sorted(everything)
    assert {*names, f"{names[0]}-other"} <= set(everything)


def test_what_is_due_is_listed_at_its_millisecond_and_not_when_paused(queue, every, name, clock):
    run(queue, ScheduleSet(every(), clock.now + 10))
    assert due(queue) == []
    clock.advance(ms=9)
    assert due(queue) == []
    clock.advance(ms=1)
    assert due(queue) == [name]
    run(queue, ScheduleSet(every(paused=True), clock.now))
    assert due(queue) == []
    run(queue, ScheduleSet(every(), None))
    assert due(queue) == [], "it has nothing more to send"


@pytest.mark.driving
def test_firing_sends_the_message_and_moves_on(queue, every, name, clock):
    outgoing = message("tick", channel="c", priority=4, headers={"h": "v"})
    due_at = clock.now
    run(queue, ScheduleSet(every(message=outgoing), due_at))
    clock.advance(2)
    fired = run(queue, ScheduleFire(name, due_at, due_at + MINUTE))
    assert isinstance(fired, Fired)
    (entry,) = run(queue, ScheduleList(queue.name))
    assert (entry.next_at, entry.last_at) == (due_at + MINUTE, due_at)
    assert (entry.last_id, entry.sent) == (fired.id, 1)
    held = one(queue)
    assert (held.id, held.text(), held.channel, held.priority) == (fired.id, "tick", "c", 4)
    assert held.headers["h"] == "v"
    assert held.headers["schedule"] == name
    assert held.headers["due-at"] == str(due_at)


@pytest.mark.driving
def test_each_due_time_is_fired_once(queue, every, name, clock):
    run(queue, ScheduleSet(every(), clock.now))
    fire = ScheduleFire(name, clock.now, clock.now + MINUTE)
    assert isinstance(run(queue, fire), Fired)
    assert run(queue, fire) == NotDue()
    assert run(queue, ScheduleFire(name, clock.now - 1, clock.now)) == NotDue()
    assert counts(queue).sent == 1
    last = ScheduleFire(name, clock.now + MINUTE, None)
    clock.advance(60)
    assert isinstance(run(queue, last), Fired)
    assert run(queue, last) == NotDue()
    assert run(queue, ScheduleList(queue.name))[0].next_at is None
    assert counts(queue).sent == 2


def test_a_skipped_time_sends_nothing_and_moves_on(queue, every, name, clock):
    run(queue, ScheduleSet(every(), clock.now))
    assert run(queue, ScheduleFire(name, clock.now, clock.now + 5, skip=True)) == Fired(None)
    (entry,) = run(queue, ScheduleList(queue.name))
    assert (entry.next_at, entry.last_at, entry.last_id) == (clock.now + 5, None, None)
    assert (entry.sent, counts(queue).sent) == (0, 0)


@pytest.mark.parametrize("stage", ["waiting", "leased", "back", "done", "dead", "cancelled"])
@pytest.mark.parametrize("overlap", ["allow", "skip"])
def test_overlap_asks_whether_the_last_message_is_unfinished(
    queue, every, name, clock, *, overlap, stage
):
    run(queue, ScheduleSet(every(overlap=overlap), clock.now))
    first = run(queue, ScheduleFire(name, clock.now, clock.now + 1))
    match stage:
        case "leased":
            one(queue)
        case "back":
            one(queue).defer(delay_seconds=100)
        case "done":
            one(queue).ack()
        case "dead":
            one(queue).fail(retry=False)
        case "cancelled":
            queue.purge()
    clock.advance(ms=1)
    second = run(queue, ScheduleFire(name, clock.now, clock.now + MINUTE))
    skips = overlap == "skip" and stage in ("waiting", "leased", "back")
    assert (second.id is None) == skips
    (entry,) = run(queue, ScheduleList(queue.name))
    assert entry.next_at == clock.now + MINUTE, "it moves on either way"
    assert entry.last_id == (first.id if skips else second.id)
    assert entry.sent == (1 if skips else 2)


def test_a_schedule_that_was_replaced_or_removed_is_not_due(queue, every, name, clock):
    old = clock.now
    run(queue, ScheduleSet(every(), old))
    run(queue, ScheduleSet(every(message=message("new")), old + 5))
    assert run(queue, ScheduleFire(name, old, old + MINUTE)) == NotDue()
    assert isinstance(run(queue, ScheduleFire(name, old + 5, old + MINUTE)), Fired)
    assert texts(one_by_one(queue)) == ["new"]
    assert run(queue, ScheduleDelete(name)) is True
    assert run(queue, ScheduleDelete(name)) is False
    assert run(queue, ScheduleFire(name, old + MINUTE, None)) == NotDue()
    assert run(queue, ScheduleList(queue.name)) == ()


def test_a_replaced_schedule_keeps_its_count(queue, every, name, clock):
    run(queue, ScheduleSet(every(), clock.now))
    fired = run(queue, ScheduleFire(name, clock.now, clock.now + 1))
    entry = run(queue, ScheduleSet(every(overlap="skip"), clock.now + 1))
    assert (entry.sent, entry.last_id) == (1, fired.id), "overlap still knows the last message"


def test_the_message_is_sent_like_any_other(door, clock):
    """Delay, time to live, dedup, and a queue that is made on the way."""
    queue = door.mq.queue(door.name_of_a_queue())
    outgoing = message("x", delay_seconds=5, ttl_seconds=60, dedup_key="k")
    schedule = f"like-{queue.name}"
    run(queue, ScheduleSet(Schedule(schedule, queue.name, outgoing, every_ms=1_000), clock.now))
    first = run(queue, ScheduleFire(schedule, clock.now, clock.now + 1))
    again = run(queue, ScheduleFire(schedule, clock.now + 1, clock.now + 2))
    assert again.id == first.id, "the key suppresses the second"
    (there,) = queue.peek()
    assert (there.due_at, there.expires_at) == (clock.now + 5_000, clock.now + 60_000)
    assert counts(queue).sent == 1


@pytest.mark.parametrize("bound", ["queue", "channel"])
def test_a_full_queue_does_not_stop_the_schedule(queue, every, name, clock, bound):
    if bound == "queue":
        queue.update(max_messages=1)
    else:
        queue.channel("").set_policy(Policy(max_size=1))
    sent(queue, "there")
    run(queue, ScheduleSet(every(), clock.now))
    assert run(queue, ScheduleFire(name, clock.now, clock.now + MINUTE)) == Fired(None)
    assert run(queue, ScheduleList(queue.name))[0].next_at == clock.now + MINUTE


@pytest.mark.needs("sharing")
def test_many_firers_at_once_send_one_message_per_due_time(door, queue, every, name, clock):
    """Several connections, each firing whatever it finds due, for thirty due times."""
    run(queue, ScheduleSet(every(overlap="allow"), clock.now))
    ends_at = clock.now + 30 * MINUTE
    clock.now = ends_at
    answers, errors = Counter(), []

    def fire():
        try:
            with door.open() as mq:
                while entries := [
                    e
                    for e in mq.store.run(ScheduleList(queue.name, due=True))
                    if e.next_at < ends_at
                ]:
                    at = entries[0].next_at
                    answer = mq.store.run(ScheduleFire(name, at, at + MINUTE))
                    answers[type(answer).__name__] += 1
        except Exception as error:  # noqa: BLE001 (told to the test's own thread)
            errors.append(error)

    threads = [threading.Thread(target=fire) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors, errors
    assert answers["Fired"] == 30
    assert run(queue, ScheduleList(queue.name))[0].sent == 30
    run(queue, ScheduleDelete(name))  # its next one is due, and who receives would fire it
    times = Counter(m.headers["due-at"] for m in one_by_one(queue))
    assert len(times) == 30
    assert set(times.values()) == {1}


@each(
    "wrong",
    [
        {"every_ms": None},
        {"cron": "* * * * *"},
        {"at": 5},
        {"every_ms": EVERY_MS_MIN - 1},
        {"every_ms": 1.5},
        {"anchor": -1},
        {"missed": "never"},
        {"overlap": "queue"},
        {"gap": 1},
        {"fold": "last"},
        {"paused": "no"},
        {"zone": "\x00"},
        {"every_ms": None, "cron": "*" * 256},
        {"every_ms": None, "at": -1},
    ],
)
def test_wrong_schedules_are_refused(every, wrong):
    with pytest.raises(UsageError):
        every(**wrong)


@each("wrong", ["", "a b", "x" * 81, 5, None])
def test_wrong_names_are_refused(queue, wrong):
    with pytest.raises(UsageError):
        Schedule(wrong, queue.name, message("x"), at=1)
    with pytest.raises(UsageError):
        Schedule("s", wrong, message("x"), at=1)
