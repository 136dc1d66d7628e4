"""Random lives: the same verbs in a store and in the model, compared after every step.

`live(door)` plays many lives behind a door and fails, with the shortest program that shows it, if
the store and the model ever disagree. Every receipt ever given is kept and drawn again, most of
them stale by then; times are drawn to the very millisecond at which something is due.
"""

import contextlib
import os
from collections import Counter
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from penstock import (
    ChannelFull,
    Deferral,
    Failure,
    LeaseLost,
    Policy,
    Purged,
    QueueSettings,
    Rate,
    Receipt,
    Sent,
    message,
)
from penstock.words import turns
from penstock.words.verbs import Tend
from tests.conformance.model import Model
from tests.support.doors import Door

CHANNELS = st.sampled_from(["a", "a", "", "ü"])
DELAYS = st.sampled_from([None, 0, 0, 0.5, 2])
LEASES = st.sampled_from([None, 0.001, 1, 5])
RATES = st.sampled_from([Rate(1, 0.5), Rate(3, 1, 2), Rate(2, 10, 3)])
POLICIES = st.builds(
    Policy,
    max_concurrency=st.sampled_from([None, 1, 1, 2]),
    rate=st.none() | RATES,
    max_size=st.sampled_from([None, 2, 3]),
    weight=st.sampled_from([None, None, 2, 3]),
    paused=st.sampled_from([False, False, False, True]),
)
DEFAULTS = st.sampled_from(
    [Policy(), Policy(max_size=3), Policy(max_concurrency=1), Policy(rate=Rate(1, 0.5))]
)
MESSAGES = st.builds(
    message,
    st.integers(0, 99).map(str),
    channel=CHANNELS,
    priority=st.sampled_from([0, 0, -1, 1]),
    delay_seconds=DELAYS,
)
CROWD = [message("c", channel=channel) for channel in ("", "a", "ü") for _ in range(3)]
SETTINGS = st.fixed_dictionaries(
    {
        "fifo": st.booleans(),
        "max_attempts": st.sampled_from([1, 2, 3, None]),
        "lease_seconds": st.sampled_from([2, 30]),
        "backoff_seconds": st.sampled_from([0, 0.5]),
        "backoff_max_seconds": st.sampled_from([1, 60]),
        "backoff_jitter": st.just(0.0),
        "delay_seconds": st.sampled_from([0, 0, 1]),
        "history_seconds": st.sampled_from([0, 3600]),
        "policy": DEFAULTS,
    }
)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "paused": st.booleans(),
        "max_attempts": st.sampled_from([1, 3, None]),
        "lease_seconds": st.just(7),
        "policy": DEFAULTS,
    },
)
PICKS = st.lists(st.integers(0, 30), min_size=1, max_size=3)
ONCE = st.none()
SETTLINGS = st.one_of(
    st.tuples(st.just("ack"), ONCE),
    st.tuples(
        st.just("fail"),
        st.tuples(st.sampled_from([True, True, True, False]), st.sampled_from([None, 0])),
    ),
    st.tuples(
        st.just("defer"),
        st.tuples(st.sampled_from([0, 0, 700]), st.sampled_from([None, b"s", b"t"])),
    ),
    st.tuples(st.just("release"), ONCE),
    st.tuples(st.just("extend"), LEASES),
    st.tuples(st.just("forge"), st.integers(-1, 2)),
)
CONFIGURINGS = st.one_of(
    st.tuples(st.just("set_policy"), POLICIES),
    st.tuples(st.just("set_policy"), POLICIES),
    st.tuples(st.just("clear_policy"), ONCE),
    st.tuples(st.just("update"), CHANGES),
    st.tuples(st.just("purge"), st.sampled_from(["channel", "all", "leased", "dead"])),
    st.tuples(st.just("make_again"), SETTINGS),
    st.tuples(st.sampled_from(["reconnect", "tend"]), ONCE),
)
MOST_CONNECTIONS = 40


