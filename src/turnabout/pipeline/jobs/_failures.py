"""Errors of Spark in our words: its own come with pages of Java around them."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

from turnabout.pipeline.spark.access import Access
from turnabout.words import errors
from turnabout.words.errors import StorageFull, TurnaboutError

_OURS = re.compile(r"\bturnabout(?:\.\w+)+\.([A-Z]\w+): (.+)")
FULL = re.compile("No space left|Disk quota")


class JobFailed(TurnaboutError):
    """Spark could not do it, and nothing was committed. The cause is in the text, and the whole of
    it in `__cause__`.
    """

    code = "job_failed"


@contextmanager
def spark_errors(access: Access, doing: str) -> Generator[None]:
    """Spark's errors as Turnabout's: the one that a task raised, if there is one; else JobFailed.

    `doing` completes "Spark failed". No secret of the database's URL is in the text.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = access.hidden(str(error))
        raise _ours(text, doing) from (error if text == str(error) else None)


def _ours(text: str, doing: str) -> TurnaboutError:
    if FULL.search(text):
        return StorageFull(f"the disk is full: Spark failed {doing}. Make room and run it again")
    found = _OURS.search(text)
    if found is None:
        return JobFailed(f"Spark failed {doing}: {_first(text)}")
    kind: Any = getattr(errors, found[1], None)
    message = found[2].strip()
    if isinstance(kind, type) and issubclass(kind, TurnaboutError):
        with suppress(TypeError):
            return kind(message)
    return JobFailed(message)


def _first(text: str) -> str:
    """The line that says most: the last `Caused by`, else the first one."""
    causes = re.findall(r"Caused by: (.+)", text)
    lines = [line for line in text.splitlines() if line.strip()]
    return str(causes[-1] if causes else lines[0] if lines else "it does not say why")[:500]
