"""events: what each verb did, in order, for whoever asks on from a cursor."""

import pytest

from tests.conformance.steps import do, grave_of, is_empty, maintained, one, run, sent, taken
from tests.support.each import each
from turnabout import Failure, QueueNotFound, UsageError, message
from turnabout.words.records import Event
from turnabout.words.value import replace
from turnabout.words.verbs import Events, RedriveStart, RedriveStep


class Reader:
    """Who asks for what is new, from now on."""

    def __init__(self, queue, limit=100):
        self.queue, self.limit = queue, limit
        self.cursor = do(queue, Events).cursor

    def read(self):
        """All that is new."""
        got = []
        while True:
            page = do(self.queue, Events, self.cursor, self.limit)
            self.cursor = page.cursor
            got += page.events
            if not page.events:
                return got

    def kinds(self):
        return [event.kind for event in self.read()]


@pytest.fixture
def queue(door):
    """A queue that writes down every event."""
    return door.fresh(events="all", backoff_jitter=0.0, max_attempts=2)


def test_without_a_cursor_there_are_no_events_and_the_cursor_of_now(queue):
    sent(queue, "before")
    page = do(queue, Events)
    assert page.events == ()
    assert do(queue, Events, page.cursor).events == ()
    (number,) = sent(queue, "after")
    assert [event.id for event in do(queue, Events, page.cursor).events] == [number]


@pytest.mark.driving
def test_the_life_of_a_message_event_by_event(queue, clock):
    reader, began = Reader(queue), clock.now
    (number,) = sent(queue, "a", channel="c", delay_seconds=5)
    clock.advance(5)
    held = one(queue, lease_seconds=60)
    held.defer(delay_seconds=7)
    clock.advance(7)
    one(queue, lease_seconds=60).fail("no", delay_seconds=9)
    clock.advance(9)
    one(queue, lease_seconds=60).ack()
    rows = [
        ("created", 0, 0, 5),
        ("leased", 5, 1, 65),
        ("deferred", 5, 1, 12),
        ("leased", 12, 2, 72),
        ("failed", 12, 2, 21),
        ("leased", 21, 3, 81),
        ("done", 21, 3, None),
    ]
    name = queue.name
    assert [replace(event, cursor=None) for event in reader.read()] == [
        Event(
            kind,
            name,
            began + at * 1_000,
            number,
            "c",
            attempt,
            None if due is None else began + due * 1_000,
        )
        for kind, at, attempt, due in rows
    ]


@pytest.mark.driving
def test_every_ending_is_an_event(queue, clock):
    reader = Reader(queue)
    numbers = sent(queue, *"abcd")
    held = {m.id: m for m in queue.receive(2)}
    assert list(held) == numbers[:2]
    held[numbers[0]].ack()
    held[numbers[1]].fail("no", retry=False)
    queue.cancel((numbers[2],))
    queue.purge()
    (last,) = queue.send_many([message("e", ttl_seconds=1)]).ids
    clock.advance(1)
    assert is_empty(queue)
    ends = {e.id: e.kind for e in reader.read() if e.kind not in ("created", "leased")}
    kinds = ("done", "dead", "cancelled", "cancelled", "expired")
    assert ends == dict(zip((*numbers, last), kinds, strict=True))


def test_a_crash_is_a_failure_and_the_last_one_a_death_alone(queue, clock):
    reader = Reader(queue)
    sent(queue, "a")
    for _ in range(2):
        one(queue, lease_seconds=1)
        clock.advance(1)
    assert is_empty(queue)
    assert reader.kinds() == ["created", "leased", "failed", "leased", "dead"]


@pytest.mark.driving
def test_what_puts_a_message_off_is_deferred(queue, clock):
    reader = Reader(queue)
    (number,) = sent(queue, "a", channel="c", delay_seconds=5)
    queue.retry((number,))
    one(queue).release()
    latest = message("b", channel="c", dedup_key="k", dedup_mode="latest", delay_seconds=7)
    queue.send_many([latest])
    queue.send_many([latest])
    queue.channel("c").delete()
    told = [(e.kind, e.due_at and e.due_at - clock.now) for e in reader.read()]
    assert told == [
        ("created", 5_000),
        ("deferred", 0),
        ("leased", 30_000),
        ("deferred", 0),
        ("created", 7_000),
        ("deferred", 7_000),
        ("cancelled", None),
        ("cancelled", None),
    ]


def test_a_blocked_message_has_failed_and_has_no_due_time(door):
    queue = door.fresh(events="all", fifo=True, on_exhausted="block")
    reader = Reader(queue)
    taken(queue, "a").fail("no", retry=False)
    last = reader.read()[-1]
    assert (last.kind, last.due_at) == ("failed", None)


def test_the_dead_letter_queue_has_events_of_its_own(queue):
    grave = grave_of(queue)
    grave.update(events="all")
    here, there = Reader(queue), Reader(grave)
    (number,) = sent(queue, "a")
    one(queue).fail("no", retry=False)
    assert [(e.kind, e.queue, e.id) for e in there.read()] == [("created", grave.name, number)]
    assert here.kinds() == ["created", "leased", "dead"]
    redrive = do(grave, RedriveStart)
    while redrive.state == "running":
        redrive = run(grave, RedriveStep(redrive.id))
    assert [(e.kind, e.id) for e in here.read()] == [("created", number)]


