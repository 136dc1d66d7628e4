"""The page: what it says, and that hostile names, errors and numbers of things don't break it."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest

from turnabout.pipeline.reports import page, summary
from turnabout.pipeline.reports.facts import ReportFacts
from turnabout.pipeline.reports.units import HOUR, MINUTE

HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m'\""
FIRST = 1_763_712_000_000  # 21 Nov 2025 08:00


def measured(messages: int = 100, *, wait: int | None = 1_000, **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(("cancelled", "expired", "failures", "crashes"), 0)
    row |= {"messages": messages, "done": messages - 10, "dead": 10, "attempts": 2 * messages}
    row |= {"leased": 0 if wait is None else messages, "retried": 0, "fairness": 0.9}
    row |= {"channels": 2, "starved": ()}
    for time in ("wait", "handle"):
        for n, name in enumerate(("p50", "p90", "p99", "max"), 1):
            row[f"{time}_{name}_ms"] = None if wait is None else wait * n
    return row | more


NAMES = {"namespace": "acme", "queue": "mail"}
KEY = ("acme", "mail")


def facts(channel: str = "a", error: str = "boom", wait: int | None = 1_000) -> ReportFacts:
    queue = measured(wait=wait, **NAMES)
    at = [datetime.fromtimestamp((FIRST + ms) / 1000, UTC) for ms in (0, HOUR)]
    kind = {**NAMES, "error": error, "messages": 10, "dead": 10, "channels": 1, "kinds": 3}
    kind |= {"first_at": at[0], "last_at": at[1], "example": error, "example_id": 7}
    steps = [{**queue, "begun": FIRST}, {**queue, "begun": FIRST + 2 * MINUTE}]
    share = {**NAMES, "channel": channel, "got": 90, "fair": 100.0, "ratio": 0.9, "waited_ms": 5}
    return ReportFacts(
        first_ms=FIRST,
        until_ms=FIRST + 5 * MINUTE,
        step_ms=MINUTE,
        total=queue,
        queues=[queue],
        channels=[measured(60, wait=wait, **NAMES, channel=channel)],
        kinds=[kind],
        steps={KEY: steps},
        shares=[share],
        starved=[],
    )


def made(found: ReportFacts | None) -> str:
    return page.html(found, list(summary.sentences(found)), "the file x")


class Elements(HTMLParser):
    """What a browser makes of a page: its elements with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_summary_says_what_matters() -> None:
    said = " ".join(summary.sentences(facts()))
    assert "21 Nov 2025 08:00:00–08:05:00 UTC: 100 messages of 1 queue and 2 channels" in said
    assert "90 % done, 10 % dead" in said
    assert "Half of them waited no longer than 1s, one in a hundred longer than 3s" in said
    assert "Channels were served fairly: the least that one got is 90 % of its fair share" in said
    assert "the commonest error is “boom” (10 messages of acme/mail)" in said


def steps_of(*waits: int, messages: int = 100) -> list[dict[str, Any]]:
    return [
        measured(messages, wait=wait, **NAMES, begun=FIRST + n * HOUR)
        for n, wait in enumerate(waits)
    ]


def day(steps: list[dict[str, Any]]) -> str:
    found = replace(facts(), until_ms=FIRST + len(steps) * HOUR, step_ms=HOUR, steps={KEY: steps})
    return " ".join(summary.sentences(found))


def test_when_it_was_slow_is_said() -> None:
    said = day(steps_of(*[150] * 4, 10_000, 9_000, *[150] * 4, 5_000, 150))
    assert (
        "Waiting in acme/mail was slow at 21 Nov 2025 12:00–14:00 UTC (20s), "
        "21 Nov 2025 18:00–19:00 UTC (10s): the times" in said
    )
    assert "usually 300ms" in said
    assert "slow" not in day(steps_of(*[150] * 6, 400))


def test_the_starved_are_named_with_the_time() -> None:
    row = {**NAMES, "channel": "wee", "first_ms": FIRST, "until_ms": FIRST + MINUTE}
    row |= {"got": 2, "fair": 20.0, "waited_ms": 42_000}
    said = list(summary.sentences(replace(facts(), starved=[row] * 4)))
    text = next(one for one in said if one.startswith("Starved"))
    assert "wee of acme/mail, 21 Nov 2025 08:00:00–08:01:00 UTC (10 % of its fair share" in text
    assert text.endswith("and 1 other channel. A first message waited for up to 42s.")


def test_leases_that_ran_out_are_not_nothing() -> None:
    def said(**more: Any) -> str:
        found = facts()
        total = {**found.total, "dead": 0, **more}
        return " ".join(summary.sentences(replace(found, total=total, kinds=[])))

    assert "Nothing failed, and no lease ran out." in said()
    assert "No attempt failed, but 500 leases ran out" in said(crashes=500)
    assert "Nothing failed" not in said(crashes=500)
    assert "3 attempts failed, 1 lease ran out." in said(failures=3, crashes=1)


def test_nothing_and_nothing_leased_are_said() -> None:
    assert list(summary.sentences(None)) == ["No message ended in this time."]
    assert "No message ended" in made(None)
    assert "<table" not in made(None)
    idle = facts(wait=None)
    assert "None of them was ever leased." in list(summary.sentences(idle))
    assert "Nothing to show." in made(idle)


def test_what_is_left_out_is_said() -> None:
    text = made(facts())
    assert "The first 1 of 2 channels; all are in hours.parquet" in text
    assert "The first 1 of 3 kinds; all are in failures.parquet" in text


def test_hostile_names_and_errors_stay_text() -> None:
    text = made(facts(HOSTILE, HOSTILE))
    elements = Elements(text).found
    assert [tag for tag, _ in elements].count("script") == 0
    assert not [tag for tag, _ in elements if tag in ("img", "iframe", "object", "link", "base")]
    assert not [name for _, attrs in elements for name in attrs if name.startswith("on")]
    assert "\x1b" not in "".join(v or "" for _, attrs in elements for v in attrs.values())


def test_the_page_needs_nothing_and_runs_nothing() -> None:
    text = made(facts())
    elements = Elements(text).found
    policy = next(a["content"] or "" for _, a in elements if "http-equiv" in a)
    assert policy.startswith("default-src 'none'; ")
    (inner,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    assert "script" not in policy
    assert not [a for _, a in elements if a.keys() & {"src", "href", "style"}]
    assert not re.search(r"https?://|url\(|@import", text)
    assert all(a.get("aria-label") for tag, a in elements if tag == "svg")


def test_many_queues_are_drawn_and_listed_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "LISTED", 1)
    found = facts()
    other = measured(50, namespace="", queue="<i>")
    steps = {**found.steps, ("", "<i>"): [{**other, "begun": FIRST}]}
    text = made(replace(found, queues=[*found.queues, other], steps=steps))
    assert "The first 1 of 2 queues" in text
    assert "<i>" not in text.replace('<i class="', "")
    assert text.count("<svg") == 4
