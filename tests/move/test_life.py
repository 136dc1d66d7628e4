"""Random lives that move in the middle: the model in dicts does not notice, and goes on."""

import contextlib
import os
from collections import Counter
from typing import Any

import pytest
from hypothesis.stateful import initialize

from tests.conformance.life import MESSAGES, SETTINGS, STEPS, Life
from tests.conformance.life import st as strategies
from tests.move.endpoints import Endpoints, MovingDoor, one_version
from tests.support.lives import play
from turnabout import WrongVersion
from turnabout.waiting import pacing
from turnabout.words.verbs import Peek

pytestmark = pytest.mark.slow
LIVES, MOVES_WITHIN, ROUNDS = 8, 15, 4
SEEN = ("moved leases", "Acked", "suppressed", "expired", "redriven", "lost: leased")


class MovingLife(Life):
    """A life in a file of its own, and from some moment on in PostgreSQL."""

    door: Any

    @initialize(
        chosen=SETTINGS,
        messages=strategies.lists(MESSAGES, min_size=2, max_size=6),
        steps=strategies.integers(1, MOVES_WITHIN),
    )
    def begin(self, chosen: dict[str, Any], messages: list[Any], steps: int) -> None:
        self.steps = steps
        self.door.renew()
        super().begin(chosen, messages)

    def compare(self) -> None:
        """After each step; after so many of them, move."""
        super().compare()
        self.steps -= 1
        if self.steps == 0:
            self.move()

    def move(self) -> None:
        """Everything is as before: messages, leases, policies, history, and every receipt."""
        before = self.mq
        self.mq = self.door.move()
        self.born = "0.0"  # a cursor of the file is none of the database's: from the first event on
        self.seen["moved"] += 1
        self.seen["moved leases"] += len(self.queue(self.name).peek(1000, state="leased"))
        for queue in self.model.queues.values():
            queue.passed_over.clear()
        super().compare()
        self.look_back()
        with pytest.raises(WrongVersion, match="moved to postgresql"):
            before.store.run(Peek(self.name))


@one_version
@pytest.mark.timeout(600)
def test_a_life_goes_on_after_a_move(endpoints: Endpoints) -> None:
    """A few lives, and a few more until all has been seen that is to be seen.

    `TURNABOUT_LIFE_EXAMPLES=500` plays that many instead, and other ones each time.
    """
    more = os.environ.get("TURNABOUT_LIFE_EXAMPLES")
    door, seen, missing = MovingDoor(endpoints), Counter[str](), [*SEEN]
    with contextlib.closing(door), pytest.MonkeyPatch.context() as patch:
        patch.setattr(pacing, "MAINTAIN_SECONDS", float("inf"))
        patch.setattr(pacing.Watch, "must_look", lambda _: False)
        for number in range(ROUNDS):
            live(door, seen, int(more or LIVES), None if more else number)
            missing = [what for what in SEEN if not seen[what]]
            if not missing:
                break
    assert not missing, f"never seen: {missing} in {seen}"
    assert seen["moved"] >= LIVES // 2


def live(door: MovingDoor, counted: Counter[str], lives: int, number: int | None) -> None:
    """So many lives, without shrinking, which would play hundreds of them if one fails."""

    class LifeHere(MovingLife):
        pass

    LifeHere.door, LifeHere.seen = door, counted
    play(LifeHere, lives, STEPS, shrink=False, start=number)
