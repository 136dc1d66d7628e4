"""The part of a random life that is about schedules: set, changed, missed, fired, deleted."""

from collections import Counter
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.conformance.draws import CHANNELS, DELAYS, KEYS, WITH_CHANNEL
from tests.conformance.model import Model
from tests.support.doors import Door
from turnabout import message
from turnabout.words import verbs as v
from turnabout.words.outcomes import NotDue
from turnabout.words.schedules import Schedule
from turnabout.words.value import replace

NAMES = st.sampled_from(["s", "s", "t"])
EVERY_MS_MAX = 20_000
TIMES = st.one_of(
    st.fixed_dictionaries(
        {"every_ms": st.sampled_from([1_000, 1_000, EVERY_MS_MAX])},
        optional={"anchor": st.just(500), "anchor_after_ms": st.just(3_000)},
    ),
    st.fixed_dictionaries({"after_ms": st.sampled_from([-1_000, 0, 700])}),
)
HOW = st.fixed_dictionaries(
    {"missed": st.sampled_from(["once", "all", "skip"])},
    optional={"overlap": st.just("skip"), "paused": st.booleans()},
)
SENT = st.builds(
    lambda key, **options: message("by schedule", **key, **options),
    st.just({}) | st.just({}) | KEYS,
    channel=CHANNELS,
    delay_seconds=DELAYS,
)
PASSES = st.sampled_from([0, 999, 1_000, 3_500, 80_000])


class ScheduleSteps(RuleBasedStateMachine):
    """Rules of a life; what they use is in `Life`."""

    door: ClassVar[Door]
    seen: ClassVar[Counter[str]]
    model: Model
    mq: Any
    name: str
    compare: Any

    def begin_evenly(self) -> None:
        """Intervals go by the clock: a life that is lived again begins where it began before."""
        self.door.clock.advance(ms=-self.door.clock.now % EVERY_MS_MAX)

    def full_name(self, name: str) -> str:
        """Doors are shared, and names of schedules are not of a queue."""
        return f"{self.name}.{name}"

    @rule(name=NAMES, when=TIMES, how=HOW, what=SENT, passes=PASSES)
    def schedule(
        self, name: str, when: dict[str, int], how: dict[str, Any], what: Any, passes: int
    ) -> None:
        """Make or replace one; then let time pass, and fire what is due."""
        if self.model.queues[self.name].settings.on_exhausted in WITH_CHANNEL:
            what = replace(what, ttl_ms=None)
        times = {key: ms for key, ms in when.items() if "after" not in key}
        for key, ms in when.items() - times.items():
            times["at" if key == "after_ms" else "anchor"] = self.door.clock.now + ms
        wanted = Schedule(self.full_name(name), self.name, what, **times, **how)
        every = None if wanted.every_ms is None else wanted.every_ms / 1000
        options = {"at": wanted.at, "every_seconds": every, "anchor": wanted.anchor, **how}
        self.mq.schedules.set(wanted.name, self.name, what, **options)
        self.model.set_schedule(wanted, keeps_pause="paused" not in how)
        self.fire(passes)

    @rule(ms=PASSES)
    def fire(self, ms: int) -> None:
        """Let time pass, and send what is due."""
        self.door.clock.advance(ms=ms)
        self.compare()  # what has expired meanwhile is gone
        before = {name: row.next_at for name, row in self.model.schedules.items()}
        sent = self.mq.schedules.fire_due()
        self.seen["fired"] += len(sent)
        self.seen["left out"] += self.model.fired(sent)
        for name, due_at in before.items():  # as one that comes second says it
            if due_at is not None and due_at != self.model.schedules[name].next_at:
                late = v.ScheduleFire(name, due_at, due_at + 1)
                assert self.mq.store.run(late) == NotDue()
        self.compare_schedules()
        self.compare()

    @rule(name=NAMES, op=st.sampled_from(["pause", "resume", "delete"]), ms=PASSES)
    def change_schedule(self, name: str, op: str, ms: int) -> None:
        """Pause or resume one, or delete it; if it is there."""
        full = self.full_name(name)
        if op == "delete":
            assert self.mq.schedules.delete(full) == (full in self.model.schedules)
            self.model.schedules.pop(full, None)
        elif full in self.model.schedules:
            assert getattr(self.mq.schedules, op)(full).schedule.paused == (op == "pause")
            self.model.pause_schedule(full, paused=op == "pause")
        self.fire(ms)

    def compare_schedules(self) -> None:
        """As `compare`, for schedules; nothing else changes them."""
        self.model.compare_schedules(self.mq.schedules.list(queue=self.name))

    def delete_schedules(self) -> None:
        """At the end of a life: what is left at a shared door would fire in the next one."""
        for name in self.model.schedules:
            self.mq.schedules.delete(name)
