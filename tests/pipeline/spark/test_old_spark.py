"""The oldest PySpark that is supported, and the last one without limits of batches, for real."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import turnabout
from tests.pipeline.spark.test_clusters import ROOT, environment, plain
from tests.support.postgres import migrated
from turnabout.pipeline.spark.launcher import cache

PROGRAM = Path(__file__).with_name("old_program.py")
INSTALL_SECONDS, SECONDS_MAX = 600, 200

pytestmark = [pytest.mark.spark, pytest.mark.timeout(INSTALL_SECONDS + 250)]


def installed(version: str) -> Path:
    """A folder with that PySpark, made once for all runs; a test without a network is skipped."""
    folder = cache() / f"pyspark-{version}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = tempfile.mkdtemp(dir=folder.parent)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", made]
        done = subprocess.run(
            [*command, f"pyspark=={version}"], check=False, capture_output=True, text=True,
            timeout=INSTALL_SECONDS,
        )  # fmt: skip
        if done.returncode:
            shutil.rmtree(made)
            pytest.skip(f"PySpark {version} could not be installed: {done.stderr[-300:]}")
        Path(made).replace(folder)
    return folder


def handled(mq: turnabout.Turnabout, first: int, count: int) -> None:
    """So many messages of the queue `in` are done."""
    queue = mq.queue("in")
    queue.send_many(
        turnabout.message(str(n), channel=f"c{n % 3}", headers={"n": str(n)})
        for n in range(first, first + count)
    )
    for message in queue.receive(count):
        message.ack()


def check(mq: turnabout.Turnabout, version: str, seen: dict[str, Any]) -> None:
    assert (seen["version"], seen["history"]) == (version, 10)
    assert sorted(int(m.text()) for m in mq.queue("sent").peek(100)) == [*range(10)]
    copied = {int(m.text()): m for m in mq.queue("copied").peek(100)}
    assert sorted(copied) == [*range(15)], "each once, over a restart"
    assert all(m.channel == f"c{n % 3}" for n, m in copied.items())
    assert all(dict(m.headers) == {"n": str(n)} for n, m in copied.items())
    assert mq.queue("copied").stats().sent == 15
    assert f"mode=lease needs PySpark 4.2 or later, and this is {version}" in seen["lease"]
    assert "maxOffsetsPerTrigger needs PySpark 4.2 or later" in seen["limit"]


@pytest.mark.long
@pytest.mark.parametrize("version", ["4.0.5", "4.1.4"])
def test_an_older_pyspark(version: str, tmp_path: Path) -> None:
    env = environment()
    env["PYTHONPATH"] = os.pathsep.join([str(installed(version)), str(ROOT / "src")])
    with migrated() as url, turnabout.connect(url) as mq:
        mq.queue("in").create(history_payload=True)
        handled(mq, 0, 10)
        with subprocess.Popen(
            [sys.executable, str(PROGRAM), url, str(tmp_path)], env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as program:  # fmt: skip
            assert program.stdout is not None
            if program.stdout.readline() == "more\n":
                handled(mq, 10, 5)
            out, said = program.communicate("\n", timeout=SECONDS_MAX)
        assert program.returncode == 0, f"{out}\n{plain(said)}"
        check(mq, version, json.loads(out.splitlines()[-1]))
