"""What a report counts, against plain Python over the same rows."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import turnabout
from tests.support.each import each
from turnabout.pipeline import reports
from turnabout.pipeline.reports import engines, report
from turnabout.pipeline.reports.engines import COLUMNS
from turnabout.pipeline.results import Reported
from turnabout.pipeline.schema import arrow_schema

START = datetime(2026, 5, 1, 10, 30, tzinfo=UTC)
LogRow = tuple[Any, ...]


def log_row(number: int, channel: str, minute: float, **more: Any) -> LogRow:
    """A row of the log; waits and handling in milliseconds."""
    sent = START + timedelta(minutes=minute)
    wait, handle = more.get("wait", 100), more.get("handle", 50)
    leased = None if wait is None else sent + timedelta(milliseconds=wait)
    ended = sent if leased is None else leased + timedelta(milliseconds=handle)
    return (
        *("", "mail", channel, number, more.get("outcome", "done")),
        *(more.get("attempt", 1), more.get("failures", 0), more.get("crashes", 0)),
        *(sent, leased, ended, more.get("error")),
    )


def arrow(rows: Iterable[LogRow]) -> Any:
    """The rows as a table of Arrow's."""
    made: Any = pa
    named = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    return made.Table.from_pylist(named, arrow_schema(COLUMNS))


def reported(
    rows: Iterable[LogRow], folder: Path, monkeypatch: pytest.MonkeyPatch, **more: Any
) -> tuple[Reported, dict[str, list[dict[str, Any]]]]:
    """A report of these rows, and its tables."""
    table = arrow(rows)
    monkeypatch.setattr(reports, "_lake_rows", lambda c, *_: c.from_arrow(table))
    done = report(lake=folder / "lake", out=folder / "report", **more)
    return done, tables_in(folder / "report")


