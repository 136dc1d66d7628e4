"""Who fires: receivers, waiting or not, and workers; how often they look; what errors do."""

import logging
import threading
import time
from collections import Counter

import pytest

import turnabout
from turnabout import Forbidden, Unavailable, UsageError, aio, timing
from turnabout._sync.schedules import SCHEDULES_MAX
from turnabout.sqlite.store import SqliteStore
from turnabout.waiting import pacing
from turnabout.waiting.pacing import Watch
from turnabout.words.schedules import Schedule
from turnabout.words.value import replace
from turnabout.words.verbs import ScheduleFire, ScheduleList, ScheduleSet
from turnabout.worker import Worker

HOUR = 3_600_000
NOW = 1_800_000_000_000 // HOUR * HOUR

pytestmark = pytest.mark.slow  # they wait for due times by the real clock


class Clock:
    """Both clocks: the database's in milliseconds, and that of the processor."""

    def __init__(self):
        self.now = NOW
        self.seconds = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(pacing.time, "monotonic", lambda: clock.seconds)
    return clock


class Counted(SqliteStore):
    """A store in memory that counts the verbs about schedules, and fails as a test tells it to."""

    def __init__(self, clock):
        super().__init__("sqlite://", clock=clock)
        self.asked = Counter()
        self.error = None

    def run(self, verb):
        if isinstance(verb, (ScheduleList, ScheduleFire)):
            self.asked["due" if isinstance(verb, ScheduleList) and verb.due else verb.name] += 1
            if self.error is not None:
                raise self.error
        return super().run(verb)


@pytest.fixture
def store(clock):
    return Counted(clock)


@pytest.fixture
def mq(store):
    with turnabout.Turnabout(store) as mq:
        mq.queue("q").create()
        mq.queue("other").create()
        yield mq


def test_watch_looks_often_where_there_are_schedules(clock):
    one = Watch()
    assert one.is_idle
    assert not one.must_look(), "the first look waits, too: many processes only ask once"
    assert one.until_look() == 1.0
    clock.seconds += 1
    assert one.must_look()
    assert not one.must_look(), "one of all who receive looks"
    one.found(any_there=False)
    assert one.until_look() == 10.0
    clock.seconds += 10
    assert one.must_look()
    one.found(any_there=True)
    assert not one.is_idle
    assert one.until_look() == 1.0
    one.found(any_there=True, more_due=True)
    assert one.must_look()
    one.stop_for_a_while()
    assert one.until_look() == 60.0


def test_watch_complains_once_a_minute(clock):
    one = Watch()
    assert one.must_complain()
    clock.seconds += 59
    assert not one.must_complain()
    clock.seconds += 1
    assert one.must_complain()


def test_without_schedules_a_receiver_hardly_looks(mq, store, clock):
    for _ in range(600):
        mq.queue("q").receive()
        clock.seconds += 0.1
    assert 5 <= store.asked["due"] <= 7
    assert store.asked["schedule_list"] == store.asked["due"], "whether there are any at all"


def test_a_receiver_fires_for_all_queues(mq, store, clock):
    mq.schedules.set("s", "other", "x", every_seconds=3600)
    clock.now += HOUR
    assert not mq.queue("q").receive()
    assert not mq.queue("other").stats().ready
    clock.seconds += 1
    mq.queue("q").receive()
    assert mq.queue("other").stats().ready == 1
    store.asked.clear()
    for _ in range(100):
        mq.queue("q").receive()
        clock.seconds += 0.1
    assert 9 <= store.asked["due"] <= 11, "once a second"
    assert store.asked["schedule_fire"] == 0


def test_a_receiver_notices_the_schedule_of_another_process(mq, store, clock):
    clock.seconds += 1
    mq.queue("q").receive()  # and sees that there is none
    with turnabout.Turnabout(store) as other:
        other.schedules.set("s", "q", "x", every_seconds=3600)
        clock.now += HOUR
        clock.seconds += 9
        assert not mq.queue("q").receive()
        clock.seconds += 1
        assert len(mq.queue("q").receive()) == 1


