"""`manage.py turnabout_worker` as a program: ends, is stopped, reloads, and says what is wrong."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.django.test_backend import environment

pytestmark = pytest.mark.slow

CODE = "from tests.django.shop.tasks import {0}; print({0}.enqueue({1}).id)"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    env = environment(f"sqlite:///{tmp_path}/app.db")
    manage(env, "migrate", "--run-syncdb")
    return env


def manage(env: dict[str, str], *words: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "django", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=env, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_it_ends_when_there_is_nothing_to_do(env: dict[str, str]) -> None:
    manage(env, "shell", "-c", CODE.format("add", 1))
    manage(env, "shell", "-c", CODE.format("send_email", "'ada'"))
    told = manage(env, "turnabout_worker", "--until-empty", "--queues", "default")
    assert "Working on default of sqlite:///" in told
    assert "Done: 1 handled." in told
    told = manage(env, "turnabout_worker", "--until-empty", "--concurrency", "1")
    assert "Working on bad, default, emails" in told
    assert "Done: 1 handled." in told
    assert "not in QUEUES of TASKS: x" in manage(env, "turnabout_worker", "--queues=x", code=1)


@pytest.mark.parametrize("reload", [False, True])
def test_it_is_stopped_by_a_signal(env: dict[str, str], reload: bool) -> None:
    words = ["-m", "django", "turnabout_worker", *(["--reload"] if reload else [])]
    with subprocess.Popen(
        [sys.executable, "-u", *words], stdout=subprocess.PIPE, text=True, env=env,
        process_group=0,
    ) as worker:  # fmt: skip
        try:
            assert worker.stdout is not None
            assert "Working on" in worker.stdout.readline()
            manage(env, "shell", "-c", CODE.format("add", 1))
            state = "from turnabout.django.api import *; print(task_backends['default'].connection.queue('default').stats().done)"  # noqa: E501
            until = time.monotonic() + 60
            while "1" not in manage(env, "shell", "-v0", "-c", state):
                assert time.monotonic() < until
            if reload:
                os.killpg(worker.pid, signal.SIGTERM)
            else:
                worker.send_signal(signal.SIGTERM)
                assert "Done: 1 handled." in worker.stdout.read()
            assert worker.wait(20) == 0
        finally:
            with suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)


def test_it_starts_anew_when_code_has_changed(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "own_tasks.py").write_text("from tests.django.shop.tasks import *\n")
    env |= {"PYTHONPATH": f"{env['PYTHONPATH']}{os.pathsep}{tmp_path}"}
    code = "import own_tasks; from django.core.management import call_command as c; c('turnabout_worker', reload=True)"  # noqa: E501
    (tmp_path / "run.py").write_text(f"import django; django.setup(); {code}")
    with subprocess.Popen(
        [sys.executable, "-u", str(tmp_path / "run.py")], stdout=subprocess.PIPE, text=True,
        env=env, process_group=0,
    ) as worker:  # fmt: skip
        try:
            assert worker.stdout is not None
            assert "Working on" in worker.stdout.readline()
            seen = threading.Event()

            def change() -> None:
                while not seen.wait(2):  # its first look may come late
                    os.utime(tmp_path / "own_tasks.py", (time.time() + 9, time.time() + 9))

            threading.Thread(target=change, daemon=True).start()
            assert "Done: there was nothing to do." in worker.stdout.readline()
            seen.set()
            assert "Working on" in worker.stdout.readline()
        finally:
            os.killpg(worker.pid, signal.SIGKILL)


def test_a_database_in_memory_is_refused_where_it_is_used(env: dict[str, str]) -> None:
    memory = environment("sqlite:///:memory:")
    manage(memory, "migrate")  # so that `manage.py test` can go on
    assert "immediate or dummy backend" in manage(
        memory, "shell", "-c", CODE.format("add", 1), code=1
    )


def test_the_statements_can_be_read(env: dict[str, str]) -> None:
    fresh = environment("sqlite:///nowhere.db")
    assert "create table turnabout_message" in manage(fresh, "sqlmigrate", "turnabout", "0001")
    assert not Path("nowhere.db").exists() or Path("nowhere.db").unlink() is None