def tables_in(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The tables of a report."""
    read: Any = pq.read_table
    return {
        name: read(folder / f"{name}.parquet").to_pylist()
        for name in ("hours", "failures", "fairness")
    }


def some_rows() -> list[LogRow]:
    """Rows of three channels, with failures of two kinds."""
    draw = random.Random(5)
    rows = [
        log_row(
            n,
            draw.choice("aab"),
            draw.uniform(0, 90),
            wait=draw.randrange(900),
            handle=draw.randrange(900),
        )
        for n in range(200)
    ]
    dead = {"outcome": "dead", "attempt": 3, "failures": 3}
    said = "no mailbox for user-%d: 0x%x"
    rows += [log_row(1000 + n, "a", n, error=said % (n, n * 99), **dead) for n in range(3)]
    return [
        *rows,
        log_row(1010, "", 1.0, **dead),  # died without a word
        log_row(1011, "c", 1.0, wait=None, outcome="cancelled"),
        log_row(1012, "a", 200.0, wait=123_456, handle=0, crashes=1),
    ]


@each("slice_rows", [50, 2_000_000])
def test_hours_and_failures_are_what_plain_python_says(
    slice_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "SLICE_ROWS", slice_rows)
    rows = some_rows()
    done, tables = reported(rows, tmp_path, monkeypatch)
    found = {(row["channel"], row["hour"].hour): row for row in tables["hours"]}
    groups: dict[tuple[str, int], list[LogRow]] = defaultdict(list)
    for row in rows:
        groups[row[2], row[10].hour].append(row)
    assert found.keys() == groups.keys()
    assert len(tables["hours"]) == len(found)
    for key, some in groups.items():
        row = found[key]
        outcomes = Counter(one[4] for one in some)
        assert row["messages"] == len(some)
        for name in ("done", "dead", "cancelled"):
            assert row[name] == outcomes[name]
        assert row["attempts"] == sum(one[5] for one in some)
        assert row["retried"] == sum(one[5] > 1 for one in some)
        waits = sorted(ms(one[9] - one[8]) for one in some if one[9] and one[5] == 1)
        if waits:
            assert row["wait_p50_ms"] == waits[-(-len(waits) // 2) - 1]
            assert row["wait_max_ms"] == waits[-1]
        else:
            assert row["wait_p50_ms"] is row["wait_max_ms"] is None
    kinds = {row["error"]: row for row in tables["failures"]}
    assert set(kinds) == {"no mailbox for user-#: #hex", ""}
    kind = kinds["no mailbox for user-#: #hex"]
    assert (kind["messages"], kind["dead"], kind["channels"]) == (3, 3, 1)
    assert (kind["example_id"], kind["example"]) == (1002, "no mailbox for user-2: 0xc6")
    (queue,) = done.queues
    assert (queue.messages, queue.channels, queue.retried, queue.crashes) == (206, 4, 4, 1)
    assert queue.wait.max_ms == 123_456
    assert engines.DuckDB.name == done.engine


def ms(length: timedelta) -> int:
    return round(length.total_seconds() * 1000)


def test_kinds_of_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {
        "Traceback …\n  line 7\nValueError: bad id 4711\n\n": "ValueError: bad id #",
        "at 10.0.0.7:5432 after 1.5 s": "at # after # s",
        "job 6ba7b810-9dad-11d1-80b4-00c04fd430c8 died": "job #id died",
        "digest deadbeef01 not found, decade a1": "digest #hex not found, decade a#",
        "digest 1234567a, number 12345678": "digest #hex, number #",
        "object at 0x7f3a": "object at #hex",
        "plain": "plain",
        "": "",
    }
    rows = [log_row(n, "a", 0.0, error=text) for n, text in enumerate(said)]
    _, tables = reported(rows, tmp_path, monkeypatch)
    assert {row["example"]: row["error"] for row in tables["failures"]} == said


SMALL = 6


def served(*, in_turns: bool) -> list[LogRow]:
    """A big channel sends 6,000 messages at once; small ones send one every five seconds, for ten
    minutes. Ten a second are served.
    """
    sent = [(n / 6000, "big") for n in range(6000)]
    sent += [(n * 5.0 + c / 10, f"small-{c}") for n in range(1, 120) for c in range(SMALL)]
    sent.sort()
    waiting: dict[str, list[float]] = defaultdict(list)
    rows: list[LogRow] = []
    clock, place, turn = 0.0, 0, 0
    names = ["big", *(f"small-{c}" for c in range(SMALL))]
    while len(rows) < len(sent):
        while place < len(sent) and sent[place][0] <= clock:
            waiting[sent[place][1]].append(sent[place][0])
            place += 1
        ready = [name for name in names if waiting[name]]
        if ready:
            if in_turns:
                chosen = min(ready, key=lambda name: (names.index(name) - turn) % len(names))
                turn = names.index(chosen) + 1
            else:
                chosen = min(ready, key=lambda name: waiting[name][0])
            begun = waiting[chosen].pop(0)
            rows.append(log_row(len(rows), chosen, begun / 60, wait=round((clock - begun) * 1000)))
        clock += 0.1
    return rows


def test_taking_turns_is_fair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, tables = reported(served(in_turns=True), tmp_path, monkeypatch)
    (queue,) = done.queues
    assert queue.fairness is not None
    assert queue.fairness >= 0.9
    assert queue.starved == ()
    assert all(row["waited_ms"] <= 2_000 for row in tables["fairness"] if row["channel"] != "big")
    assert any("Channels were served fairly" in text for text in done.sentences)


def test_first_in_first_out_starves_the_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, tables = reported(served(in_turns=False), tmp_path, monkeypatch)
    (queue,) = done.queues
    assert queue.fairness is not None
    assert queue.fairness < 0.2
    assert set(queue.starved) == {f"small-{c}" for c in range(SMALL)}
    longest = max(row["waited_ms"] for row in tables["fairness"] if row["channel"] == "small-0")
    assert longest > 9 * 60_000  # while the big one's 6,000 were served, for ten minutes
    told = next(text for text in done.sentences if text.startswith("Starved"))
    assert "small-" in told
    assert "1 May 2026 10:3" in told


def test_weights_and_what_is_not_wanted_make_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All are sent at once. Ten of `a`, twenty of `b` and all of `c` are served each second.
    rows = [log_row(n, "a", 0, wait=1_000 + 100 * n) for n in range(600)]
    rows += [log_row(1000 + n, "b", 0, wait=1_000 + 50 * n) for n in range(1200)]
    done, tables = reported(rows, tmp_path, monkeypatch, weights={"b": 2.0})
    assert done.queues[0].fairness == pytest.approx(1.0, abs=0.05)
    full = [row for row in tables["fairness"] if row["got"] + row["wanted"] > 20]
    assert full
    other, _ = reported(rows, tmp_path, monkeypatch)
    assert other.queues[0].fairness == pytest.approx(2 / 3, abs=0.05)
    for step in {row["begun"] for row in tables["fairness"]}:
        some = [row for row in tables["fairness"] if row["begun"] == step]
        assert sum(row["fair"] for row in some) == pytest.approx(sum(row["got"] for row in some))
        assert all(row["fair"] <= row["wanted"] + 1e-9 for row in some)


def test_a_database_is_read_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "INSERT_ROWS", 2)
    url = f"sqlite:///{tmp_path / 'app.db'}"
    with turnabout.connect(url) as mq:
        for queue in ("films", "mail", "acme/mail"):
            mq.queue(queue).send_many([turnabout.message(b"", channel=c) for c in "aab"])
            for message in mq.queue(queue).receive(3):
                message.ack()
    found = report(url, out=tmp_path / "all")
    assert [(one.name, one.done) for one in found.queues] == [
        *(("films", 3), ("mail", 3), ("acme/mail", 3)),
    ]
    some = report(url, queues=["mail"], namespace="acme", out=tmp_path / "some")
    assert [(one.name, one.messages) for one in some.queues] == [("acme/mail", 3)]
    assert report(url, until=0, out=tmp_path / "none").messages == 0
    none = report(url, since=1, until=2, out=tmp_path / "none")
    assert (none.messages, none.sentences) == (0, ("No message ended in this time.",))
    assert tables_in(tmp_path / "none")["hours"] == []
