"""The demo with the dashboard: its shop goes as its text says."""

import time
from pathlib import Path

import pytest

import turnabout
from demo import shop


@pytest.mark.slow
def test_who_floods_who_fails_and_who_is_starved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    seen: list[set[str]] = []

    def look() -> None:
        with turnabout.connect(url) as mq:
            queue, until = mq.queue(shop.QUEUE), time.monotonic() + 30
            while time.monotonic() < until and (queue.stats().dead < 1 or not queue.workers()):
                time.sleep(0.1)
            served = {one.channel for one in queue.history(200).entries}
            (letter, *_) = mq.queue(f"{shop.QUEUE}-dead").peek()
            seen.extend([served, {one.channel for one in queue.channels()}])
            assert letter.channel == "initech"
            assert letter.origin is not None
            assert "is not an address" in (letter.origin.last_error or "")
            assert queue.workers()[0].worker.startswith("mailer@")

    shop.run(url, tmp_path, look)
    served, there = seen
    assert {"acme", "initech"} <= served < set(shop.TENANTS)
    assert set(shop.TENANTS) - served <= there, "the other shard waits"
    told = capsys.readouterr().out
    assert "/dashboard#token=" in told
