"""Random lives that move in the middle: the model in dicts does not notice, and goes on."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import initialize, run_state_machine_as_test

from penstock import WrongVersion
from penstock.words import turns
from penstock.words.verbs import Peek
from tests.conformance.life import MESSAGES, SETTINGS, Life
from tests.conformance.life import st as strategies
from tests.move.house import MovingDoor
from tests.support.postgres import Server

pytestmark = pytest.mark.slow


class MovingLife(Life):
    """A life in a file of its own, and from some moment on in PostgreSQL."""

    door: Any

    @initialize(
        chosen=SETTINGS,
        messages=strategies.lists(MESSAGES, min_size=2, max_size=6),
        steps=strategies.integers(1, 25),
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
        before = self.ps
        self.ps = self.door.move()
        self.seen["moved"] += 1
        self.seen["moved leases"] += len(self.queue(self.name).peek(1000, state="leased"))
        for queue in self.model.queues.values():
            queue.passed_over.clear()
        super().compare()
        self.look_back()
        with pytest.raises(WrongVersion, match="moved to postgresql"):
            before.store.run(Peek(self.name))


@pytest.mark.timeout(300)
def test_a_life_goes_on_after_a_move(postgres_server: Server, tmp_path: Path) -> None:
    door = MovingDoor(postgres_server, tmp_path)

    class LifeHere(MovingLife):
        pass

    LifeHere.door, LifeHere.seen = door, Counter()
    chosen = settings(
        max_examples=50,
        stateful_step_count=40,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(turns, "TEND_SECONDS", float("inf"))
            run_state_machine_as_test(LifeHere, settings=chosen)
    finally:
        door.close()
    assert LifeHere.seen["moved"] >= 20
    for what in ("moved leases", "Acked", "suppressed", "expired", "redriven", "lost: leased"):
        assert LifeHere.seen[what], f"never seen: {what} in {LifeHere.seen}"
