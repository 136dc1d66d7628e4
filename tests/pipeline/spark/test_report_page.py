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
from turnabout.pipeline.reports.charts.units import HOUR, MINUTE
from turnabout.pipeline.reports.facts import ReportFacts

HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m'\""
FIRST = 1_763_712_000_000  # 21 Nov 2025 08:00


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def measured(messages: int = 100, *, wait: int | None = 1_000, **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(("cancelled", "expired", "failures", "crashes"), 0)
    row |= {"messages": messages, "done": messages - 10, "dead": 10, "attempts": 2 * messages}
    row |= {"leased": 0 if wait is None else messages}
    for time in ("wait", "handle"):
        for n, name in enumerate(("p50", "p90", "p99", "max"), 1):
            row[f"{time}_{name}_ms"] = None if wait is None else wait * n
        row[f"{time}_mean_ms"] = wait
    return row | more


def facts(channel: str = "a", error: str = "boom", wait: int | None = 1_000) -> ReportFacts:
    names = {"namespace": "acme", "queue": "mail"}
    fair = {
        **names,
        "channels": 2,
        "jain_done": 0.75,
        "jain_wait": None if wait is None else 0.5,
        "slowest": None if wait is None else channel,
        "slowest_wait_mean_ms": wait,
    }
    queue = measured(wait=wait, **names)
    both = [
        measured(60, wait=wait, **names, channel=channel, busy=1, slow=1),
        measured(40, wait=wait, **names, channel="b", busy=2, slow=2),
    ]
    kind = {**names, "error": error, "messages": 10, "dead": 10, "channels": 1}
    kind |= {"first_at": at(FIRST), "last_at": at(FIRST + HOUR)}
    kind |= {"example": error, "example_id": 7}
    key = ("acme", "mail")
    steps = [{**queue, "at": at(FIRST)}, {**queue, "at": at(FIRST + 2 * MINUTE)}]
    return ReportFacts(
        first_ms=FIRST,
        until_ms=FIRST + 5 * MINUTE,
        step_ms=MINUTE,
        coarse_ms=MINUTE,
        total=queue,
        queues=[queue],
        fair={key: fair},
        channels=both[:1],
        channel_count=2,
        kinds=[kind],
        kind_count=3,
        all_steps=steps,
        steps={key: steps},
        coarse_fair={key: [{**fair, "at": at(FIRST)}]},
        heat={key: [{**names, "channel": channel, "at": at(FIRST), "wait_mean_ms": wait}]},
        timed={key: both},
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
    assert "From 21 Nov 2025 08:00:00 to 21 Nov 2025 08:05:00 UTC, 100 messages of 1 queue" in said
    assert "90 % done, 10 % dead" in said
    assert "Half of them waited no longer than 1 s, one in a hundred longer than 3 s" in said
    assert "The slowest channel, a of acme/mail, waited 1 s on average" in said
    assert "Channels waited unequally (Jain's index of the mean wait 0.50 over 2 channels" in said
    assert "the commonest error is “boom” (10 messages of acme/mail)" in said
    assert "The busiest minute: 21 Nov 08:00–08:01 UTC, with 100 messages (1.7/s)." in said


def test_one_message_is_not_a_thousand_a_second() -> None:
    found = facts()
    found = replace(found, until_ms=found.first_ms + 1)
    assert summary.busiest(found)[1] == 100


def test_nothing_and_nothing_leased_are_said() -> None:
    assert list(summary.sentences(None)) == ["No message ended in this time."]
    assert "No message ended" in made(None)
    assert "<table" not in made(None)
    idle = facts(wait=None)
    assert "None of them was ever leased." in list(summary.sentences(idle))
    assert "Nothing to show." in made(idle)


def test_the_rest_is_summed_in_one_line() -> None:
    text = re.sub(r"\s+", " ", made(facts()))
    rest = text.partition("1 other channel</td>")[2]
    assert re.findall(r"<td>([\d,]+)</td>", rest)[:4] == ["40", "40", "0", "0"]
    assert "2 more kinds are in failures.parquet" in text


def test_hostile_names_and_errors_stay_text() -> None:
    text = made(facts(HOSTILE, HOSTILE))
    elements = Elements(text).found
    assert [tag for tag, _ in elements].count("script") == 1
    assert not [tag for tag, _ in elements if tag in ("img", "iframe", "object", "link", "base")]
    assert not [name for _, attrs in elements for name in attrs if name.startswith("on")]
    assert "\x1b" not in "".join(v or "" for _, attrs in elements for v in attrs.values())


def test_the_page_needs_nothing_and_may_run_nothing_else() -> None:
    text = made(facts())
    elements = Elements(text).found
    policy = next(a["content"] or "" for _, a in elements if "http-equiv" in a)
    assert policy.startswith("default-src 'none'; ")
    for name in ("style", "script"):
        inner = re.findall(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
        assert len(inner) == 1
        digest = base64.b64encode(hashlib.sha256(inner[0].encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert not [a for _, a in elements if a.keys() & {"src", "href", "style"}]
    assert not re.search(r"https?://|url\(|@import", text)
    assert all(a.get("aria-label") for tag, a in elements if tag == "svg")


def test_many_queues_are_listed_and_the_rest_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "LISTED", 1)
    found = facts()
    other = measured(50, namespace="", queue="<i>")
    fair = found.fair["acme", "mail"]
    many = ReportFacts(
        **{
            **{name: getattr(found, name) for name in found.__dataclass_fields__},
            "queues": [*found.queues, other],
            "fair": {**found.fair, ("", "<i>"): {**fair, "namespace": "", "queue": "<i>"}},
            "steps": {**found.steps, ("", "<i>"): found.all_steps},
        }
    )
    text = made(many)
    assert "Waiting by queue" in text
    assert "1 other queue<" in text
    assert "<i>" not in text.replace('<i class="', "")
