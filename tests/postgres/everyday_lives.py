"""Random lives of one queue on PostgreSQL, with everyday statements and without them."""

import itertools
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
from hypothesis import strategies as st

import turnabout
from tests.support.doors import Clock
from turnabout import LeaseLost, Policy, Rate, Receipt, Sent
from turnabout.postgres import everyday
from turnabout.postgres._sync.store import PostgresStore
from turnabout.postgres.calls import CALLS
from turnabout.words import verbs as v
from turnabout.words.entities import FIRST_TURN, Turn
from turnabout.words.value import replace

CHANNELS = st.sampled_from(["", "a", "b"])
RECEIPTS = st.integers(0, 3)
ONE_SLOT, SLOW, FAST = (
    Policy(max_concurrency=1),
    Policy(rate=Rate(1)),
    Policy(rate=Rate(99, burst=99)),
)
KEPT = {"history_seconds": 60}
SETTINGS = [
    {"paused": True, "events": "off"},
    {"paused": False, "events": "off"},
    {"paused": False, "events": "all"},
    {"history_seconds": 0},
    KEPT,
]
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("send"),
            CHANNELS,
            st.sampled_from([0, 0, 5]),
            st.sampled_from([None, None, 2_000]),
        ),
        st.tuples(st.just("receive"), st.sampled_from([None, 1_000])),
        st.tuples(st.just("receive"), st.sampled_from([None, 1_000])),
        # (Of more, what the function takes when a channel has less than its share is a draw.)
        st.tuples(st.just("batch"), st.sampled_from([2, 3]), st.sampled_from([None, 1_000])),
        st.tuples(st.just("ack"), RECEIPTS),
        st.tuples(st.just("ack_batch"), st.integers(0, 2)),
        st.tuples(st.just("next"), st.sampled_from([0, 0, 1]), st.integers(1, 3)),
        st.tuples(st.just("next"), st.just(0), st.just(1)),
        st.tuples(st.just("fail"), RECEIPTS),
        st.tuples(st.just("update"), st.sampled_from(SETTINGS)),
        st.tuples(st.just("limit"), CHANNELS, st.sampled_from([ONE_SLOT, SLOW, FAST])),
        st.tuples(st.just("later"), st.sampled_from([1, 999, 2_000])),
    ),
    max_size=25,
)
FIRST = st.sampled_from(
    [{}, {"delay_seconds": 1}, {"ttl_seconds": 2}, {"max_messages": 3}, {"history_seconds": 60}]
)


class Always(everyday.Shortcuts):
    """The everyday statement is tried each time, for receives of an instant after the first."""

    take = everyday.IN_TURN
    """How batches are taken: one from each may be fewer than a function takes."""

    def was_special(self, statement: Any, verb: Any) -> None:
        if statement.form is not None:
            self._forms[verb.queue] = (not statement.form[0], self.take)

    def answered(self, statement: Any, verb: Any, rows: Any) -> None:
        if statement.form is not None:
            self._forms[verb.queue] = (statement.form[0], self.take)


class Looking(everyday.Shortcuts):
    """Each receive looks for what time has brought."""

    def is_time_to_look(self, queue: str, now: Any) -> bool:
        return True


class Lined(Always):
    """Batches come from the only channel, if there is one; one by one as behind head marks."""

    take = everyday.LINE
    usual = tuple(CALLS[v.Receive].everyday[nr].sql for nr in (0, 4, 5))

    def everyday(self, statements: Any, verb: Any, now: Any, *, looks: bool = False) -> Any:
        statements = [one for one in statements if one.sql not in self.usual]
        return super().everyday(statements, verb, now, looks=looks)


class Hurried(Always):
    """And nobody looks for what time has brought."""

    def is_time_to_look(self, queue: str, now: Any) -> bool:
        return False


class Beside(Always):
    """Receives by the statement for queues where channels with policies are asleep."""

    def everyday(self, statements: Any, verb: Any, now: Any, *, looks: bool = False) -> Any:
        if isinstance(verb, v.Receive) and statements[0].look is not None:
            statements = statements[3:4]
        return super().everyday(statements, verb, now, looks=looks)


class Received(Always):
    """Receives by the function, and the rest by everyday statements."""

    def everyday(self, statements: Any, verb: Any, now: Any, *, looks: bool = False) -> Any:
        received = isinstance(verb, v.Receive)
        return () if received else super().everyday(statements, verb, now, looks=looks)


class Never(Always):
    """Only functions."""

    def everyday(self, statements: Any, verb: Any, now: Any, *, looks: bool = False) -> Any:
        return ()


NUMBERS = itertools.count()


