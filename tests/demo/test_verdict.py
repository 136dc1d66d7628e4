"""The verdict: bad news that is planted in the ledger has to be found."""

from __future__ import annotations

from typing import Any

import pytest

from demo.ledger import DemoLedger
from demo.verdict import DemoSent, Killing, Verdict, fairness, judge
from turnabout.words.entities import QueueStats

SENT = DemoSent({"BIG": 300, "MID": 60, "WEE": 6}, {"BIG": 300, "MID": 60, "WEE": 6})
ROWS = {row: "BIG" if row <= 300 else "MID" if row <= 360 else "WEE" for row in range(1, 367)}


def dealt() -> list[int]:
    """All rows in perfect turn."""
    by_carrier = {name: [row for row in ROWS if ROWS[row] == name] for name in SENT.sizes}
    order: list[int] = []
    while any(by_carrier.values()):
        order += [rows.pop(0) for rows in by_carrier.values() if rows]
    return order


def worked(
    ledger: DemoLedger, rows: list[int], at: int = 0, worker: str = "w", size: int = 10
) -> None:
    for start in range(0, len(rows), size):
        batch = rows[start : start + size]
        got(ledger, batch, at + start, worker)
        did(ledger, batch, worker)
        ledger.note(worker, {"event": "acked", "at": at + start, "rows": batch})


def got(ledger: DemoLedger, rows: list[int], at: int = 0, worker: str = "w") -> None:
    line: dict[str, Any] = {"event": "got", "at": at, "rows": rows}
    line["carriers"] = [ROWS[row] for row in rows]
    line["receipts"] = [f"{row}.1" for row in rows]
    ledger.note(worker, line)


def did(ledger: DemoLedger, rows: list[int], worker: str = "w", late: int = 1) -> None:
    ones = [late] * len(rows)
    ledger.note(worker, {"event": "did", "at": 0, "rows": rows, "speeds": ones, "late": ones})


def stats(**changed: int) -> QueueStats:
    none = ("scheduled", "ready", "leased", "dead", "cancelled", "expired")
    counts: dict[str, Any] = dict.fromkeys(none, 0)
    counts |= {"sent": 366, "done": 366, "oldest_ready_ms": None, "paused": False, **changed}
    return QueueStats(queue="q", **counts)


def verdict(
    ledger: DemoLedger, counts: QueueStats | None = None, killing: Killing | None = None
) -> Verdict:
    return judge(SENT, ledger, counts or stats(), started_at=0, batch_rows=10, killing=killing)


def bad_news(found: Verdict) -> str:
    assert not found.good
    return " | ".join(check.text for check in found.checks if not check.good)


def test_good_work_is_called_good() -> None:
    ledger = DemoLedger()
    worked(ledger, dealt())
    found = verdict(ledger)
    assert found.good, bad_news(found)
    assert [service.carrier for service in found.services] == ["BIG", "MID", "WEE"]
    assert [service.fair_place for service in found.services] == [366, 126, 18]
    assert found.services[-1].last_place <= 20


def test_a_lost_message_is_found() -> None:
    ledger = DemoLedger()
    worked(ledger, dealt()[:-1])
    assert "1 of 366 flights were never handled" in bad_news(verdict(ledger))


def test_a_message_that_was_handled_but_never_acked_is_found() -> None:
    ledger = DemoLedger()
    worked(ledger, dealt()[:-1])
    got(ledger, dealt()[-1:], 400)
    did(ledger, dealt()[-1:])
    assert "1 never, 0 more than once" in bad_news(verdict(ledger))


def test_a_message_that_was_acked_twice_is_found() -> None:
    ledger = DemoLedger()
    worked(ledger, dealt())
    worked(ledger, [7], at=400, worker="other")
    assert "0 never, 1 more than once" in bad_news(verdict(ledger))


def test_handled_twice_and_acked_once_is_what_at_least_once_means() -> None:
    ledger = DemoLedger()
    order = dealt()
    got(ledger, order[:10], worker="dead")
    did(ledger, order[:5], worker="dead")
    worked(ledger, order[10:])
    worked(ledger, order[:10], at=4000)
    killing = Killing("dead", frozenset(order[:10]), refused=10)
    found = verdict(ledger, killing=killing)
    assert found.good, bad_news(found)
    assert (found.redelivered, found.handled_twice) == (10, 5)


def test_a_dead_workers_message_that_never_came_back_is_found() -> None:
    ledger = DemoLedger()
    worked(ledger, dealt())
    assert "handed out again" in bad_news(verdict(ledger, killing=Killing("w", frozenset({7}), 1)))


def test_a_late_ack_that_was_accepted_is_found() -> None:
    ledger = DemoLedger()
    got(ledger, [7], worker="dead")
    worked(ledger, dealt())
    killing = Killing("dead", frozenset({7}), refused=0)
    assert "0 were refused" in bad_news(verdict(ledger, killing=killing))


@pytest.mark.parametrize("wrong", [{"done": 365}, {"sent": 367}, {"done": 365, "dead": 1}])
def test_counts_that_disagree_are_found(wrong: dict[str, int]) -> None:
    ledger = DemoLedger()
    worked(ledger, dealt())
    assert "disagree" in bad_news(verdict(ledger, stats(**wrong)))


def test_a_wrong_result_is_found() -> None:
    ledger = DemoLedger()
    worked(ledger, dealt())
    did(ledger, [300], late=99)
    assert "results do not add up to the file's for BIG" in bad_news(verdict(ledger))


def test_a_starved_carrier_is_found() -> None:
    ledger = DemoLedger()
    worked(ledger, sorted(ROWS))  # in order of sending, as a queue without channels would
    assert "unfair: MID, WEE waited" in bad_news(verdict(ledger))


class TestShares:
    def test_equal_shares_are_one(self) -> None:
        assert fairness({"a": 100, "b": 100}, ["a", "b"] * 50, block=20) == pytest.approx(1.0)

    def test_who_gets_nothing_is_seen(self) -> None:
        order = ["a"] * 40 + ["b"] * 40
        assert fairness({"a": 50, "b": 50}, order[:20], block=20) == 0.0

    def test_who_has_nothing_left_does_not_compete(self) -> None:
        assert fairness({"a": 100, "b": 10}, ["b"] * 10 + ["a"] * 100, block=10) is None