class Life(RuleBasedStateMachine):
    """One life: a queue, its dead-letter queue, and whatever Hypothesis thinks of."""

    door: ClassVar[Door]
    seen: ClassVar[Counter[str]]

    @initialize(chosen=SETTINGS)
    def begin(self, chosen: dict[str, Any]) -> None:
        self.others = contextlib.ExitStack()
        self.model = Model(self.door.clock)
        self.name = self.door.name_of_a_queue()
        self.grave = f"{self.name}-dead"
        self.receipts: list[tuple[str, Receipt]] = []
        self.ps = self.door.ps
        self.queue(self.name).create(**chosen)
        self.model.create(self.name, QueueSettings(**chosen))

    def teardown(self) -> None:
        if hasattr(self, "others"):
            self.others.close()

    def queue(self, name: str) -> Any:
        return self.ps.queue(name)

    def compare(self) -> None:
        for name in (self.name, self.grave):
            queue = self.queue(name)
            self.model.compare(name, queue.peek(1000), queue.stats())

    # --- sending and receiving ---

    @rule(messages=st.lists(MESSAGES, max_size=6) | st.just(CROWD))
    def send(self, messages: list[Any]) -> None:
        refusals = self.model.refusals(self.name, messages)
        outcome = self.queue(self.name).send_many(messages)
        if isinstance(outcome, Sent):
            assert not refusals, refusals
            self.model.sent(self.name, messages, outcome.ids)
        else:
            assert isinstance(outcome, ChannelFull)
            limits = {full.channel: full.max_size for full in refusals}
            assert limits.get(outcome.channel) == outcome.max_size
            self.seen["refused sends"] += 1
        self.compare()

    @rule(
        most=st.sampled_from([1, 1, 2, 7]),
        lease=LEASES,
        dead=st.sampled_from([False, False, False, True]),
        times=st.sampled_from([1, 1, 4]),
    )
    def receive(self, most: int, lease: float | None, dead: bool, times: int) -> None:
        for _ in range(times):
            self.receive_once(self.grave if dead else self.name, most, lease)
        self.compare()

    def receive_once(self, name: str, most: int, lease: float | None) -> None:
        batch = self.queue(name).receive(most, lease_seconds=lease)
        lease_ms = None if lease is None else round(lease * 1000)
        self.model.received(name, most, lease_ms, batch, lambda _: True)
        self.receipts += [(name, m.receipt) for m in batch]
        self.seen["deliveries"] += len(batch)
        self.seen["redeliveries"] += sum(m.attempt > 1 for m in batch)

    # --- settling: most receipts are stale, and that is meant ---

    def pick(self, picks: list[int]) -> tuple[str, list[Receipt]]:
        """Receipts of one queue, counted from the latest; each message once in a call."""
        name, _ = self.receipts[-1 - picks[0] % len(self.receipts)]
        drawn = [self.receipts[-1 - pick % len(self.receipts)] for pick in picks]
        unique = {receipt.id: receipt for owner, receipt in drawn if owner == name}
        return name, list(unique.values())

    def agree(self, ours: list[Any], theirs: Any) -> None:
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            if isinstance(mine, LeaseLost):
                self.seen[f"lost: {mine.now}"] += 1
                assert isinstance(other, LeaseLost), (mine, other)
                waiting = {"ready", "scheduled"}  # of a message that is due, both are true
                assert mine.now == other.now or {mine.now, other.now} == waiting, (mine, other)
            else:
                self.seen[type(mine).__name__] += 1
                assert mine == other

    @precondition(lambda self: self.receipts)
    @rule(picks=PICKS, settling=SETTLINGS)
    def settle(self, picks: list[int], settling: tuple[str, Any]) -> None:
        name, receipts = self.pick(picks)
        op, how = settling
        getattr(self, op)(name, receipts, how)
        self.compare()

    @precondition(lambda self: self.receipts)
    @rule(settling=SETTLINGS)
    def settle_the_latest(self, settling: tuple[str, Any]) -> None:
        """The one receipt that is most likely to be good."""
        self.settle([0], settling)

    def ack(self, name: str, receipts: list[Receipt], _: Any) -> None:
        theirs = self.queue(name).ack(receipts)
        self.agree([self.model.ack(name, r) for r in receipts], theirs)

    def forge(self, name: str, receipts: list[Receipt], off: int) -> None:
        """Ack with an attempt that is not its own, or through the wrong queue."""
        if off == 0:
            name = self.grave if name == self.name else self.name
        self.ack(name, [Receipt(r.id, max(1, r.attempt + off)) for r in receipts], None)

    def defer(self, name: str, receipts: list[Receipt], how: tuple[int, bytes | None]) -> None:
        deferrals = [Deferral(r, *how) for r in receipts]
        theirs = self.queue(name).defer(deferrals)
        self.agree([self.model.defer(name, d) for d in deferrals], theirs)

    def fail(self, name: str, receipts: list[Receipt], how: tuple[bool, int | None]) -> None:
        retry, delay = how
        if delay is None and name == self.grave:
            delay = 900  # its back-off has a random part
        failures = [Failure(r, f"error {r}", retry, delay) for r in receipts]
        theirs = self.queue(name).fail(failures)
        self.agree([self.model.fail(name, f) for f in failures], theirs)

    def release(self, name: str, receipts: list[Receipt], _: Any) -> None:
        theirs = self.queue(name).release(receipts)
        self.agree([self.model.release(name, r) for r in receipts], theirs)

    def extend(self, name: str, receipts: list[Receipt], lease: float | None) -> None:
        lease_ms = None if lease is None else round(lease * 1000)
        theirs = self.queue(name).extend(receipts, lease_seconds=lease)
        self.agree([self.model.extend(name, r, lease_ms) for r in receipts], theirs)

    # --- time ---

    @rule(ms=st.sampled_from([1, 499, 500, 1_000, 5_000, 30_000]))
    def tick(self, ms: int) -> None:
        self.door.clock.advance(ms=ms)
        self.compare()

    @rule(before=st.booleans())
    def tick_to_the_next_chance(self, before: bool) -> None:
        """To the millisecond at which something may be handed out, or to the one before."""
        chance = self.model.next_chance(self.name)
        if chance is not None and chance - before > self.door.clock.now:
            self.door.clock.now = chance - before
            self.seen["ticks to a chance"] += 1
            self.receive_once(self.name, 7, None)
            self.compare()

    # --- settings ---

    @rule(channel=CHANNELS, configuring=CONFIGURINGS)
    def configure(self, channel: str, configuring: tuple[str, Any]) -> None:
        op, how = configuring
        getattr(self, op)(channel, how)
        self.compare()

    def set_policy(self, channel: str, policy: Policy) -> None:
        assert self.queue(self.name).channel(channel).set_policy(policy) == policy
        self.model.set_policy(self.name, channel, policy)

    def clear_policy(self, channel: str, _: Any) -> None:
        self.queue(self.name).channel(channel).clear_policy()
        self.model.set_policy(self.name, channel, Policy())

    def update(self, _: str, changes: dict[str, Any]) -> None:
        self.queue(self.name).update(**changes)
        self.model.update(self.name, **changes)

    def purge(self, channel: str, what: str) -> None:
        name = self.grave if what == "dead" else self.name
        which = None if what in ("all", "dead") else channel
        state = "leased" if what == "leased" else None
        outcome = self.queue(name).purge(channel=which, state=state)
        assert outcome == Purged(self.model.purge(name, which, state))

    def make_again(self, _: str, chosen: dict[str, Any]) -> None:
        """Delete the queue and make a new one of that name: old receipts must stay void."""
        assert self.queue(self.name).delete().messages == self.model.delete(self.name)
        self.queue(self.name).create(**chosen)
        self.model.create(self.name, QueueSettings(**chosen))

    def tend(self, _: str, __: Any) -> None:
        """Housekeeping, which the face asks for by the clock on the wall, changes nothing."""
        for name in (self.name, self.grave):
            self.ps.store.run(Tend(name))

    def reconnect(self, _: str, __: Any) -> None:
        """Go on through a new connection, as after a restart: it has no memory of turns."""
        if "sharing" in self.door.has and self.seen["connections"] < MOST_CONNECTIONS:
            self.ps = self.others.enter_context(self.door.open())
            self.seen["connections"] += 1
            for queue in self.model.queues.values():
                queue.passed_over.clear()


def live(door: Door, examples: int, steps: int = 40, *, shrink: bool = True) -> Counter[str]:
    """Play so many lives behind the door; what was seen in them.

    `PENSTOCK_LIFE_EXAMPLES=20000` plays that many instead, and other ones each time.
    """
    more = os.environ.get("PENSTOCK_LIFE_EXAMPLES") if shrink else None

    class LifeHere(Life):
        pass

    LifeHere.door, LifeHere.seen = door, Counter()
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    chosen = settings(
        max_examples=int(more or examples),
        stateful_step_count=steps,
        derandomize=not more,
        database=None,
        deadline=None,
        phases=phases,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns, "TEND_SECONDS", float("inf"))  # only where `tend` was drawn
        run_state_machine_as_test(LifeHere, settings=chosen)
    return LifeHere.seen