class SmallLife:
    """One queue of a store whose shortcuts is as given."""

    def __init__(self, store: PostgresStore, shortcuts: everyday.Shortcuts, first: Any) -> None:
        self.clock = Clock()
        self.store, name = store, f"life-{next(NUMBERS)}"
        self.store._clock, self.store._shortcuts = self.clock, shortcuts
        self.mq = turnabout.Turnabout(self.store)
        self.queue = self.mq.queue(name)
        plain = {"history_seconds": 0, "backoff_jitter": 0, "backoff_seconds": 1}
        self.queue.create(**{**plain, **first})
        self.turn = FIRST_TURN
        self.born = self.store.run(v.Events(name)).cursor
        self.ids: list[int] = []
        self.receipts: list[Receipt] = []

    def step(self, step: tuple[Any, ...]) -> Any:
        """What the step answered, in terms that do not differ between two lives."""
        match step:
            case "send", channel, priority, ttl:
                one = turnabout.message(b"x", channel=channel, priority=priority)
                sent = self.queue.send_many([replace(one, ttl_ms=ttl)])
                if isinstance(sent, Sent):
                    self.ids += sent.ids
                    return "sent"
                return sent
            case "receive", lease_ms:
                return [self.receive(lease_ms) for _ in range(3)]
            case "batch", most, lease_ms:
                return self.receive(lease_ms, most)
            case ("ack_batch" | "next") as name, *how:
                return getattr(self, name)(*how)
            case "ack", back:
                return self.settle(back, lambda receipt: v.Ack(self.queue.name, (receipt,)))
            case "fail", back:
                failed = turnabout.Failure
                return self.settle(
                    back, lambda receipt: v.Fail(self.queue.name, (failed(receipt, "e"),))
                )
            case "update", settings_:
                self.queue.update(**settings_)
            case "early", channel:
                self.make_early(channel)
            case "limit", channel, policy:
                self.queue.channel(channel).set_policy(policy)
            case "later", ms:
                self.clock.advance(ms=ms)
        return None

    def make_early(self, channel: str) -> None:
        """Its messages stand where a send puts them that began before the policy was set."""
        with psycopg.connect(self.store._options.url) as db:
            db.execute(
                "update turnabout.ready r set limited = false from turnabout.queue q"
                " where q.id = r.queue_id and q.name = %s and r.channel = %s",
                (self.queue.name, channel),
            )

    def receive(self, lease_ms: int | None, most: int = 1) -> Any:
        got = self.store.run(v.Receive(self.queue.name, most, lease_ms, None, self.turn))
        return self.received(got)

    def next(self, left: int, most: int) -> Any:
        """As `ack_batch`, and receives the next in the same call."""
        acks = self.last_lease(left)
        verb = v.Receive(self.queue.name, most, None, None, self.turn, acks)
        got = self.store.run(verb)
        acked = [type(one) for one in got.acked]
        if acks and not got.deliveries and got.retry_after_ms == 0:
            got = self.store.run(verb.apart()[1])  # as the face does
        return acked, self.received(got)

    def received(self, got: Any) -> Any:
        deliveries = sorted(got.deliveries)
        for one in deliveries:
            self.receipts.append(Receipt(one.id, one.attempt, one.lease))
            self.turn = Turn(one.channel)
        return [(self.ids.index(one.id), *one[1:-1]) for one in deliveries], got.turn

    def ack_batch(self, left: int) -> Any:
        """Acks what the last lease holds, except for the last `left` of it."""
        acked = self.last_lease(left)
        return [type(one) for one in self.store.run(v.Ack(self.queue.name, acked))]

    def last_lease(self, left: int) -> tuple[Receipt, ...]:
        last = [one for one in self.receipts if one.lease == self.receipts[-1].lease]
        return tuple(last[: len(last) - left])

    def settle(self, back: int, verb: Any) -> Any:
        if not self.receipts:
            return None
        (outcome,) = self.store.run(verb(self.receipts[-1 - back % len(self.receipts)]))
        return outcome.now if isinstance(outcome, LeaseLost) else outcome

    def rest(self) -> Any:
        """What is there in the end."""
        peeked = [(self.ids.index(m.id), m.state, m.attempt) for m in self.queue.peek(100)]
        ended = [
            (self.ids.index(h.id), h.outcome, h.attempt, h.payload)
            for h in self.queue.history().entries
        ]
        events = self.store.run(v.Events(self.queue.name, self.born)).events
        return (
            peeked,
            ended,
            [(e.kind, e.attempt) for e in events],
            replace(self.queue.stats(), queue="q"),
        )


Two = tuple[PostgresStore, PostgresStore]


@contextmanager
def two_stores(url: str) -> Iterator[Two]:
    with closing(PostgresStore(url)) as one, closing(PostgresStore(url)) as other:
        yield one, other


def compare(two: Two, first: Any, steps: Any, shortcuts: type[everyday.Shortcuts] = Always) -> None:
    """One life with everyday statements, and the same by functions alone."""
    one, other = SmallLife(two[0], shortcuts(), first), SmallLife(two[1], Never(), first)
    for step in steps:
        assert one.step(step) == other.step(step), step
    assert one.rest() == other.rest()


def compare_lives(two: Two, ways: Any) -> None:
    """`ways`: pairs of many first states and steps, and how the everyday statements are taken."""
    for lives, way in ways:
        for first, steps in lives:
            compare(two, first, steps, way)
