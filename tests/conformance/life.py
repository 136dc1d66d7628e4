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
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from tests.conformance.draws import (
    CHANNELS,
    CLEARED,
    CONFIGURINGS,
    CROWD,
    DEATHS,
    KEYS,
    LEASES,
    MESSAGES,
    PICKS,
    POLICIES,
    REDRIVES,
    SETTINGS,
    SETTLINGS,
    SLIDING,
    WITH_CHANNEL,
)
from tests.conformance.life_end import LooksBack
from tests.conformance.life_schedules import ScheduleSteps
from tests.conformance.model import PASSED, Model
from tests.conformance.steps import finished
from tests.support.doors import Door
from tests.support.lives import play
from turnabout import (
    ChannelFull,
    Deferral,
    Deleted,
    Failure,
    LeaseLost,
    Policy,
    Purged,
    QueueSettings,
    Receipt,
    Sent,
    message,
)
from turnabout.waiting import pacing
from turnabout.words import verbs as v
from turnabout.words.outcomes import Cleared
from turnabout.words.prepare import result
from turnabout.words.records import EVERYTHING, RedriveFilter
from turnabout.words.value import replace

MOST_CONNECTIONS, MOST_MESSAGES = 40, 90
STEPS = 40


class Life(ScheduleSteps, LooksBack):
    """One life: a queue, its dead-letter queues, and whatever Hypothesis thinks of."""

    door: ClassVar[Door]
    seen: ClassVar[Counter[str]]

    @initialize(chosen=SETTINGS, messages=st.lists(MESSAGES, min_size=2, max_size=6))
    def begin(self, chosen: dict[str, Any], messages: list[Any]) -> None:
        self.begin_evenly()
        self.others = contextlib.ExitStack()
        self.model = Model(self.door.clock)
        self.name = self.door.name_of_a_queue()
        self.neighbour = f"{self.name}-next"
        self.receipts: list[tuple[str, Receipt]] = []
        self.ids: list[int] = []
        self.agrees = False
        self.mq = self.door.mq
        self.make(self.name, self.named(chosen))
        self.born = self.run(v.Events(self.name)).cursor
        self.send(messages)

    def teardown(self) -> None:
        if hasattr(self, "others"):
            with self.others:
                self.others.callback(self.delete_schedules)
                if self.agrees:  # else a step has failed, and that is what is told
                    self.look_back()

    def make(self, name: str, chosen: dict[str, Any]) -> None:
        self.queue(name).create(**chosen)
        self.model.create(name, QueueSettings(**chosen))

    def named(self, chosen: dict[str, Any]) -> dict[str, Any]:
        """With a name of this life's own for the dead-letter queue, if one was drawn."""
        if chosen.get("dead_letter") is None:
            return chosen
        return {**chosen, "dead_letter": f"{self.name}-{chosen['dead_letter']}"}

    @property
    def grave(self) -> str:
        """Where the queue's dead go now."""
        grave = self.model.queues[self.name].grave
        assert grave is not None
        return grave

    def graves(self) -> list[str]:
        """That one, and those where they went before."""
        return [name for name, queue in self.model.queues.items() if queue.grave is None]

    def queue(self, name: str) -> Any:
        return self.mq.queue(name)

    def run(self, verb: Any) -> Any:
        return self.mq.store.run(verb)

    def compare(self) -> None:
        self.agrees = False
        for name in self.model.queues:
            queue = self.queue(name)
            ended = self.model.queues[name].expired
            self.model.compare(name, queue.peek(1000), queue.stats())
            self.seen["expired"] += self.model.queues[name].expired - ended
        self.agrees = True

    @invariant()
    def thin_out(self) -> None:
        """No more messages than one receive looks at, of those whose time has come: when it does
        not look at all, the store may choose.
        """
        if len(self.model.queues[self.name].messages) > MOST_MESSAGES:
            self.purge("", "all")
            self.compare()

    # --- sending and receiving ---

    @rule(messages=st.lists(MESSAGES, max_size=6) | st.just(CROWD))
    def send(self, messages: list[Any]) -> None:
        if self.model.queues[self.name].settings.on_exhausted in WITH_CHANNEL:
            messages = [replace(m, ttl_ms=None) for m in messages]
        channels, queue = self.model.refusals(self.name, messages)
        outcome = self.queue(self.name).send_many(messages)
        if isinstance(outcome, Sent):
            assert (channels, queue) == ([], None)
            self.seen.update(self.model.sent(self.name, messages, outcome))
            self.ids += outcome.ids
        elif isinstance(outcome, ChannelFull):
            full = {full.channel: full.max_size for full in channels}
            assert full.get(outcome.channel) == outcome.max_size, (outcome, full)
            self.seen["refused sends"] += 1
        else:
            assert outcome == queue
            self.seen["refused by the queue"] += 1
        self.compare()

    @rule(key=KEYS | SLIDING, ms=st.sampled_from([0, 400, 500]))
    def repeat(self, key: dict[str, Any], ms: int) -> None:
        """One key again and again: a window of half a second slides, or does not."""
        for _ in range(3):
            self.send([message("again", **key)])
            self.door.clock.advance(ms=ms)

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
        self.received(name, most, lease, self.queue(name).receive(most, lease_seconds=lease))

    def received(self, name: str, most: int, lease: float | None, batch: Any) -> None:
        lease_ms = None if lease is None else round(lease * 1000)
        self.model.received(name, most, lease_ms, batch, lambda _: True)
        self.receipts += [(name, m.receipt) for m in batch]
        self.seen["deliveries"] += len(batch)
        self.seen["redeliveries"] += sum(m.attempt > 1 for m in batch)

    @rule(
        settling=SETTLINGS,
        dead=st.sampled_from([False, False, False, True]),
        cancelled=st.sampled_from([False, False, True]),
        ms=st.sampled_from([0, 0, 1_000, 2_000]),
        retried=st.sampled_from([False, False, True]),
    )
    def work(
        self,
        settling: tuple[str, Any],
        *,
        dead: bool,
        cancelled: bool,
        ms: int,
        retried: bool = False,
    ) -> None:
        """Receive one (wait for it, if there is none), take some time over it, and settle it."""
        known, name = len(self.receipts), self.grave if dead else self.name
        self.receive_once(name, 1, None)
        self.compare()
        if len(self.receipts) == known:
            self.tick_to_the_next_chance(before=False)
        if len(self.receipts) == known:
            return
        if cancelled:
            owner, receipt = self.receipts[known]
            self.agree(
                [self.model.cancel(owner, receipt.id)], self.run(v.Cancel(owner, (receipt.id,)))
            )
        if ms:
            self.door.clock.advance(ms=ms)
            self.receive_once(name, 1, None)
            self.compare()  # what has expired meanwhile is gone
        owner, receipt = self.receipts[known]
        self.settle([len(self.receipts) - 1 - known], settling)
        if retried:
            self.agree(
                [self.model.retry(owner, receipt.id)], self.run(v.Retry(owner, (receipt.id,)))
            )
            self.compare()

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
                places = {mine.now}
                if mine.now in ("ready", "scheduled"):  # of a message that is due, both are true
                    places = {"ready", "scheduled"} | ({"gone"} if mine is PASSED else set())
                assert other.now in places, (mine, other)
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

    def ack(self, name: str, receipts: list[Receipt], value: Any) -> None:
        left = tuple(result(value) for _ in receipts)
        theirs = self.run(v.Ack(name, tuple(receipts), left))
        self.agree([self.model.ack(name, r, left[0]) for r in receipts], theirs)

    def ack_and_receive(self, name: str, receipts: list[Receipt], value: Any) -> None:
        most, left = len(receipts), [value] * len(receipts)
        batch = self.queue(name).receive(most, acks=receipts, results=left)
        self.agree([self.model.ack(name, r, result(value)) for r in receipts], batch.acked)
        self.received(name, most, None, batch)

    def forge(self, name: str, receipts: list[Receipt], off: int) -> None:
        """Ack with another attempt and no number of a lease, or through the wrong queue."""
        if off == 0:
            name = self.grave if name == self.name else self.name
        forged = [r._replace(attempt=max(1, r.attempt + off), lease=0) for r in receipts]
        self.ack(name, forged if off else receipts, None)

    def defer(self, name: str, receipts: list[Receipt], how: tuple[int, bytes | None]) -> None:
        deferrals = [Deferral(r, *how) for r in receipts]
        theirs = self.queue(name).defer(deferrals)
        self.agree([self.model.defer(name, d) for d in deferrals], theirs)

    def fail(self, name: str, receipts: list[Receipt], how: tuple[bool, int | None]) -> None:
        retry, delay = how
        if delay is None and name != self.name:
            delay = 900  # its back-off has a random part
        failures = [Failure(r, f"error {r}", retry, delay, f"w{r}") for r in receipts]
        theirs = self.queue(name).fail(failures)
        self.agree([self.model.fail(name, f) for f in failures], theirs)

    def release(self, name: str, receipts: list[Receipt], _: Any) -> None:
        theirs = self.queue(name).release(receipts)
        self.agree([self.model.release(name, r) for r in receipts], theirs)

    def extend(
        self, name: str, receipts: list[Receipt], how: tuple[float | None, Any, bool]
    ) -> None:
        lease, note, exact = how
        lease_ms = None if lease is None else round(lease * 1000)
        theirs = self.queue(name).extend(receipts, lease_seconds=lease, note=note, exact=exact)
        self.agree([self.model.extend(name, r, lease_ms, note, exact) for r in receipts], theirs)

    # --- cancel and retry: of messages in any state, most of them gone in the end ---

    @precondition(lambda self: self.ids)
    @rule(picks=PICKS, verb=st.sampled_from([v.Cancel, v.Retry]), dead=st.booleans())
    def dispose(self, picks: list[int], verb: Any, dead: bool) -> None:
        name = self.grave if dead and self.model.queues[self.grave].messages else self.name
        known = [*self.ids, *self.model.queues[name].messages] if dead else self.ids
        ids = tuple({known[-1 - pick % len(known)]: None for pick in picks})
        verb_of_the_model = getattr(self.model, verb.name)
        self.agree([verb_of_the_model(name, i) for i in ids], self.run(verb(name, ids)))
        self.compare()

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

    @rule(channel=CHANNELS, policy=POLICIES, crowded=st.booleans())
    def limit(self, channel: str, policy: Policy, crowded: bool) -> None:
        """A policy, perhaps put to the test at once."""
        assert self.queue(self.name).channel(channel).set_policy(policy) == policy
        self.model.set_policy(self.name, channel, policy)
        if crowded:
            self.send(CROWD)
            self.receive_once(self.name, 7, None)
        self.compare()
        self.compare_channels(self.name)

    def clear_policy(self, channel: str, _: Any) -> None:
        self.queue(self.name).channel(channel).clear_policy()
        self.model.set_policy(self.name, channel, Policy())

    def pause_for(self, channel: str, seconds: int) -> None:
        self.queue(self.name).channel(channel).pause(seconds=seconds)
        self.model.pause(self.name, channel, seconds * 1_000)

    def update(self, _: str, changes: dict[str, Any]) -> None:
        changes = self.named(changes)
        answer = self.queue(self.name).update(**changes)
        self.model.update(self.name, **changes)
        assert answer == self.model.queues[self.name].settings

    def purge(self, channel: str, what: str) -> None:
        name = self.grave if what == "dead" else self.name
        which = None if what in ("all", "dead") else channel
        state = "leased" if what == "leased" else None
        outcome = self.queue(name).purge(channel=which, state=state)
        assert outcome == Purged(self.model.purge(name, which, state))

    def make_again(self, _: str, chosen: dict[str, Any]) -> None:
        """Delete the queue and make a new one of that name: old receipts must stay void."""
        self.compare_events(self.name)
        assert self.queue(self.name).delete().messages == self.model.delete(self.name)
        self.make(self.name, self.named(chosen))

    def maintain(self, _: str, __: Any) -> None:
        """Housekeeping, which the face asks for by the clock on the wall."""
        before = {grave: self.moved(grave) for grave in self.graves()}
        for name in self.model.queues:
            self.run(v.Maintain(name))
        for name in self.model.queues:
            self.model.maintained(name, self.queue(name).peek(1000))
        for grave, moved in before.items():
            self.redriven(grave, moved, EVERYTHING, 3)

    # --- the dead and the past ---

    def moved(self, grave: str) -> int:
        return sum(r.moved for r in self.run(v.RedriveList(grave, 100)) if not is_dry(r))

    def redriven(self, grave: str, before: int, chosen: RedriveFilter, most: int) -> int:
        there = self.queue(grave).peek(1000)
        moved = self.model.redriven(grave, there, chosen, most)
        assert self.moved(grave) - before == moved, "counted what it did not move"
        self.seen["redriven"] += moved
        return moved

    @rule(how=REDRIVES, dies=DEATHS, old=st.booleans())
    def redrive(self, how: dict[str, Any], dies: str | None, old: bool) -> None:
        """Move, or only count, what matches: all of it, in a step or two."""
        if dies == "elsewhere":
            self.update("", {"dead_letter": None if "morgue" in self.grave else "morgue"})
        if dies in ("its own", "elsewhere"):
            self.work(("fail", (False, None)), dead=False, cancelled=False, ms=0)
        elif dies is not None:
            self.bury_a_neighbour()
        grave = self.graves()[0] if old else self.grave
        before = self.moved(grave)
        move, skip = self.model.matching(grave, how["filter"], how["max_redrives"])
        redrive = self.run(v.RedriveStart(grave, None, **how))
        for _step in range(3):
            if redrive.state == "running":
                redrive = self.run(v.RedriveStep(redrive.id))
        assert redrive.state == ("dry_run" if how["dry_run"] else "done")
        assert (redrive.moved, redrive.skipped) == (len(move), len(skip))
        moved = self.redriven(grave, before, how["filter"], how["max_redrives"])
        assert moved == (0 if how["dry_run"] else len(move))
        self.compare()

    def bury_a_neighbour(self) -> None:
        """A message of another queue dies, which shares the dead-letter queue."""
        name, sent = self.neighbour, [message("n", channel="a")]
        if name not in self.model.queues:
            self.make(name, {"events": "all", "dead_letter": self.grave})
        self.model.sent(name, sent, self.queue(name).send_many(sent))
        self.receive_once(name, 1, None)
        self.settle([0], ("fail", (False, None)))
        self.seen["neighbours buried"] += 1

    def redrive_slowly(self, _: str, __: Any) -> None:
        """One step of a redrive with a rate; `maintain` will take more."""
        before = self.moved(self.grave)
        redrive = self.run(v.RedriveStart(self.grave, None, per_second=1))
        assert self.run(v.RedriveStep(redrive.id)).moved <= 1
        self.redriven(self.grave, before, EVERYTHING, 3)

    @rule(how=CLEARED, ms=st.sampled_from([0, 500]))
    def clear(self, how: tuple[Any, int | None], ms: int) -> None:
        self.door.clock.advance(ms=ms)
        outcome = self.run(v.Clear(self.name, *how))
        left = finished(self.queue(self.name))
        assert outcome == Cleared(self.model.cleared(self.name, *how, left))

    @rule(channel=CHANNELS)
    def delete_channel(self, channel: str) -> None:
        """One whose message somebody works on, if there is one."""
        leased = [m for m in self.model.queues[self.name].messages.values() if m.status == "leased"]
        channel = leased[-1].channel if leased else channel
        gone = self.run(v.ChannelDelete(self.name, channel))
        assert gone == Deleted(self.model.delete_channel(self.name, channel))
        self.compare()

    def reconnect(self, _: str, __: Any) -> None:
        """Go on through a new connection, as after a restart: it has no memory of turns."""
        if "sharing" in self.door.has and self.seen["connections"] < MOST_CONNECTIONS:
            self.mq = self.others.enter_context(self.door.open())
            self.seen["connections"] += 1
            for queue in self.model.queues.values():
                queue.passed_over.clear()


def is_dry(redrive: Any) -> bool:
    return redrive.state == "dry_run"


def live(door: Door, examples: int, *, shrink: bool = True, start: int = 0) -> Counter[str]:
    """Play so many lives behind the door, the same for the same `start`; what was seen in them.
    `TURNABOUT_LIFE_EXAMPLES=20000` plays that many instead, and other ones each time.
    """
    more = os.environ.get("TURNABOUT_LIFE_EXAMPLES") if shrink else None

    class LifeHere(Life):
        pass

    LifeHere.door, LifeHere.seen = door, Counter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pacing.Rounds, "must_maintain", lambda *_: False)  # but where it was drawn
        patch.setattr(pacing.Watch, "must_look", lambda _: False)  # only where `fire` was drawn
        play(LifeHere, int(more or examples), STEPS, shrink=shrink, start=None if more else start)
    return LifeHere.seen
