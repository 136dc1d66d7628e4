"""Numbers, durations, tables, and texts that must not drive a terminal."""

from __future__ import annotations

import io
import sys

import click
import pytest

from tests.support.each import each
from turnabout.cli import _json, _kinds, _places, _show
from turnabout.cli._settings import rate
from turnabout.words.policy import Rate


@each(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.25, "250ms"),
        (4.21, "4.2s"),
        (59.6, "1m"),
        (192, "3m 12s"),
        (18_240, "5h 4m"),
        (86_400 * 12 + 3 * 3600, "12d 3h"),
        (-5, "-5s"),
    ],
)
def test_durations_for_people(seconds: float, text: str) -> None:
    assert _show.duration(seconds) == text


def test_one_of_a_kind_is_not_many() -> None:
    texts = [_show.plural(n, "message") for n in (0, 1, 2, 1_000)]
    assert texts == ["0 messages", "1 message", "2 messages", "1,000 messages"]
    several = [_show.plural(n, "dedup entry", "dedup entries") for n in (0, 1, 2)]
    assert several == ["0 dedup entries", "1 dedup entry", "2 dedup entries"]
    assert _show.payload(b"\xff") == "(1 byte, not text)"


def test_instants_for_people() -> None:
    assert _show.when(1_000_000, now=1192) == "3m 12s ago"
    assert _show.when(1_005_000, now=1000) == "in 5s"
    assert _show.when(1_000_000, now=1000.2) == "now"


@each(
    ("text", "seconds"),
    [("90", 90), ("1.5", 1.5), ("250ms", 0.25), ("1m30s", 90), ("2h", 7200), ("7d", 604_800)],
)
def test_durations_that_are_typed(text: str, seconds: float) -> None:
    assert _kinds.seconds(text) == seconds


@each("text", ["", "s", "5x", "-5", "1m 30", "1e3", "nan", "5 parsecs"])
def test_no_durations(text: str) -> None:
    with pytest.raises(click.BadParameter):
        _kinds.DURATION.convert(text, None, None)


@each(
    ("text", "wanted"),
    [
        ("10/s", Rate(10)),
        ("10/1s:5", Rate(10, 1.0, 5)),
        ("100/1m", Rate(100, 60.0)),
        ("1/500ms", Rate(1, 0.5)),
    ],
)
def test_rates_that_are_typed(text: str, wanted: Rate) -> None:
    assert _kinds.RATE.convert(text, None, None) == wanted
    assert _kinds.RATE.convert(rate(wanted), None, None) == wanted


@each("text", ["10", "10/", "/s", "0/s", "10/s:0", "10/s:", "x/s", "10/5x"])
def test_no_rates(text: str) -> None:
    with pytest.raises(click.BadParameter):
        _kinds.RATE.convert(text, None, None)


def test_escape_sequences_are_spelled_out() -> None:
    assert _show.clean("a\x1b[31mb\u202e") == "a\\x1b[31mb\\u202e"
    assert _show.payload(b"\x1b]0;owned\x07\n", 50) == "\\x1b]0;owned\\x07⏎"
    assert _show.payload(b"\xff\xfe") == "(2 bytes, not text)"
    assert _show.channel("") == "(default)"


def test_tables_are_aligned_also_with_wide_characters() -> None:
    lines = _show.grid(("NAME", "N"), [("日本", "1"), ("abc", "1,000")], {1}).splitlines()
    assert lines == ["NAME      N", "日本      1", "abc   1,000"]


def test_bars() -> None:
    assert _show.bar(0, 4) == "····"
    assert _show.bar(0.001, 4) == "█···"
    assert _show.bar(1, 4) == "████"


def test_json_that_the_output_cannot_write_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert _json.line({"a": "é"}) == '{"a": "\\u00e9"}'
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert _json.line({"a": "é"}) == '{"a": "é"}'
    assert _json.line({"a": "\ud800"}) == '{"a": "\\ud800"}'


def test_a_quoted_password_is_scrubbed() -> None:
    url = "postgresql://u:p%40ss@h/db"
    assert _places.scrub("no route for u:p@ss nor p%40ss", url) == "no route for u:*** nor ***"
    assert _places.scrub("text", "sqlite:///app.db") == "text"


@each(
    ("url", "path"),
    [
        ("sqlite:///a/b.db", "a/b.db"),
        ("sqlite:////a/b%20c.db?synchronous=off", "/a/b c.db"),
        ("sqlite://", None),
        ("postgresql://h/db", None),
    ],
)
def test_the_file_of_a_url(url: str, path: str | None) -> None:
    found = _places.sqlite_path(url)
    assert (None if found is None else str(found)) == path
