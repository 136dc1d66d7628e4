"""The second half of the demo: its verdict from plain numbers, and once with Spark."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from demo.pipeline import Archive, judge, show_page
from turnabout.pipeline.results import QueueReport, Reported, Times
from turnabout.words.value import replace

CARRIERS = {"UA": 6, "HA": 2}
TIMES = Times(1, 1, 1, 1, 1)
QUEUE = QueueReport(*("demo-1", "flights", 2, 8, 8, 0, 0, 0, 0, 8, 0, 0), TIMES, TIMES, 0.95, ())
MADE = Reported(8, 0, 1, (QUEUE,), (), ("report.html",), 1.0)
THERE = Archive(8, 8, CARRIERS)


def bad(there: Archive = THERE, made: Reported = MADE, done: int = 8) -> list[str]:
    return [check.text for check in judge(there, made, done, CARRIERS) if not check.good]


def test_all_that_was_done_is_there():
    assert bad() == []


def test_what_is_wrong_is_seen():
    assert (
        "7 rows in the lake, 8 messages done" in bad(dataclasses.replace(THERE, rows=7, ids=7))[0]
    )
    assert "7 different ids in 8 rows" in bad(dataclasses.replace(THERE, ids=7))[0]
    assert "for HA" in bad(dataclasses.replace(THERE, channels={"UA": 6, "HA": 1}))[0]
    assert "for XX" in bad(dataclasses.replace(THERE, channels={**CARRIERS, "XX": 1}))[0]
    unfair = replace(QUEUE, starved=("HA",))
    assert "HA starved" in bad(made=replace(MADE, queues=(unfair,)))[0]
    assert "9 other messages" in bad(made=replace(MADE, messages=9))[0]
    assert "other messages" in bad(made=replace(MADE, queues=()))[0]


def test_a_browser_is_for_somebody_who_looks(monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: bool(opened.append(url)) or True)
    monkeypatch.setenv("DISPLAY", ":0")
    assert not show_page(Path("/x/report.html"), is_terminal=False)
    assert show_page(Path("/x/report.html"), is_terminal=True)
    assert opened == ["file:///x/report.html"]


def test_without_spark_the_command_to_install_it_is_told_at_once(monkeypatch, run):
    monkeypatch.setitem(__import__("sys").modules, "turnabout.pipeline", None)
    ran = run("--rows", "10", "--pipeline", code=2)
    assert "pip install '.[spark-jre]'" in ran.err
    assert "Reading" not in ran.out


@pytest.mark.long
def test_flights_are_archived_and_reported(spark, tmp_path, run):
    words = ["--rows", "500", "--no-kill", "--workers", "2", "--json", "--pipeline", "--no-open"]
    told = run(*words, "--out", str(tmp_path)).document()
    assert "archived: 500 rows in the lake, 500 messages done" in [
        c["text"] for c in told["checks"]
    ]
    assert Path(told["pipeline"]["report"]).read_text().startswith("<!doctype html>")
