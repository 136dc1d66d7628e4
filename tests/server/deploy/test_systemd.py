"""The units for systemd: it takes them, and they fit the commands that they start."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
import sys
from inspect import signature
from pathlib import Path

import click
import pytest

from tests.support.each import each
from turnabout.cli import main
from turnabout.server import ServerOptions
from turnabout.worker import Worker

FOLDER = Path(__file__).parents[3] / "deploy" / "systemd"
SERVER = "turnabout-server.service"
WORKER = "turnabout-worker@.service"
NAMES = [SERVER, WORKER]
PROGRAM = "/opt/turnabout/bin/turnabout"
GRACE_SECONDS: float = signature(Worker).parameters["grace_seconds"].default
EXPOSURE_MAX = 20
"""In tenths, of `systemd-analyze security`: 100 is a service that may do everything."""


class Unit(configparser.RawConfigParser):
    """A unit; of a name that stands there twice, the last one."""

    def __init__(self, name: str) -> None:
        super().__init__(strict=False)
        self.read_string((FOLDER / name).read_text())

    def optionxform(self, optionstr: str) -> str:
        return optionstr

    def seconds(self, name: str) -> float:
        return float(self["Service"][name])


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    """What systemd itself says of units; it need not run."""
    if (program := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd-analyze is not on this machine")
    return subprocess.run(
        [program, *words], capture_output=True, text=True, check=False, timeout=60
    )


def copied(name: str, folder: Path, program: str = sys.executable) -> str:
    """A unit that starts a program which is here; a template gets the name of one instance."""
    path = folder / name.replace("@.", "@emails.")
    path.write_text((FOLDER / name).read_text().replace(PROGRAM, program))
    return str(path)


def test_these_are_the_units() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == NAMES


@each("name", NAMES)
def test_systemd_takes_it(name: str, tmp_path: Path) -> None:
    done = analyze("verify", "--man=no", copied(name, tmp_path))
    assert (done.returncode, done.stderr) == (0, "")


def test_systemd_finds_what_is_wrong(tmp_path: Path) -> None:
    assert analyze("verify", "--man=no", copied(SERVER, tmp_path, "/no/such")).returncode != 0


@each("name", NAMES)
def test_it_may_do_little(name: str, tmp_path: Path) -> None:
    service = Unit(name)["Service"]
    assert service["DynamicUser"] == service["NoNewPrivileges"] == "yes"
    assert service["ProtectSystem"] == "strict"
    threshold = f"--threshold={EXPOSURE_MAX}"
    done = analyze("security", "--offline=true", threshold, copied(name, tmp_path))
    assert done.returncode == 0, done.stdout


@each("name", NAMES)
def test_it_starts_a_command_of_ours(name: str) -> None:
    program, word, *words = shlex.split(Unit(name)["Service"]["ExecStart"])
    assert program == PROGRAM
    words = [part.replace("${WORKER}", "app:worker") for part in words]
    command = main.commands[word]
    assert isinstance(command, click.Command)
    command.make_context("turnabout", words).close()


@each("name", NAMES)
def test_a_secret_is_in_no_unit(name: str) -> None:
    service = Unit(name)["Service"]
    assert service["EnvironmentFile"].startswith("/etc/turnabout/")
    assert "Environment" not in service


@each("name", NAMES)
def test_it_comes_back_unless_it_was_called_wrongly(name: str) -> None:
    service = Unit(name)["Service"]
    assert service["Restart"] == "always"
    assert service["RestartPreventExitStatus"] == str(click.UsageError.exit_code)


def test_they_have_time_to_stop() -> None:
    options = ServerOptions()
    assert (
        Unit(SERVER).seconds("TimeoutStopSec") > options.lame_duck_seconds + options.drain_seconds
    )
    assert Unit(WORKER).seconds("TimeoutStopSec") > GRACE_SECONDS


def test_the_server_may_open_as_many_files_as_it_takes_connections() -> None:
    assert int(Unit(SERVER)["Service"]["LimitNOFILE"]) > ServerOptions().max_connections
