"""The fixtures for pytest, in runs of their own; the page that shows them is one."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "testing.md"
QUICK = ("-p", "no:cacheprovider", "-p", "no:randomly")
PASSED = 5


def blocks(page: str) -> Iterable[str]:
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


@pytest.mark.slow
def test_the_page_s_tests_pass(pytester: pytest.Pytester) -> None:
    for text in blocks(PAGE.read_text(encoding="utf-8")):
        pytester.path.joinpath(text.splitlines()[0].removeprefix("# ")).write_text(text)
    pytester.runpytest_subprocess(*QUICK).assert_outcomes(passed=PASSED)


@pytest.mark.slow
def test_each_test_has_a_store_and_a_clock_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("n", range(2))
        def test_of_its_own(turnabout, turnabout_clock, n):
            assert turnabout_clock.now == 1_800_000_000_000
            turnabout_clock.advance(1.5)
            assert turnabout.queue("q").send("x").id == 1
            (message,) = turnabout.queue("q").receive()
            assert message.sent_at == 1_800_000_001_500
        """
    )
    pytester.runpytest_subprocess(*QUICK).assert_outcomes(passed=2)


@pytest.mark.slow
def test_drain_works_where_the_test_does(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from turnabout.worker import GiveUp, Worker

        worker = Worker("postgresql://nobody@nowhere/none")

        @worker.handler("q")
        def handle(message):
            if message.text() == "again":
                raise ValueError
            if message.text() == "dead":
                raise GiveUp

        @pytest.mark.parametrize("store", ["turnabout", "turnabout_postgres"])
        def test_drain(request, turnabout_clock, store):
            mq = request.getfixturevalue(store)
            drain = request.getfixturevalue("drain")
            mq.queue("q").create(backoff_seconds=30)
            for text in ("fine", "again", "dead"):
                mq.queue("q").send(text)
            stats = drain(worker)
            assert (stats.handled, stats.failed) == (1, 2)
            assert (drain(worker).failed, len(mq.queue("q-dead").peek())) == (0, 1)
            turnabout_clock.advance(60)
            assert drain(worker).failed == 1
        """
    )
    pytester.runpytest_subprocess(*QUICK).assert_outcomes(passed=2)
