"""Samples: what a server keeps of its queues over time, and the charts of them."""

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any

import pytest

import turnabout
from tests.support.doors import START, Door
from turnabout import message
from turnabout.dashboard import pages
from turnabout.dashboard.pages import charts_of
from turnabout.dashboard.samples import STEP_MS, Sampler, ratios_of, samples_of
from turnabout.dashboard.verbs import KEPT_MS, Sample, SamplesKeep, SamplesList
from turnabout.dashboard.view import chart, strip

HOUR = 3_600_000


def sample(at: int, step: int = STEP_MS, **more: Any) -> Sample:
    figures = {"ready": 1, "leased": 0, "oldest_ms": None, "sent": 5, "done": 4, "dead": 0}
    return Sample("q", step, at, **{**figures, **more})


@pytest.mark.needs("administration")
def test_samples_are_kept_once_and_for_their_time(door: Door) -> None:
    run, door.clock.now = door.mq.store.run, START
    run(SamplesKeep((sample(START), sample(START, HOUR))))
    run(SamplesKeep((sample(START, ready=9), sample(START + STEP_MS, oldest_ms=7))))
    found = run(SamplesList("q", STEP_MS, 0))
    assert found == (sample(START), sample(START + STEP_MS, oldest_ms=7))
    assert run(SamplesList("q", STEP_MS, START + 1)) == found[1:]
    door.clock.now = START + KEPT_MS[STEP_MS] + 1
    run(SamplesKeep(()))
    assert run(SamplesList("q", STEP_MS, 0)) == found[1:]
    assert run(SamplesList("q", HOUR, 0)) == (sample(START, HOUR),)
    assert run(SamplesList("other", HOUR, 0)) == ()


def test_a_sampler_takes_what_has_changed(tmp_path: Any) -> None:
    async def life() -> Any:
        async with turnabout.aio.connect(f"sqlite:///{tmp_path}/app.db") as mq:
            for name in ("busy", "idle"):
                await mq.queue(name).create()
            busy = mq.queue("busy")
            await busy.send_many([message("x", channel=c) for c in "ab" for _ in range(9)])
            sampler = Sampler(mq.store)
            for minute in range(3):
                if minute < 2:
                    await busy.ack([m.receipt for m in await busy.receive(4)])
                await sampler.take(START + minute * STEP_MS + 17)
            now = START + 3 * STEP_MS
            return [await samples_of(mq.store, q, STEP_MS, now) for q in ("busy", "idle")]

    busy, idle = asyncio.run(life())
    assert [(one.at - START, one.done, one.ready) for one in busy] == [
        (0, 4, 14), (STEP_MS, 8, 10), (2 * STEP_MS, 8, 10),
    ]  # fmt: skip
    assert len(idle) == 1  # it was new; it has not changed since


def test_a_sampler_that_rests_keeps_each_distance(tmp_path: Any) -> None:
    """Looks that take long are rarer than minutes, and hardly ever at a full hour."""

    async def life() -> Any:
        async with turnabout.aio.connect(f"sqlite:///{tmp_path}/app.db") as mq:
            await mq.queue("busy").send("x")
            sampler = Sampler(mq.store)
            for minutes in (7, 38, 64, 95):
                await sampler.take(START + minutes * STEP_MS)
            now = START + 95 * STEP_MS
            return [len(await samples_of(mq.store, "busy", step, now)) for step in KEPT_MS]

    assert asyncio.run(life()) == [4, 4, 2]


def test_charts_and_strips() -> None:
    some = [
        sample(
            START + n * STEP_MS, sent=n * 60, done=n * 30, shares='{"a<b": [1, 2.0]}' if n else None
        )
        for n in range(4)
    ]
    (_, times, rates), ready, _ = charts_of(some)
    assert (times[0], rates) == (START + STEP_MS, {"sent": [1.0] * 3, "done": [0.5] * 3})
    assert charts_of(some[:2]) == (), "one point is no line"
    assert ratios_of(some) == {"a<b": [None, 0.5, 0.5, 0.5]}
    assert 'aria-label="share got to fair share over time: 0.50 to 0.50"' in strip([None, 0.5])
    assert "ready: 1 now" in chart(*ready)
    assert "<b>&lt;" in chart("<", [1, 2], {"<i>": [0.0, 0.0]})


def test_a_slow_answer_is_shown_while_it_is_asked_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "SLOW_SECONDS", -1.0)  # all are
    seconds = itertools.count()
    monkeypatch.setattr(pages, "time", SimpleNamespace(monotonic=lambda: next(seconds) / 1000))
    context: Any = SimpleNamespace(store=None)
    caller: Any = SimpleNamespace(namespace="", token=None)

    async def story() -> None:
        views, answers = pages.Views(context), iter(range(9))

        async def look() -> int:
            return next(answers)

        async def asked(at_first: int | None = None) -> int:
            for _ in range(100):
                next(seconds)  # the time of the last answer is over
            answer = await views._kept(caller, ("x",), look, at_first)
            await asyncio.gather(*views._looking)
            return answer

        assert await asked(99) == 99, "as the sampler saw it"
        assert [await asked(), await asked()] == [0, 1], "as it was, and looked at meanwhile"
        views.forget()
        assert await asked() == 3, "after an act nothing old is shown"

    asyncio.run(story())
