"""A newer version of the library: this one in another folder, with a step and a changed function.

Its step adds a column, and a table where its `send` counts. Programs run it by PYTHONPATH.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import turnabout
from turnabout.postgres.parts import core
from turnabout.postgres.revision import REVISION
from turnabout.sqlite import install as sqlite_install

PACKAGE = Path(turnabout.__file__).parent
AGENT = Path(__file__).parent / "agent.py"


def write_newer(folder: Path, *, leaves_behind: bool = False) -> Path:
    """Make the newer version; with `leaves_behind` its step says that older ones cannot follow."""
    package = folder / "turnabout"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    postgres, sqlite = package / "postgres", package / "sqlite"
    change(postgres / "revision.py", f"REVISION = {REVISION}\n", f"REVISION = {REVISION + 1}\n")
    change(
        postgres / "sql" / "send" / "send.sql",
        "    insert into turnabout.tally (queue_id, sent) values",
        "    insert into turnabout.of_newer values (cardinality(send.payloads));\n"
        "    insert into turnabout.tally (queue_id, sent) values",
    )
    change(
        postgres / "everyday" / "send.sql",
        "counted as (",
        "of_newer as (insert into turnabout.of_newer select 1 from put),\ncounted as (",
    )
    note = "-- A step of a newer version.\n"
    behind = f"-- oldest: {REVISION + 1}\n" if leaves_behind else ""
    step = len(core().migrations()) + 1
    (postgres / "migrations" / f"{step:04}_newer.sql").write_text(
        f"{note}{behind}alter table turnabout.message add newer text;\n"
        "alter table turnabout.queue add newer int not null default 7;\n"
        "create table turnabout.of_newer (messages int not null);\n"
    )
    step = sqlite_install.status("sqlite://").wanted + 1
    behind = f"-- oldest: {step}\n" if leaves_behind else ""
    (sqlite / "migrations" / f"{step:04}_newer.sql").write_text(
        f"{note}{behind}alter table turnabout_message add newer text;\n"
        "alter table turnabout_queue add newer integer not null default 7;\n"
    )
    return folder


def change(file: Path, old: str, new: str) -> None:
    """Replace a text that must be there once."""
    text = file.read_text()
    assert len(re.findall(re.escape(old), text)) == 1, f"{file.name}: {old!r}"
    file.write_text(text.replace(old, new))


@dataclass
class Version:
    """A version of the library, as a folder to put before all others."""

    folder: Path

    def python(self, code: str, *args: str) -> str:
        """What a program prints under this version; it must end well."""
        done = subprocess.run(
            [sys.executable, "-c", code, *args],
            env=self._env(),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def install(self, what: str, url: str) -> str:
        """A function of the installer, called by a process; what it answers."""
        return self.python(
            "import sys; from turnabout._connect import installer;"
            "print(getattr(installer(sys.argv[1]), sys.argv[2])(sys.argv[1]))",
            url,
            what,
        )

    def agent(self, url: str, name: str) -> "Agent":
        """An agent under this version, which has done a first round."""
        return Agent(
            subprocess.Popen(
                [sys.executable, str(AGENT), url, name],
                env=self._env(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )

    def _env(self) -> dict[str, str]:
        return os.environ | {"PYTHONPATH": str(self.folder)}


class Agent:
    """A running agent."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "ready\n", process.communicate()[1]

    def end(self) -> dict[str, Any]:
        """Tell it to stop; what it did. It must have met no error."""
        out, errors = self._process.communicate(timeout=100)
        assert self._process.returncode == 0, errors
        return json.loads(out)
