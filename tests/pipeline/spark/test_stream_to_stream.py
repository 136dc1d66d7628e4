"""The example from queue to queue: as a program, and killed again and again on its way."""

import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest
from pyspark.sql import SparkSession

import turnabout
from tests.docs.pages import ROOT
from tests.pipeline.spark.places import on_postgres

EXAMPLE = ROOT / "examples" / "stream_to_stream.py"
SECONDS_MAX = 240
"""Of one run, start of Java and all, on a busy machine."""


def check(place: str) -> None:
    """Nothing is lost or doubled: each order is done, and was priced once."""
    with turnabout.connect(place) as mq:
        orders, priced = mq.queue("orders").stats(), mq.queue("priced").stats()
        assert (orders.sent, orders.done) == (1000, 1000)
        assert (orders.ready, orders.leased, orders.dead) == (0, 0, 0)
        assert (priced.sent, priced.ready) == (1000, 1000)
        got = mq.queue("priced").peek(1000)
        assert {m.json()["order"]: m.json()["total"] for m in got} == {
            n: (3, 4, 9)[n % 3] * (n % 5 + 1) for n in range(1000)
        }
        assert all(m.headers["order"] == str(m.json()["order"]) for m in got)


@pytest.mark.long
@on_postgres
def test_killed_and_started_again(
    spark: SparkSession, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGKILL for the driver and its Java, while the second batch is under way; then to the end,
    in the session of this process. Each step exactly, and on both stores: `test_faults`.
    """
    checkpoint = tmp_path / "checkpoint"
    words = [sys.executable, str(EXAMPLE), place, str(checkpoint)]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(
        words, env=env, cwd=tmp_path, start_new_session=True, stdout=subprocess.DEVNULL
    ) as program:
        until = monotonic() + SECONDS_MAX
        while not (checkpoint / "offsets" / "1").exists():
            assert program.poll() is None, "it ended before"
            assert monotonic() < until
            sleep(0.005)
        os.killpg(program.pid, signal.SIGKILL)
    assert sent(place, "priced") < 1000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", words[1:])
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert capsys.readouterr().out.endswith("1000 done, 1000 sent\n")
    check(place)


def sent(place: str, queue: str) -> int:
    with turnabout.connect(place) as mq:
        known = queue in [entry.name for entry in mq.queues()]
        return mq.queue(queue).stats().sent if known else 0
