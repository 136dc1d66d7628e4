"""Workers as processes: signals, a kill, many on one file, children that crash."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import turnabout
from tests.worker.yard import SECONDS, Yard
from turnabout.words.errors import UsageError
from turnabout.worker import load, run_processes
from turnabout.worker.processes import HUNG, supervise

pytestmark = pytest.mark.slow


SLOW = """
    @worker.handler("work", lease_seconds=2.0)
    def handle(message):
        note("begun", message.text())
        while not (folder / "go").exists():
            time.sleep(0.01)
        note("ended", message.text())
"""


def at_work(yard: Yard) -> tuple[str, subprocess.Popen[bytes]]:
    """A process whose handler has begun, and its target."""
    yard.queue.send("x")
    target = yard.module("slow", SLOW)
    child = yard.start(target)
    yard.until(lambda: yard.lines("begun") == ["x"])
    return target, child


def test_sigterm_lets_the_handler_finish(yard: Yard) -> None:
    _, child = at_work(yard)
    (yard.folder / "go").touch()
    child.send_signal(signal.SIGTERM)
    assert child.wait(SECONDS) == 0
    assert yard.lines("ended") == ["x"]
    assert yard.queue.stats().done == 1


@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT, signal.SIGINT]])
def test_a_handler_that_hangs_does_not_keep_the_process(
    yard: Yard, signals: list[signal.Signals]
) -> None:
    _, child = at_work(yard)
    for number in signals:
        child.send_signal(number)
        yard.until(lambda: "finishing" in "".join(yard.lines("log.txt")))  # two at once are one
    assert child.wait(SECONDS) == 0
    (left,) = yard.queue.peek()
    assert (left.state, left.failures, left.crashes) == ("ready", 0, 0)


def test_after_sigkill_the_message_comes_back_charged_as_a_crash(yard: Yard) -> None:
    target, child = at_work(yard)
    child.kill()
    child.wait()
    (yard.folder / "go").touch()
    yard.start(target)
    yard.until(lambda: yard.lines("ended") == ["x"])
    yard.until(lambda: yard.queue.stats().done == 1)
    assert yard.lines("begun") == ["x", "x"]


def test_many_processes_on_one_file_do_each_message_once(here: Yard) -> None:
    here.queue.send_many([turnabout.message(str(n), channel=str(n % 7)) for n in range(300)])
    target = here.module(
        "quick",
        """
        @worker.handler("work", concurrency=4, prefetch=8, lease_seconds=60)
        async def handle(message):
            note(str(os.getpid()), message.text())
        """,
    )
    assert run_processes(target, 3, until_empty=True) == 0
    stats = here.queue.stats()
    assert (stats.done, stats.ready, stats.leased) == (300, 0, 0)
    pids = [file.name for file in here.folder.iterdir() if file.name.isdigit()]
    done = [line for pid in pids for line in here.lines(pid)]
    assert sorted(done, key=int) == [str(n) for n in range(300)]


def test_another_url_reaches_the_children(here: Yard) -> None:
    target = here.module("quick", 'worker.handler("work")(lambda message: None)')
    url = f"sqlite:///{here.folder / 'other.db'}"
    with turnabout.connect(url) as other:
        other.queue("work").send("x")
        assert run_processes(target, 2, until_empty=True, url=url) == 0
        assert other.queue("work").stats().done == 1


def test_processes_are_stopped_by_a_signal_to_their_parent(yard: Yard) -> None:
    target = yard.module(
        "quick",
        """
        @worker.handler("work")
        async def handle(message):
            note("done", os.getpid())
        """,
    )
    parent = yard.start(target, "--processes", "2")
    yard.queue.send("x")
    yard.until(lambda: len(yard.lines("done")) == 1)
    parent.send_signal(signal.SIGTERM)
    assert parent.wait(SECONDS) == 0


def test_a_signal_while_they_start_reaches_them_all(
    here: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = here.module("quick", 'worker.handler("work")(lambda message: None)')
    popen, started = subprocess.Popen, list[subprocess.Popen[bytes]]()

    def start(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(popen(*args, **options))
        if len(started) == 2:
            signal.raise_signal(signal.SIGTERM)  # this one is not known to its parent yet
        return started[-1]

    monkeypatch.setattr("turnabout.worker.processes.subprocess.Popen", start)
    assert run_processes(target, 3) == 0
    assert all(child.poll() is not None for child in started)


def test_a_child_that_was_told_to_end_may_say_0() -> None:
    """As one does with a handler of its own for SIGTERM, while it is imported."""
    program = """if True:
        import os, signal
        signal.signal(signal.SIGTERM, lambda *_: exit(0))
        os.kill(os.getppid(), signal.SIGTERM)
        signal.pause()
    """
    assert supervise([sys.executable, "-c", program], os.environ, 1) == 0


def test_processes_stop_when_their_parent_is_killed(yard: Yard) -> None:
    target = yard.module(
        "quick",
        """
        note("pids", os.getpid())

        @worker.handler("work")
        async def handle(message):
            pass
        """,
    )
    parent = yard.start(target, "--processes", "2")
    yard.until(lambda: len(yard.lines("pids")) == 3)  # the parent looks at the module, too
    parent.kill()
    parent.wait()
    children = [int(pid) for pid in yard.lines("pids") if int(pid) != parent.pid]
    yard.until(lambda: not any(_runs(pid) for pid in children))


@pytest.mark.parametrize("code", [9, 0])
def test_a_child_that_ends_untold_is_started_again(here: Yard, code: int) -> None:
    """Also with code 0: any library may say that."""
    here.queue.send("x")
    target = here.module(
        "fragile",
        """
        @worker.handler("work")
        def handle(message):
            if message.attempt == 1:
                os._exit(CODE)
            note("done", message.crashes)
            worker.stop()
        """.replace("CODE", str(code)),
    )
    assert run_processes(target, 1) == 0
    assert here.lines("done") == ["1"]


def test_children_that_keep_crashing_end_it_with_an_error(
    here: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = here.module(
        "broken",
        """
        worker.handler("work")(lambda message: None)
        if "--stop-at-eof" in __import__("sys").argv:
            os._exit(7)
        """,
    )
    monkeypatch.setattr("turnabout.worker.processes.RESTART_SECONDS", 0.01)
    assert run_processes(target, 2) == 1


def test_a_module_that_ends_the_process_is_told(here: Yard) -> None:
    target = here.module("script", "exit(0)")
    for n in (1, 2):
        with pytest.raises(UsageError, match=r"script' calls exit\(0\) while it is imported"):
            run_processes(target, n)


def test_a_child_that_has_handled_enough_is_replaced(here: Yard) -> None:
    here.queue.send_many([turnabout.message("x"), turnabout.message("y")])
    target = here.module(
        "forgetful",
        """
        @worker.handler("work")
        def handle(message):
            note("pids", os.getpid())
        """,
    )
    assert run_processes(target, 1, until_empty=True, max_handled=1) == 0
    assert len(set(here.lines("pids"))) == here.queue.stats().done == 2


def test_a_worker_whose_handlers_hang_ends_with_a_code_of_its_own(yard: Yard) -> None:
    yard.queue.send("x")
    target = yard.module(
        "hanging",
        """
        worker = Worker(worker._where, max_hung=1)

        @worker.handler("work", timeout_seconds=1)  # its thread is well in it by then
        def handle(message):
            time.sleep(3600)
        """,
    )
    child = yard.start(target, "--quiet")
    assert child.wait(SECONDS) == HUNG
    said = "\n".join(yard.lines("log.txt"))
    assert "ERROR handler for work failed on message 1 (attempt 1 of 5): TimeoutError" in said
    assert "time.sleep(3600)" in said
    assert "1 handler hangs, past timeout_seconds" in said
    assert "INFO" not in said


def test_a_child_that_no_repetition_helps_is_not_started_again(
    here: Yard, caplog: pytest.LogCaptureFixture
) -> None:
    target = here.module("lost", 'worker.handler("work")(lambda message: None)')
    assert run_processes(target, 1, url="sqlite:///no/such/folder/app.db") == 1
    ended = [r.getMessage() for r in caplog.records if "ended with code 2" in r.getMessage()]
    assert len(ended) == 1


class TestLoad:
    @pytest.mark.parametrize("target", ["", "module", ":worker", "module:", "nowhere_at_all:x"])
    def test_what_names_no_worker_is_refused(self, target: str) -> None:
        with pytest.raises(UsageError):
            load(target)

    def test_another_thing_of_that_name_is_refused(self) -> None:
        with pytest.raises(UsageError, match="not a turnabout"):
            load("json:dumps")

    def test_a_module_in_the_working_directory_is_found(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "here_is_one.py").write_text(
            "from turnabout.worker import Worker\nworker = Worker('sqlite://')\n"
        )
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", [*sys.path])
        assert type(load("here_is_one:worker")).__name__ == "Worker"

    def test_an_error_inside_the_module_is_not_hidden(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "half_broken.py").write_text("import nothing_of_that_name\n")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", [*sys.path])
        with pytest.raises(ModuleNotFoundError, match="nothing_of_that_name"):
            load("half_broken:worker")


def _runs(pid: int) -> bool:
    """Alive, and not only waiting to be collected."""
    if Path("/proc/self").exists():
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
        return state != "Z"
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    return bool(state.strip()) and not state.startswith("Z")


def test_on_windows_several_processes_are_refused_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("sys.platform", "win32")
        with pytest.raises(UsageError, match="Windows"):
            run_processes("any:worker", 2)


def test_reload_runs_what_the_program_has_become(yard: Yard) -> None:
    """Also after it could not be imported for a while."""
    handler = """
    @worker.handler("work")
    def handle(message):
        note("done", "{0} " + message.text())
    """
    target = yard.module("changing", handler.format("old"))
    child = yard.start(target, "--reload")
    file = yard.folder / "changing.py"
    yard.queue.send("a")
    yard.until(lambda: yard.lines("done") == ["old a"])
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("old", "wrong").replace("def ", "def def "), encoding="utf-8")
    yard.until(lambda: "when the program has changed" in "".join(yard.lines("log.txt")))
    file.write_text(text.replace("old", "new"), encoding="utf-8")
    yard.queue.send("b")
    yard.until(lambda: yard.lines("done") == ["old a", "new b"])
    child.send_signal(signal.SIGTERM)
    assert child.wait(SECONDS) == 0
