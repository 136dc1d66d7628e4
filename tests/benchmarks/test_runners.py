"""Each framework that runs tasks does so for real, by its own worker."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from benchmarks.crew import Crew
from benchmarks.on_postgres import PostgresPlace
from benchmarks.on_sqlite import SqlitePlace
from benchmarks.peers import cells, known
from benchmarks.peers.__main__ import _chosen, _options
from benchmarks.peers.celery import processor_ns
from benchmarks.peers.goals import GOALS
from benchmarks.peers.peer import LeftOut, Peer, Shape
from benchmarks.peers.results import Setting
from benchmarks.peers.run import Run, Sizes

RUNNERS = [peer for peer in known.PEERS if "tasks" in peer.skills]
TASKS = 25
SIZES = Sizes(rounds=1, seconds=6.0)  # nobody takes that long: it ends with the last task


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with contextlib.ExitStack() as stack:
        places = [PostgresPlace(url=None, version=18, durable=False), SqlitePlace(durable=False)]
        for place in places:
            stack.callback(place.close)
        yield Run(SIZES, places, stack.enter_context(Crew()), RUNNERS)


@pytest.mark.long
@pytest.mark.timeout(120)
@pytest.mark.filterwarnings("ignore:.*noload:DeprecationWarning")  # how Celery's transport asks
@pytest.mark.parametrize("peer", RUNNERS, ids=lambda peer: peer.name)
def test_a_runner_runs_what_was_enqueued_before(peer: Peer, run: Run) -> None:
    try:
        peer.check()
    except LeftOut as reason:
        pytest.skip(str(reason))
    setting = Setting(peer.store, 10, 1, called="concurrency")
    with run.base(peer, setting, fresh=True) as base:
        for _ in range(2):  # the second time beside what the first left behind
            peer.fill(base, TASKS, Shape())
            done = run.work(base, peer, setting, "drain", most=TASKS)
            assert done.messages == TASKS
            assert done.cost_us > 0
            if peer.store == "PostgreSQL":
                assert base.say(peer.waiting) == [(0,)]


def test_runners_are_held_against_our_tasks_on_the_same_store() -> None:
    held = {(goal.cell, goal.other) for goal in GOALS if goal.cell in known.TASK_CELLS}
    cell_of = dict(zip(("PostgreSQL", "SQLite"), known.TASK_CELLS, strict=True))
    others = {(cell_of[peer.store], peer.name) for peer in RUNNERS if peer.name[:4] != "turn"}
    assert held == others
    for store, name in cell_of.items():
        assert known.ours(name, store) in {peer.name for peer in RUNNERS}
        assert known.ours("receive", store) == known.OURS[store]
        (one, ten) = cells.BY_NAME[name].settings(None)  # type: ignore[arg-type]
        assert (str(one), str(ten)) == ("concurrency 1, 1 process", "concurrency 10, 1 process")
    chosen = _chosen(_options(["--cell", "sqlite-tasks", "--peer", "huey-consumer"]))
    assert [peer.name for peer in chosen] == ["turnabout-sqlite-tasks", "huey-consumer"]


def test_processor_time_of_a_process_that_is_gone_is_none() -> None:
    assert processor_ns(2**22 + 1) == 0
