"""Faults at each step of both protocols, from queue to queue; counts add up.

Spark's order of calls is played (`played`), so a driver dies exactly where the test says, without a
JVM. What Spark itself does is in `test_faults_spark`, a real SIGKILL in `test_stream_to_stream`.
"""

import contextlib
import copy
import itertools
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import turnabout
from tests.pipeline.spark.places import on_postgres
from tests.pipeline.spark.played import KILLS, Killed, Query
from turnabout import Receipt
from turnabout.pipeline.spark import lease, sink
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.spark.sink import StreamWriter
from turnabout.pipeline.spark.staging import Sink
from turnabout.words.errors import Forbidden, UsageError

pytestmark = [pytest.mark.slow, on_postgres]

STEPS = (KILLS[0], KILLS[1], "after staging", KILLS[2], KILLS[3])
BEFORE_PUBLISHING = STEPS[:3]
_checkpoints = itertools.count(1)


class Pipeline(Query):
    """A query from `orders` to `priced`, with a checkpoint of its own."""

    def __init__(self, place: str, **options: Any) -> None:
        given = {"mode": "lease", "subscribe": "orders", "subscription": "pricing"}
        super().__init__(place, **{**given, "maxOffsetsPerTrigger": 10, **options})
        self.query_id = f"checkpoint-{next(_checkpoints)}"
        self.writer = StreamWriter(Sink(Access(place), "priced", pauses=()), None)
        self.dies = ""
        self.sink = Publishing(self)

    def trigger(self, kill: str = "") -> list[dict[str, Any]] | None:
        self.dies = kill
        return super().trigger(kill)

    def lives(self, kill: str) -> None:
        """A trigger that ends with the driver's death."""
        with pytest.raises(Killed):
            self.trigger(kill)

    def finish(self) -> None:
        """Started again, to the end of what there is."""
        self.start(available_now=True).run()
        self.kill()


class Publishing(dict[int, Any]):
    """The sink of a pipeline: what is put into it is staged by two tasks and published."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__()
        self.pipeline = pipeline

    def __setitem__(self, batch: int, rows: list[dict[str, Any]]) -> None:
        writer, tasks = self.pipeline.writer, []
        current[0] = self.pipeline.query_id
        for part in (rows[::2], rows[1::2]):
            values = pa.array([row["value"] for row in part], pa.binary())
            tasks.append(writer.write(iter([pa.record_batch({"value": values})])))
        if self.pipeline.dies == "after staging":
            raise Killed
        writer.commit(tasks, batch)
        super().__setitem__(batch, rows)


current = [""]


@pytest.fixture(autouse=True)
def _in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "_query", lambda: current[0])
    monkeypatch.setattr(lease, "IDLE_SECONDS", 0)


@pytest.fixture
def pipelines(place: str) -> Iterator[Any]:
    """Makes pipelines; what they hold open is closed."""
    made: list[Pipeline] = []

    def make(**options: Any) -> Pipeline:
        made.append(Pipeline(place, **options))
        return made[-1]

    yield make
    for one in made:
        one.kill()


@pytest.fixture
def orders(mq: turnabout.Turnabout) -> list[str]:
    """Twenty-five orders that were sent."""
    texts = [str(n) for n in range(25)]
    mq.queue("orders").send_many([turnabout.message(text, channel=text[-1]) for text in texts])
    return texts


def priced(mq: turnabout.Turnabout) -> Counter[str]:
    """How often each order is in the sink's queue."""
    if "priced" not in [entry.name for entry in mq.queues()]:
        return Counter()
    found = Counter(m.text() for m in mq.queue("priced").peek(1000))
    stats = mq.queue("priced").stats()
    assert stats.sent == stats.ready == found.total()
    return found


def add_up(mq: turnabout.Turnabout, **wanted: int) -> None:
    """What was sent is somewhere, once."""
    stats = mq.queue("orders").stats()
    found = {n: getattr(stats, n) for n in ("scheduled", "ready", "leased", "done", "dead")}
    assert sum(found.values()) == stats.sent == 25
    assert {name: n for name, n in found.items() if n} == wanted


def once(texts: list[str]) -> Counter[str]:
    return Counter(texts)


@pytest.mark.share(5)
@pytest.mark.parametrize("step", STEPS)
def test_a_driver_that_dies(mq, pipelines, orders, step):
    """In its first batch, in its second, and in the same again."""
    pipeline = pipelines()
    for is_first in (True, False):
        pipeline.start().lives(step)
        if step in BEFORE_PUBLISHING:
            assert priced(mq).total() == (0 if is_first else 10)
        pipeline.start()
        if step in STEPS[1:4]:  # the same batch is repeated
            pipeline.lives(step)
            pipeline.start()
        if is_first:
            pipeline.trigger()
    pipeline.finish()
    assert priced(mq) == once(orders)
    add_up(mq, done=25)


