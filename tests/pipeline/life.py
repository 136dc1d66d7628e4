"""Random lives of pipelines: leases, batches, publishing and the log beside workers.

`live(pipe, examples)` plays many and fails, with the shortest program that shows it, if the store
and the model ever disagree. Readers that were superseded go on calling, receipts go stale, time
moves to the millisecond at which a lease runs out.
"""

from collections import Counter
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.pipeline.model import MAX_ATTEMPTS, SLOTS, Epoch, Key, Model, Subscription
from tests.pipeline.steps import Pipe, Reader
from tests.support.lives import play
from turnabout import Policy, Receipt, message
from turnabout.pipeline import verbs as p
from turnabout.words import verbs as v

CHANNELS = st.sampled_from(["a", "b", "narrow"])
MAX_PLANS = 2
STEPS = 30
leasing = precondition(lambda self: self.pipe.is_postgres)  # no leases by the batch on SQLite
STAGED = st.lists(st.tuples(st.integers(0, 1), CHANNELS), max_size=4)


class Life(RuleBasedStateMachine):
    """One life: two queues, two subscriptions, and whatever Hypothesis thinks of."""

    pipe: ClassVar[Pipe]
    seen: ClassVar[Counter[str]]

    @initialize(first=st.lists(CHANNELS, min_size=2, max_size=12))
    def begin(self, first: list[str]) -> None:
        self.hold: Any = None
        settings: Any = {"max_attempts": MAX_ATTEMPTS, "backoff_seconds": 0}
        self.queues = [self.pipe.queue(fifo=fifo, **settings) for fifo in (False, True)]
        self.names = [queue.name for queue in self.queues]
        for queue in self.queues:
            for channel, most in SLOTS.items():
                queue.channel(channel).set_policy(Policy(max_concurrency=most))
        self.model = Model(self.pipe.clock, self.names)
        self.subscriptions = [self.pipe.name("life") for _ in "12"]
        self.readers: list[Reader] = []
        self.receipts: list[tuple[str, Receipt]] = []
        self.staged: dict[str, list[tuple[int, str]]] = {}
        self.published: dict[int, int] = {}
        self.sink = self.pipe.name("sink")
        # Positions that were come to: what is not after them.
        self.positions: list[tuple[str, set[Key]]] = [(self.pipe.end(), set())]
        self.send(0, first)
        if self.pipe.is_postgres:
            self.open(0)

    def teardown(self) -> None:
        if getattr(self, "hold", None) is not None:
            self.let_go()

    def begun(self) -> None:
        """A transaction of ours begins."""
        self.model.transaction += 1

    def compare(self) -> None:
        for queue in self.queues:
            grave = self.pipe.door.mq.queue(f"{queue.name}-dead")
            self.model.compare(queue.name, queue.peek(1000), grave.peek(1000))

    # --- producers, workers and time ---

    @rule(which=st.integers(0, 1), channels=st.lists(CHANNELS, min_size=1, max_size=12))
    def send(self, which: int, channels: list[str]) -> None:
        self.begun()
        outcome = self.queues[which].send_many([message("x", channel=c) for c in channels])
        self.model.sent(self.names[which], outcome.ids, channels)

    @rule(which=st.integers(0, 1), most=st.sampled_from([1, 2, 9]))
    def receive(self, which: int, most: int) -> None:
        self.begun()
        queue, name = self.queues[which], self.names[which]
        wanted = min(most, sum(self.model.offer(name).values()))
        batch = queue.receive(most, lease_seconds=1)
        self.model.notice(name, [*queue.peek(1000)])
        assert len(batch) == wanted
        self.model.first((name, m.id) for m in batch)
        for m in batch:
            self.model.leased(name, m.id, m.attempt, self.pipe.clock.now + 1000)
            self.receipts.append((name, m.receipt))
        self.compare()

    @precondition(lambda self: self.receipts)
    @rule(pick=st.integers(0, 20), how=st.sampled_from(["ack", "fail", "release"]))
    def settle(self, pick: int, how: str) -> None:
        self.begun()
        name, receipt = self.receipts[-1 - pick % len(self.receipts)]
        m = self.model.held(name, receipt.id, receipt.attempt)
        queue = self.queues[self.names.index(name)]
        (answer,) = getattr(queue, how)(
            [v.Failure(receipt, "why", delay_ms=0)] if how == "fail" else [receipt]
        )
        self.seen[type(answer).__name__] += 1
        assert (type(answer).__name__ == "LeaseLost") == (m is None), answer
        if m is not None and how == "ack":
            self.model.end(name, m.id, "done")
        elif m is not None and how == "fail":
            self.model.charge(name, m, "failures")
        elif m is not None:
            m.status, m.at = "ready", 0
        self.compare()

    @rule()
    def work(self) -> None:
        self.receive(0, 2)
        if self.receipts:
            self.settle(0, "ack")
        self.look(0, None, ignore=True)

    @rule(ms=st.sampled_from([1, 999, 1_000, 2_000, 12_000]))
    def tick(self, ms: int) -> None:
        self.pipe.clock.advance(ms=ms)

    # --- subscriptions ---

    @leasing
    @rule(which=st.integers(0, 1))
    def open(self, which: int) -> None:
        self.begun()
        name = self.subscriptions[which]
        sub, owner = self.model.subscriptions.get(name), f"reader {len(self.readers)}"
        reader = Reader(self.pipe, name, tuple(self.names), owner, 2, lease_ms=2_000)
        reader.max_plans = MAX_PLANS
        assert all(r.generation != reader.generation for r in self.readers)
        if sub is None:
            sub = self.model.subscriptions[name] = Subscription(reader.generation, owner)
        sub.generation, sub.owner = reader.generation, owner
        assert reader.acked == sub.acked
        self.readers.append(reader)

    def reader(self, pick: int) -> tuple[Reader, Subscription | p.Superseded]:
        """One of the readers, the newest most often, and what it has."""
        reader = self.readers[-1 - max(0, pick - 3) % len(self.readers)]
        sub = self.model.subscriptions.get(reader.subscription)
        if sub is None:
            return reader, p.Superseded("")
        if sub.generation != reader.generation:
            return reader, p.Superseded(sub.owner)
        return reader, sub

    @leasing
    @rule(
        pick=st.integers(0, 6),
        back=st.sampled_from([0, 0, 0, 0, 1, 1, -1]),
        most=st.sampled_from([0, 1, 3, 20, 20]),
        ahead=st.sampled_from([0, 0, 0, 1]),
    )
    def lease(self, pick: int, back: int, most: int, ahead: int) -> None:
        """The next epoch: most often after the newest, as a batch that succeeded; or ahead."""
        self.begun()
        reader, sub = self.reader(pick)
        newest = sub.epoch if isinstance(sub, Subscription) else 1
        after = max(0, newest - back)
        answer = reader.lease(max(0, after - ahead), most, after * ahead)
        if isinstance(sub, p.Superseded):
            self.seen["superseded"] += 1
            assert answer == sub
        else:
            acked, lost = self.model.acknowledge(sub, max(0, after - ahead))
            self.seen["acknowledged"] += acked
            self.seen["lost"] += lost
            assert answer.acked == acked
            assert lost <= answer.lost <= lost + sub.unsure
            self.leased(reader, sub, after, most, answer)
        self.compare()

    def leased(self, reader: Reader, sub: Subscription, after: int, most: int, answer: Any) -> None:
        until = self.pipe.clock.now + reader.lease_ms
        recorded = sorted(number for number in sub.epochs if number > after)
        if recorded:
            self.seen["the recorded one"] += 1
            epoch = sub.epochs[recorded[0]]
            assert (answer.epoch, answer.messages) == (recorded[0], len(epoch.receipts))
            self.model.renew(sub, until, recorded[0])
            self.read(reader, sub, recorded[0])
            return
        assert answer.wait_ms == max(0, sub.resume_at - self.pipe.clock.now) * (most > 0)
        self.seen["waits"] += answer.wait_ms > 0
        most = 0 if answer.wait_ms else most
        if most and sub.limit is not None and sub.limit >= most:
            sub.limit = None
        most = min(most, sub.limit or most)
        plain, fifo = (sum(self.model.offer(name, most).values()) for name in self.names)
        # A channel of the FIFO queue is closed after its share, though others left theirs.
        least, wanted = min(most, max(plain, min(fifo, 1))), min(most, plain + fifo)
        if most:
            for queue in self.queues:
                self.model.notice(queue.name, queue.peek(1000))
        assert least <= answer.messages <= wanted
        if not answer.messages:
            assert answer.epoch == after
            return
        assert answer.epoch == max(sub.epoch, after) + 1
        sub.epoch = answer.epoch
        rows = reader.rows(answer.epoch)
        receipts = [(row["queue"], row["message_id"], row["attempt"]) for row in rows]
        self.model.first(receipt[:2] for receipt in receipts)
        for receipt in receipts:
            self.model.leased(*receipt, until)
        assert {row["lease_until"] for row in rows} == {until}
        assert len(receipts) == answer.messages
        sub.epochs[answer.epoch] = Epoch(receipts)
        self.seen["epochs"] += 1
        self.seen["ahead"] += len(sub.epochs) > 1

    def read(self, reader: Reader, sub: Subscription, epoch: int) -> None:
        """A batch reads what was recorded, but for what was lost."""
        rows = [(r["queue"], r["message_id"], r["attempt"]) for r in reader.rows(epoch)]
        receipts = sub.epochs[epoch].receipts
        assert rows == [r for r in receipts if self.model.held(*r) is not None]

    @leasing
    @rule(pick=st.integers(0, 6), back=st.sampled_from([0, 0, 0, 0, 1, -1]))
    def plan(self, pick: int, back: int) -> None:
        self.begun()
        reader, sub = self.reader(pick)
        number = max(1, (sub.epoch if isinstance(sub, Subscription) else 1) - back)
        answer = reader.plan(number)
        if isinstance(sub, p.Superseded):
            assert answer == sub
        elif number not in sub.epochs:
            assert answer == p.NoEpoch(sub.acked, sub.epoch)
        else:
            self.planned(reader, sub, number, answer)
        self.compare()

    def planned(self, reader: Reader, sub: Subscription, number: int, answer: Any) -> None:
        epoch = sub.epochs[number]
        plans = epoch.plans = epoch.plans + 1
        returned, recorded, ends = 0, len(epoch.receipts), dict[str, int]()
        size = sum(part.messages for part in answer.parts)
        if plans > MAX_PLANS:
            held = [r for r in epoch.receipts if self.model.held(*r) is not None]
            if len(epoch.receipts) == 1 and held:
                ends, epoch.receipts = self.model.judge(sub, *held[0]), []
                self.seen["dead alone" if ends["dead"] else "set aside"] += 1
            else:
                now = {(r["queue"], r["message_id"], r["attempt"]) for r in reader.rows(number)}
                kept = [r for r in epoch.receipts if r in now]
                assert now <= set(held)
                assert len(kept) <= max(1, len(epoch.receipts) // 10)
                assert bool(kept) or len(held) < 2
                self.model.first(r[:2] for r in kept)
                returned = self.model.give_back([r for r in held if r not in now])
                epoch.receipts = kept
                epoch.plans = 1 if recorded > 1 and size == 1 else plans
                self.seen["isolated"] += returned > 0
            if not held:  # what is kept of it is lost as well, or nothing is kept
                sub.unsure += max(1, recorded // 10)
            if recorded:  # where none of them is held still, it may be small or as before
                smaller = {max(1, n // 10) for n in (recorded, len(held))}
                before, sub.limit = sub.limit, reader.state().limit
                assert sub.limit in smaller | (set() if held else {before})
        until = {m.id: m.due_at for queue in self.queues for m in queue.peek(1000)}
        self.model.renewed(sub.epochs[number], reader.lease_ms, until)
        assert answer == p.Planned(answer.parts, plans, returned, **ends)
        assert size == len(epoch.receipts) or sub.unsure

    @leasing
    @rule(times=st.integers(1, 6), ahead=st.booleans())
    def fail(self, times: int, ahead: bool, most: int = 20) -> None:
        """A reader whose batch fails so often."""
        self.open(0)
        self.lease(0, 0, 1 if ahead else most, 0)
        if ahead:
            self.lease(0, 0, 3, 1)
        for _ in range(times):
            self.plan(0, int(ahead))

    @leasing
    @rule(through=st.booleans())
    def suspect(self, through: bool) -> None:
        """Messages fail alone; meanwhile others get through, or nothing does."""
        for _ in range(5):
            self.fail(MAX_PLANS + 1, False, 1)
            for most in (1, 1, 1, 1, 1, 0) if through else ():
                self.lease(0, 0, most, 0)
            self.tick(12_000)

    @leasing
    @rule(most=st.sampled_from([1, 9]))
    def lose(self, most: int) -> None:
        """A reader whose leases run out under its hands."""
        self.open(1)
        self.lease(0, 0, 20, 0)
        self.tick(2_000)
        for which in (0, 1):
            self.receive(which, most)
        self.extend(0)
        self.lease(0, 0, 3, 0)

    @leasing
    @rule(most=st.sampled_from([1, 3, 20]))
    def run(self, most: int) -> None:
        """A reader that works until there is nothing more."""
        self.open(0)
        for _ in range(4):
            self.lease(0, 0, most, 0)
            self.tick(999)
            self.extend(0)

    @leasing
    @rule(pick=st.integers(0, 6))
    def extend(self, pick: int) -> None:
        self.begun()
        reader, sub = self.reader(pick)
        answer = reader.extend()
        if isinstance(sub, Subscription):
            until = self.pipe.clock.now + reader.lease_ms
            kept, lost = self.model.renew(sub, until)
            assert answer.messages == kept
            assert lost <= answer.lost <= lost + sub.unsure
        else:
            assert answer == sub
        self.compare()

    @leasing
    @rule(which=st.sampled_from([1, 0]), forget=st.booleans())
    def release(self, which: int, forget: bool) -> None:
        self.begun()
        name = self.subscriptions[which]
        sub = self.model.subscriptions.get(name)
        given = self.pipe.run(p.SubscriptionRelease(name, forget))
        receipts = [r for e in sub.epochs.values() for r in e.receipts] if sub else []
        assert given == self.model.give_back(receipts)
        if sub is not None:
            sub.released()
            (now,) = [s for s in self.pipe.run(p.SubscriptionList()) if s.name == name] or [sub]
            assert now.acked in (sub.acked, sub.epoch), "nothing that was leased since counts"
            sub.acked = now.acked
            if forget:
                del self.model.subscriptions[name]
        self.compare()

    # --- staged sends ---

    @rule(attempt=st.sampled_from("abc"), messages=STAGED)
    def stage(self, attempt: str, messages: list[tuple[int, str]]) -> None:
        self.begun()
        name = f"{self.sink}-{attempt}"
        staged = [
            p.StagedMessages.of(self.names[n], [message("x", channel=c)]) for n, c in messages
        ]
        self.pipe.run(p.Stage(name, tuple(staged)))
        self.staged.setdefault(name, []).extend(messages)
        self.compare()

    @rule(
        attempts=st.sets(st.sampled_from("abc")),
        on=st.sampled_from([1, 1, 1, 0, -1]),
        more=st.sampled_from([0, 0, 0, 1]),
    )
    def publish(self, attempts: set[str], on: int, more: int) -> None:
        self.begun()
        newest = max(self.published, default=0)
        batch = max(0, newest + on)
        names = tuple(f"{self.sink}-{attempt}" for attempt in sorted(attempts))
        messages = [m for name in names for m in self.staged.get(name, [])]
        before = [{m.id for m in queue.peek(1000)} for queue in self.queues]
        answer = self.pipe.run(p.Publish(self.sink, batch, names, len(messages) + more))
        self.seen[type(answer).__name__] += 1
        new = [
            [m for m in queue.peek(1000) if m.id not in before[n]]
            for n, queue in enumerate(self.queues)
        ]
        if batch < newest:
            assert answer == p.PublishedLater(newest)
        elif batch in self.published:
            assert answer == p.AlreadyPublished(self.published[batch])
        elif more:
            assert answer == p.StageIncomplete(len(messages) + more, len(messages))
        else:
            assert answer == p.Published(len(messages))
            self.published[batch] = len(messages)
            for n, there in enumerate(new):
                wanted = [c for queue, c in messages if queue == n]
                assert [m.channel for m in there] == wanted, "all, in their order"
                self.model.sent(self.names[n], [m.id for m in there], wanted)
        if not isinstance(answer, p.StageIncomplete | p.PublishedLater):
            for name in names:
                self.staged.pop(name, None)
        self.compare()

    @rule(attempt=st.sampled_from("abc"))
    def unstage(self, attempt: str) -> None:
        self.begun()
        name = f"{self.sink}-{attempt}"
        assert self.pipe.run(p.Unstage((name,))) == len(self.staged.pop(name, []))

    # --- the log ---

    @rule(pick=st.integers(0, 9), limit=st.sampled_from([1, 2, 5, None]), ignore=st.booleans())
    def look(self, pick: int, limit: int | None, ignore: bool) -> None:
        """Read on from a place where we have been."""
        position, before = self.positions[-1 - pick % len(self.positions)]
        answer = self.pipe.next(position, limit, ignore_loss=ignore)
        if not ignore and not self.model.gone <= before:
            self.seen["log lost"] += 1
            assert isinstance(answer, p.LogLost), (answer, self.model.gone - before)
            return
        assert isinstance(answer, p.LogRange), answer
        there = self.model.readable() - before
        rows = [(row["queue"], row["message_id"]) for row in self.pipe.rows(answer)]
        assert len(rows) == answer.messages == min(limit or len(there), len(there))
        assert set(rows) <= there, "read before, or not to be read yet"
        assert len(set(rows)) == len(rows)
        assert answer.more == (len(rows) < len(there))
        self.model.in_order(rows, there, [None] if self.pipe.is_postgres else self.names)
        self.cut(answer, rows)
        if rows:
            known = self.model.gone if ignore else set[Key]()
            self.positions.append((answer.until, before | set(rows) | known))
            self.seen["rows"] += len(rows)

    def cut(self, span: p.LogRange, rows: list[Key]) -> None:
        parts = self.pipe.run(p.LogCut(span.after, span.until, 3))
        read = [(r["queue"], r["message_id"]) for part in parts for r in self.pipe.rows(part)]
        assert sorted(read) == sorted(rows)
        assert sum(part.messages for part in parts) == len(rows)

    def removed(self, told: int, within: set[Key]) -> None:
        """What is gone now; it was among those."""
        here = "queue in (?, ?)"
        rows = self.pipe.select(f"select queue, message_id from log_rows where {here}", *self.names)
        there = {(row["queue"], row["message_id"]) for row in rows}
        gone = self.model.rows.keys() - self.model.gone - there
        assert len(gone) == told
        assert gone <= within, gone - within
        self.model.gone |= gone
        self.seen["removed"] += told

    @rule(which=st.integers(0, 1), limit=st.sampled_from([1, 1, 3, None]))
    def clear(self, which: int, limit: int | None) -> None:
        self.begun()
        mine = {key for key in self.model.rows if key[0] == self.names[which]} - self.model.gone
        outcome = self.pipe.run(v.Clear(self.names[which], "all", limit))
        assert outcome.messages == min(len(mine), limit or len(mine))
        self.removed(outcome.messages, mine)

    @rule(
        pick=st.integers(0, 9), limit=st.sampled_from([1, 3, 100]), ms=st.sampled_from([1, 0, -999])
    )
    def purge(self, pick: int, limit: int, ms: int) -> None:
        self.begun()
        position, before = self.positions[-1 - pick % len(self.positions)]
        finished = self.pipe.clock.now + ms
        mine = {
            key for key in before - self.model.gone if self.model.rows[key].finished_at < finished
        }
        told = self.pipe.run(p.LogPurge(position, finished, 1, dry_run=True))
        gone = self.pipe.run(p.LogPurge(position, finished, limit))
        # Rows of other tests may be there as well: the oldest go first, so ours may have to wait.
        assert told >= len(mine)
        assert gone == min(told, limit)
        if told == len(mine):
            self.removed(gone, mine)
        else:
            left = self.pipe.run(p.LogPurge(position, finished, 10**6))
            assert gone + left == told
            self.removed(len(mine), mine)

    @precondition(lambda self: self.pipe.is_postgres and self.hold is None)
    @rule()
    def hold_back(self) -> None:
        """A transaction of somebody's is open, and has its place in the log."""
        self.begun()
        self.hold = self.pipe.hold()
        self.model.held_from = self.model.transaction
        self.work()
        self.seen["held back"] += len(self.model.rows) > len(
            self.model.readable() | self.model.gone
        )

    @precondition(lambda self: self.hold is not None)
    @rule()
    def let_go(self) -> None:
        self.hold.close()
        self.hold = self.model.held_from = None


def live(pipe: Pipe, examples: int, *, shrink: bool = True, start: int = 0) -> Counter[str]:
    """Play so many lives, the same ones for the same `start`; what was seen in them."""

    class LifeHere(Life):
        pass

    pipe.begin_log()
    LifeHere.pipe, LifeHere.seen = pipe, Counter()
    play(LifeHere, examples, STEPS, shrink=shrink, start=start)
    return LifeHere.seen
