"""Archives for tests: one run, what is in a table, and an end at any step."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.support.ports import free_port
from tests.support.until import until
from turnabout.pipeline.jobs.archive import Archiver, LocalStage, RangePart
from turnabout.pipeline.lake import ArchiveTable, Lake, _files
from turnabout.pipeline.results import Archived
from turnabout.pipeline.spark.access import Access

OPTIONS = {
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
    "AWS_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
}


def archiver(access: Access, lake: Lake, archive: str = "archive", **rules: Any) -> Archiver:
    place = lake.place(archive)
    part = RangePart(access, place, archive, include_value=True)
    table = ArchiveTable(place, archive, access.namespace)
    return Archiver(access, table, LocalStage(part), **rules)


def run(access: Access, lake: Lake, archive: str = "archive", **how: Any) -> Archived:
    """One run of the archive."""
    rules = {name: how.pop(name) for name in ("max_rows", "skip_lost") if name in how}
    return archiver(access, lake, archive, **rules).run(**how)


def ids_of(lake: Lake, archive: str = "archive", version: int | None = None) -> list[int]:
    """What is in an archive, in order."""
    if archive not in lake.archives():
        return []
    found = lake.table(archive, version=version).to_pyarrow_table(columns=["message_id"])
    return sorted(found["message_id"].to_pylist())


class Killed(BaseException):
    """The process has ended here."""


class Stops:
    """Ends a run before or after the n-th step: a file, a commit, a call of the database."""

    def __init__(self, patch: pytest.MonkeyPatch, after: int) -> None:
        self.left, self.dead = after, False
        for owner, name in (
            (_files, "write_table"),
            (DeltaTable, "create_write_transaction"),
            (DeltaTable, "create"),
            (Access, "run"),
        ):
            patch.setattr(owner, name, self._watched(getattr(owner, name)))

    def _watched(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            self._step()
            answer = real(*given, **named)
            self._step()
            return answer

        return call

    def _step(self) -> None:
        if self.left == 0 or self.dead:
            self.dead = True
            raise Killed
        self.left -= 1


@contextmanager
def s3() -> Iterator[str]:
    """The address of an S3 of our own, with an empty bucket `lake`. In a process of its own:
    delta-rs holds Python's lock while it talks to a store.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    program = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            until(lambda: _answers(url))
            made = urllib.request.Request(f"{url}/lake", method="PUT")
            with urllib.request.urlopen(made, timeout=30):
                yield url
        finally:
            server.kill()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/moto-api/", timeout=1):
            return True
    except OSError:
        return False