def test_a_suppressed_send_is_no_event(queue):
    reader = Reader(queue)
    for _ in range(3):
        queue.send_many([message("x", dedup_key="k")])
    assert reader.kinds() == ["created"]


def test_what_replaces_a_message_of_its_own_send_is_no_event(queue, clock):
    """The message is created once, and is due when the last of them says."""
    reader = Reader(queue)
    one, two = (
        message("x", dedup_key="k", dedup_mode="latest", delay_seconds=delay) for delay in (5, 9)
    )
    assert queue.send_many([one, two]).replaced == (1,)
    assert [(e.kind, e.due_at) for e in reader.read()] == [("created", clock.now + 9_000)]


def test_a_send_that_replaces_a_message_twice_is_one_event(queue, clock):
    """It is due when the last of them says. The one that the send puts in comes later."""
    one, two = (
        message("x", dedup_key="k", dedup_mode="latest", delay_seconds=delay) for delay in (5, 9)
    )
    queue.send_many([one])
    reader = Reader(queue)
    assert queue.send_many([message("y"), one, two]).replaced == (1, 2)
    due = [("deferred", clock.now + 9_000), ("created", clock.now)]
    assert [(e.kind, e.due_at) for e in reader.read()] == due


def test_after_a_crash_it_is_due_when_that_is_noticed(queue, clock):
    taken(queue, "a", lease_seconds=5)
    reader = Reader(queue)
    clock.advance(8)
    one(queue, lease_seconds=5)
    due = [(e.kind, e.at, e.due_at) for e in reader.read()]
    assert due == [("failed", clock.now, clock.now), ("leased", clock.now, clock.now + 5_000)]


@pytest.mark.parametrize("limit", [1, 2, 7, 1_000])
@pytest.mark.driving
def test_events_come_in_order_whatever_the_page(queue, limit):
    reader = Reader(queue, limit)
    numbers = sent(queue, *map(str, range(10)))
    held = queue.receive(10)
    queue.ack([m.receipt for m in held[:5]])
    queue.fail([Failure(m.receipt) for m in held[5:]])
    events = reader.read()
    assert [e.kind for e in events] == ["created"] * 10 + ["leased"] * 10 + ["done"] * 5 + [
        "failed"
    ] * 5
    assert [e.id for e in events[:10]] == numbers
    assert reader.read() == []


def test_a_page_is_no_longer_than_asked(queue):
    cursor = do(queue, Events).cursor
    sent(queue, *"abc")
    page = do(queue, Events, cursor, 2)
    assert len(page.events) == 2
    assert do(queue, Events, cursor, 2) == page, "asked again, answered again"
    assert len(do(queue, Events, page.cursor, 2).events) == 1


@pytest.mark.parametrize("level", ["off", "hints"])
def test_nothing_is_written_unless_all_is_wanted(door, level):
    queue = door.fresh(events=level)
    reader = Reader(queue)
    taken(queue, "a").ack()
    assert reader.read() == []


def test_the_level_changes_on_a_live_queue(queue):
    reader = Reader(queue)
    sent(queue, "told")
    queue.update(events="off")
    sent(queue, "not told")
    queue.update(events="all")
    (told,) = sent(queue, "told too")
    events = reader.read()
    assert len(events) == 2
    assert events[-1].id == told


def test_queues_do_not_hear_one_another(door, queue):
    other = door.fresh(events="all")
    reader = Reader(other)
    sent(queue, "a")
    assert reader.read() == []
    (number,) = sent(other, "b")
    assert [e.id for e in reader.read()] == [number]


def test_events_stay_for_a_day(queue, clock):
    reader = Reader(queue)
    sent(queue, "a")
    first = reader.cursor
    clock.advance(86_399)
    maintained(queue, 3)
    assert reader.kinds() == ["created"]
    clock.advance(100_000)
    maintained(queue, 3)
    (number,) = sent(queue, "b")
    assert [e.id for e in do(queue, Events, first).events] == [number]
    assert [e.id for e in reader.read()] == [number]


@pytest.mark.needs("sharing")
def test_a_reader_hears_what_other_connections_do(door, queue):
    reader = Reader(queue)
    with door.open() as mq:
        (number,) = sent(mq.queue(queue.name), "a")
        one(mq.queue(queue.name)).ack()
    assert [(e.kind, e.id) for e in reader.read()] == [
        ("created", number),
        ("leased", number),
        ("done", number),
    ]


@pytest.mark.needs("sharing")
def test_a_cursor_is_good_on_another_connection(door, queue):
    sent(queue, "a")
    reader = Reader(queue)
    (number,) = sent(queue, "b")
    with door.open() as mq:
        page = do(mq.queue(queue.name), Events, reader.cursor)
    assert [e.id for e in page.events] == [number]


@pytest.mark.driving
def test_wrong_levels_and_missing_queues_are_refused(door, queue):
    with pytest.raises(UsageError):
        queue.update(events="some")
    with pytest.raises(QueueNotFound):
        do(door.mq.queue("nosuch"), Events)


@each("cursor", ["", "x", "-", "1;2", "9" * 40])
@pytest.mark.driving
def test_a_cursor_of_nobody_s_is_refused(queue, cursor):
    with pytest.raises(UsageError):
        do(queue, Events, cursor)