@pytest.mark.parametrize("seed", range(2))
def test_a_driver_that_dies_again_and_again(mq, pipelines, orders, seed):
    chance = random.Random(seed)
    pipeline = pipelines(maxOffsetsPerTrigger=4, maxBatchFailures=100)
    for _ in range(8):
        pipeline.start()
        for _ in range(chance.randrange(3)):
            pipeline.trigger()
        with contextlib.suppress(Killed):
            pipeline.trigger(chance.choice(STEPS))
        assert max(priced(mq).values(), default=0) <= 1
    pipeline.finish()
    assert priced(mq) == once(orders)
    add_up(mq, done=25)


@pytest.mark.parametrize("step", STEPS)
def test_the_checkpoint_is_deleted(mq, pipelines, orders, step):
    """Nothing is lost. A batch that was published and not acknowledged is sent again, as nobody
    knows any more that it was: a new checkpoint is a new sink.
    """
    first = pipelines()
    first.start().trigger()
    first.lives(step)
    was_published = priced(mq)
    pipelines().finish()
    add_up(mq, done=25)
    again = priced(mq) - once(orders)
    assert set(priced(mq)) == set(orders)
    assert again.total() == (0 if step in BEFORE_PUBLISHING else 10)
    assert set(again) <= set(was_published)


def test_the_checkpoint_is_an_older_copy(mq, pipelines, orders):
    """It says so, rather than taking other orders for those that were published under the number
    of their batch. With a new checkpoint it goes on.
    """
    pipeline = pipelines(failOnDataLoss="false")
    pipeline.start().trigger()
    old = copy.copy(pipeline.offsets), pipeline.committed
    pipeline.trigger()
    pipeline.trigger()
    pipeline.kill()
    for n in range(25, 30):
        mq.queue("orders").send(str(n))
    for options in ({"failOnDataLoss": "true"}, {"failOnDataLoss": "false"}):
        pipeline.offsets, pipeline.committed = copy.copy(old[0]), old[1]
        pipeline.options.update(options)
        with pytest.raises(UsageError, match="older copy"):
            pipeline.start(available_now=True).run()
        assert priced(mq) == once(orders)
    pipelines().finish()
    assert set(priced(mq)) == {str(n) for n in range(30)}
    assert mq.queue("orders").stats().done == 30


@pytest.mark.parametrize("step", STEPS[1:])
def test_leases_run_out_while_the_driver_is_dead(mq, pipelines, orders, step):
    """Another consumer then has the orders. Nothing is lost; and doubled is what the pipeline had
    published already, which is why a lease must be longer than a restart.
    """
    pipeline = pipelines()
    pipeline.start().lives(step)
    published = priced(mq)
    lost = mq.queue("orders").peek(25, state="leased")[:4]
    mq.queue("orders").release([Receipt(m.id, m.attempt) for m in lost])
    elsewhere = Counter[str]()
    while got := mq.queue("orders").receive(25):
        for message in got:
            elsewhere[message.text()] += 1
            message.ack()
    pipeline.finish()
    add_up(mq, done=25)
    effects = priced(mq) + elsewhere
    assert set(effects) == set(orders)
    assert effects - once(orders) == once([m.text() for m in lost]) & published


@pytest.mark.parametrize("step", STEPS[1:])
def test_two_drivers(mq, pipelines, orders, step):
    """The newest has the subscription; the older one, held up at any step, changes nothing more."""
    old, new = pipelines(), pipelines()
    old.start().trigger()
    old.start()
    end = old.reader.latestOffset({"epoch": 1}, old.reader.getDefaultReadLimit())
    rows = old.read({"epoch": 1}, end)
    if step not in BEFORE_PUBLISHING:
        old.sink[1] = rows
    new.finish()
    with pytest.raises(Forbidden, match="was taken by"):
        # The next epoch may have been leased ahead; it cannot be read any more.
        old.read(end, old.reader.latestOffset(end, old.reader.getDefaultReadLimit()))
    add_up(mq, done=25)
    again = priced(mq) - once(orders)
    assert again.total() == (0 if step in BEFORE_PUBLISHING else 10)
    assert set(priced(mq)) == set(orders)


def test_the_sink_has_no_room(mq, pipelines, orders):
    mq.queue("priced").create(max_messages=15)
    pipeline = pipelines(maxBatchFailures=3)
    pipeline.start().trigger()
    for _ in range(2):
        with pytest.raises(turnabout.Unavailable, match="holds 10 messages of at most 15"):
            pipeline.trigger()
        pipeline.start()
    assert mq.queue("orders").stats().done == 10
    assert priced(mq).total() == 10
    mq.queue("priced").update(max_messages=100)
    pipeline.finish()
    assert priced(mq) == once(orders)
    add_up(mq, done=25)
