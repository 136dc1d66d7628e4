"""Chaos in small: rounds on each store, killed and cut at random; the history is checked.

`python3 dev.py chaos --minutes 600` makes it a night's work.
"""

import random
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import turnabout
from tests.races import places
from tests.races.chaos import Round, main, one_round, total
from tests.races.page import page
from tests.races.planted import PLANTED
from tests.races.power import Disk, Step, cuts, judged
from tests.races.rig import SECONDS, SEED, Place, until_enough_was_seen
from tests.races.world import world
from tests.support.postgres import GIVEN

pytestmark = [pytest.mark.slow, pytest.mark.real_time, pytest.mark.timeout(SECONDS * 20 + 300)]
ours = pytest.mark.skipif(GIVEN is not None, reason="a given server is not ours to crash")

AT_LEAST = {
    "accepted": 100,
    "redeliveries": 3,
    "slots full": 3,
    "queue's slots full": 2,
    "in order": 10,
    "delayed": 3,
    "repeated": 2,
    "rows": 3,
}
CRASHES = {"accepted": 50, "redeliveries": 1, "rows": 2}


def enough(
    folder: Path, store: str, make: object, at_least: dict[str, int], faults: int, *, must: str = ""
) -> None:
    def hammer(_: Path, seconds: float) -> SimpleNamespace:
        done, _ = one_round(store, make, SEED, seconds=seconds, bulk=0.05, size=1)
        print(done)  # noqa: T201 (`pytest -s`)
        assert done.violations == [], f"seed {SEED}"
        short = [what for what, least in at_least.items() if done.numbers.get(what, 0) < least]
        few = sum(done.faults.values()) < faults or (must and must not in done.faults)
        return SimpleNamespace(verdict="unknown" if short or few else done.verdict, short=short)

    until_enough_was_seen(hammer, folder)


def test_sqlite(tmp_path):
    enough(tmp_path, "sqlite", places.sqlite, AT_LEAST, 3)


@ours
@pytest.mark.parametrize("way", ["network", "pooler"])
def test_postgres(tmp_path, way):
    """Crashed, cut and torn; also through a transaction pooler, with our URL as it is: each call
    may have another session, and finds there what others have prepared.
    """

    @contextmanager
    def make(folder):
        with places.postgres(folder, pooler=way == "pooler") as place:
            yield place

    enough(tmp_path, way, make, CRASHES, 2)


@ours
def test_a_replica_takes_over(tmp_path):
    enough(tmp_path, "pair", places.pair, CRASHES, 2, must="failover")


@ours
@pytest.mark.long
@pytest.mark.parametrize("store", ["clock-sqlite", "clock-postgres"])
def test_a_clock_that_is_set(tmp_path, store):
    least = {what: n for what, n in CRASHES.items() if what != "redeliveries"}
    enough(tmp_path, store, places.PLACES[store], least, 2, must="clock")


PROGRAM = """
import sys, time, turnabout
try:
    with turnabout.connect(sys.argv[1]) as mq:
        for _ in range(int(sys.argv[2])):
            many = [turnabout.message("x" * 9_000)] * 100
            print(len(mq.queue("q").send_many(many).ids))
except (turnabout.StorageFull, turnabout.Unavailable):
    print("full")
print(time.time())
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_programs_find_the_world_as_it_was_made(tmp_path):
    """A disk that is full, and has room again; a clock of yesterday."""

    def said(sends: int) -> list[str]:
        words = [sys.executable, "-c", PROGRAM, f"sqlite:///{tmp_path}/app.db", str(sends)]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()

    with world() as around:
        assert said(1)[0] == "100"
        around.fill_disk(True)
        assert "full" in said(10)
        around.fill_disk(False)
        around.set_clock(-86_400_000)
        sent, at = said(1)
        assert sent == "100"
        assert float(at) == pytest.approx(time.time() - 86_400, abs=60)


@ours
@pytest.mark.long
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_seen(bug):
    assert main(["--plant", bug, "--seed", "1", "--round-seconds", "6"]) == 0


def round_of(verdict: str = "valid", **numbers: int) -> Round:
    wrong = ["P1: <lost>"] if verdict == "invalid" else []
    return Round("sqlite", 7, 1.0, verdict, numbers, {"kill": 2}, [(0.5, "kill w1.1")], wrong)


def test_a_verdict_needs_enough_of_everything():
    full = dict.fromkeys(["redeliveries", "stale receipts", "slots full", "queue's rate met"], 99)
    full |= dict.fromkeys(["queue's slots full", "in order", "delayed", "repeated", "rows"], 99)
    assert total([round_of(accepted=1_000, **full)])[0] == "valid"
    assert total([round_of(accepted=999, **full)])[0] == "unknown"
    assert total([round_of("unknown", accepted=1_000, **full)])[0] == "unknown"
    assert total([round_of(accepted=1_000, **full), round_of("invalid")])[0] == "invalid"


def test_the_page_tells_each_fault_and_each_violation():
    rounds = [round_of(accepted=1), round_of("invalid", accepted=2)]
    text = page(rounds, *total(rounds))
    assert "<span class=invalid>invalid" in text
    assert "sqlite, seed 7: P1: &lt;lost&gt;" in text
    assert text.count("<title>0.5 s: kill w1.1</title>") == 2


def test_the_place_is_told_to_be_wrong(tmp_path):
    """What stands nowhere, or what the doctor finds, is a violation."""

    @contextmanager
    def make(folder):
        with places.sqlite(folder) as place:
            yield Place(place.url, place.roads, place.rows, check=lambda: ["1 × nowhere"])

    done, _ = one_round("sqlite", make, SEED, seconds=0, size=1)
    assert (done.verdict, done.violations) == ("invalid", ["1 × nowhere"])


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_power_cuts():
    numbers, wrong = cuts(40, SEED)
    assert wrong == [], SEED
    assert numbers["images"] == 40
    assert numbers["records S"] > 20


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_file_that_syncs_later_loses_what_it_said():
    _, wrong = cuts(20, SEED, synchronous="normal")
    assert any("accepted and lost" in one for one in wrong)
    assert any("acked and undone" in one for one in wrong)


def test_a_disk_that_lies_is_seen(tmp_path):
    """What was told before its sync is lost with the power, and that is found."""
    disk = Disk()
    for kind, data in (("W", b"synced"), ("B", b""), ("S", b""), ("W", b"loose"), ("B", b"")):
        disk.take(Step(kind, 1, 6 if data == b"loose" else 0, "power.db", data))
    dice = random.Random(1)
    assert disk.image("nothing", dice) == {"power.db": b"synced"}
    assert disk.image("everything", dice) == {"power.db": b"syncedloose"}
    disk.take(Step("S", 2, 0, "power.db", b""))  # of somebody who began before all of it
    assert disk.image("nothing", dice) == {"power.db": b"synced"}
    with turnabout.connect(f"sqlite:///{tmp_path}/power.db") as mq:
        number = mq.queue("power").send("x").id
    assert [*judged(tmp_path, [[number]], set())] == []
    assert [*judged(tmp_path, [[number, 99]], {98})] == [
        "accepted and lost: [99]",
        "acked and undone: [98]",
    ]
