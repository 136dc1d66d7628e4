"""A redrive to its end: its pace and its reports, over a store that only counts."""

import threading
import time
from typing import Any

import pytest

from turnabout._sync.redrives import run_to_end
from turnabout.words.records import EVERYTHING, Redrive
from turnabout.words.value import replace
from turnabout.words.verbs import RedriveStep

BEGUN = Redrive(7, "q-dead", None, EVERYTHING, None, "running", 0, 0, 1, None)


class Steps:
    """Moves `each` messages a step until all `total` are."""

    def __init__(self, total: int, each: int, **fields: Any) -> None:
        self.now = replace(BEGUN, **fields)
        self.total, self.each, self.steps = total, each, 0

    def run(self, verb: RedriveStep) -> Redrive:
        assert verb == RedriveStep(7)
        self.steps += 1
        moved = min(self.total, self.now.moved + self.each)
        rest = {"next_at": 5} if self.now.per_second else {}
        self.now = replace(self.now, moved=moved, **rest)
        if moved == self.total:
            self.now = replace(self.now, state="done", finished_at=9, next_at=None)
        return self.now


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    sleep = time.sleep

    def note(seconds: float) -> None:
        if threading.current_thread() is threading.main_thread():
            pauses.append(seconds)
        else:  # a thread that another test has left behind
            sleep(seconds)

    monkeypatch.setattr("time.sleep", note)
    return pauses


def test_without_a_rate_it_never_pauses(slept: list[float]) -> None:
    store: Any = Steps(2_500, 1_000)
    seen: list[int] = []
    ended = run_to_end(store, store.now, lambda now: seen.append(now.moved))
    assert (ended.state, ended.moved, seen) == ("done", 2_500, [0, 1_000, 2_000, 2_500])
    assert slept == []


@pytest.mark.parametrize(
    ("per_second", "pause"), [(1, 1.0), (4, 0.25), (20, 0.05), (1_000, 0.05), (1_000_000, 0.05)]
)
def test_with_a_rate_it_pauses_between_steps_and_not_before_the_first(
    slept: list[float], per_second: int, pause: float
) -> None:
    store: Any = Steps(3, 1, per_second=per_second)
    assert run_to_end(store, store.now, None).state == "done"
    assert slept == pytest.approx([pause, pause])


def test_what_has_ended_is_left_alone(slept: list[float]) -> None:
    store: Any = Steps(3, 1, state="cancelled")
    seen: list[Redrive] = []
    assert run_to_end(store, store.now, seen.append) == store.now
    assert (store.steps, seen) == (0, [store.now])