def test_many_that_are_due_are_fired_in_shares(mq, store, clock):
    for n in range(SCHEDULES_MAX + 5):
        mq.schedules.set(f"s{n}", "other", "x", every_seconds=3600)
    clock.now += HOUR
    clock.seconds += 1
    mq.queue("q").receive()
    assert mq.queue("other").stats().ready == SCHEDULES_MAX
    mq.queue("q").receive()
    assert mq.queue("other").stats().ready == SCHEDULES_MAX + 5


@pytest.mark.parametrize("error", [Unavailable("busy"), Forbidden("no right")])
def test_an_error_is_none_of_the_receivers(mq, store, clock, error):
    mq.schedules.set("s", "q", "x", every_seconds=3600)
    clock.now += HOUR
    store.error = error
    clock.seconds += 1
    assert not mq.queue("q").receive()
    store.error = None
    clock.seconds += 1
    came_back = len(mq.queue("q").receive()) == 1
    assert came_back == isinstance(error, Unavailable), "what is forbidden is not asked each second"
    clock.seconds += 60
    assert bool(mq.queue("q").receive()) != came_back


def test_one_that_cannot_be_fired_is_told_once_a_minute(mq, store, clock, caplog):
    good = mq.schedules.set("a", "q", "x", every_seconds=3600)
    mq.schedules.set("z", "q", "x", every_seconds=3600)
    bad = replace(good.schedule, name="b", every_ms=None, cron="no cron")
    store.run(ScheduleSet(bad, NOW + HOUR))
    clock.now += HOUR
    clock.seconds += 1
    with caplog.at_level(logging.WARNING, "turnabout.schedules"):
        assert len(mq.queue("q").receive(10)) == 2
        for _ in range(30):
            clock.seconds += 1
            mq.queue("q").receive()
    (record,) = caplog.records
    assert "'no cron' has 2 fields" in record.getMessage()


def test_a_missing_package_keeps_nothing_else_from_being_fired(mq, clock, monkeypatch):
    mq.schedules.set("c", "q", "x", cron="0 * * * *")
    mq.schedules.set("e", "q", "x", every_seconds=3600)

    def without(*_):
        raise UsageError("cron schedules need the cronsim package")

    monkeypatch.setattr(timing, "_parsed", without)
    clock.now += HOUR
    clock.seconds += 1
    assert [m.headers["schedule"] for m in mq.queue("q").receive(10)] == ["e"]
    monkeypatch.undo()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pacing.time, "monotonic", lambda: clock.seconds + 1)
        assert [m.headers["schedule"] for m in mq.queue("q").receive(10)] == ["c"]


# --- by the clock on the wall --------------------------------------------------------------------


def soon(mq, queue="q", ms=300):
    """A schedule that is due in a moment, once."""
    now = mq.store.run(ScheduleSet(Schedule("x", queue, turnabout.message("x"), at=0), None)).now
    mq.schedules.delete("x")
    return mq.schedules.set("soon", queue, "x", at=now + ms).next_at


@pytest.mark.parametrize("busy", [False, True])
def test_a_worker_fires(tmp_path, busy):
    url = f"sqlite:///{tmp_path}/app.db"
    worker = Worker(url)
    fired = threading.Event()
    seen = []

    @worker.handler("q", concurrency=1 if busy else 2)
    def handle(message):
        if message.text() == "long":
            fired.wait(60)  # keeps the only place until the schedule has sent
        else:
            seen.append(message.headers["schedule"])
            worker.stop()

    with turnabout.connect(url) as mq:
        mq.queue("q").create()
        if busy:
            mq.queue("q").send("long")
        soon(mq, ms=500)
        thread = threading.Thread(target=worker.run)
        thread.start()
        ends_at = time.monotonic() + 60
        while mq.schedules.get("soon").sent == 0 and time.monotonic() < ends_at:
            time.sleep(0.05)
        fired.set()
        thread.join(60)
    assert seen == ["soon"]


async def test_a_waiting_receiver_fires_on_its_loop(tmp_path):
    async with aio.connect(f"sqlite:///{tmp_path}/app.db") as mq:
        assert isinstance(mq.schedules, aio.Schedules)
        await mq.queue("q").create()
        await mq.schedules.set("s", "q", "x", at=0)
        (message,) = await mq.queue("q").receive(wait_seconds=10)
        assert message.headers == {"schedule": "s", "due-at": "0"}
