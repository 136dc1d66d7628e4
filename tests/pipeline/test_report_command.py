"""Limits for schedulers, and what is refused before Spark starts. All without a JVM."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import turnabout
from turnabout.cli import main
from turnabout.pipeline.commands import jobs
from turnabout.pipeline.commands.report import exceeded
from turnabout.pipeline.reports import report
from turnabout.pipeline.results import QueueReport, Times
from turnabout.words.errors import Forbidden, StorageFull, UsageError


def queue(**more: Any) -> QueueReport:
    counts = dict.fromkeys(("attempts", "failures", "crashes", "cancelled", "expired"), 0)
    given: dict[str, Any] = {**counts, "namespace": "acme", "queue": "mail", "channels": 1}
    given |= {"messages": 100, "done": 99, "dead": 1, "retried": 0, "fairness": 1.0, "starved": ()}
    given |= {"wait": Times(10, 20, 30, 40, 15), "handling": Times(1, 2, 3, 4, 2)}
    return QueueReport(**{**given, **more})


def test_a_limit_is_kept_up_to_itself() -> None:
    limits = {"waiting": [("p99", 30.0)], "handling": [("max", 4.0)]}
    assert exceeded([queue()], limits, 0.01) == []
    limits = {"waiting": [("p99", 29.0)], "handling": [("max", 3.0)]}
    assert exceeded([queue()], limits, 0.009) == [
        "acme/mail: waiting p99 is 30ms, over 29ms",
        "acme/mail: handling max is 4ms, over 3ms",
        "acme/mail: 1.00% of its messages died, over 0.90%",
    ]


def test_a_queue_without_leases_keeps_all_limits() -> None:
    none = Times(None, None, None, None, None)
    idle = queue(wait=none, handling=none, messages=0, dead=0)
    assert exceeded([idle], {"waiting": [("p50", 0.0)], "handling": [("max", 0.0)]}, 0.0) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--fail-over-wait", "30s"], "write p99=30s"),
        (["--fail-over-wait", "p98=30s"], "write p99=30s"),
        (["--fail-over-dead", "101%"], "write 1%"),
        (["--archive", "x"], "--lake PLACE"),
        (["--engine", "local", "--master", "local[1]"], "leave it out"),
        (["--url", "sqlite:///not-there.db"], "there is no database"),
    ],
)
def test_what_is_wrong_is_told(words: list[str], said: str, tmp_path: Path) -> None:
    there = tmp_path / "app.db"
    there.touch()
    given = ["pipeline", "run", "report", "--url", f"sqlite:///{there}", *words]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 2
    assert said in done.output


def test_a_report_is_of_one_thing_and_of_some_time() -> None:
    with pytest.raises(UsageError, match="name one of them"):
        report()
    with pytest.raises(UsageError, match="name one of them"):
        report("sqlite:///a.db", lake="lake")
    with pytest.raises(UsageError, match="before until"):
        report("sqlite:///a.db", since=5, until=5)
    with pytest.raises(UsageError, match="since is an int, not str"):
        report("sqlite:///a.db", since="yesterday")
    with pytest.raises(UsageError, match="belongs to a database"):
        report(lake="lake", token="t")
    with pytest.raises(UsageError, match="above 0"):
        report("sqlite:///a.db", weights={"a": 0})


def test_the_command_counts_with_duckdb_where_there_is_no_spark_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'app.db'}"
    with turnabout.connect(url) as mq:
        mq.queue("mail").send(b"")
        for message in mq.queue("mail").receive(1):
            message.ack()
    monkeypatch.setattr(jobs, "find_spec", lambda _name: None)
    words = ["pipeline", "run", "report", "--url", url, "--out", str(tmp_path / "made")]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "Counted by DuckDB, on this machine" in done.output
    assert (tmp_path / "made" / "report.html").exists()


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'app.db'}"
    turnabout.connect(url).close()
    full = {errno.EACCES: Forbidden, errno.ENOSPC: StorageFull}
    for number, kind in full.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, "mkdir", lambda *_, number=number, **__: fail(number))
            with pytest.raises(kind):
                report(url, out=tmp_path / "made")


def fail(number: int) -> None:
    raise OSError(number, "no")
