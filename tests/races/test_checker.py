"""The checker itself: a good history is valid, and each planted fault is found, and named."""

from collections.abc import Callable
from functools import partial
from operator import methodcaller
from types import SimpleNamespace
from typing import Any

import pytest

from tests.races.actors import FIFO, FREE, value_of
from tests.races.checker import Report, check
from turnabout import Rate

LIMITS = {"one": 1}
RATES = {"slow": Rate(10, 1, 1)}


class Tale:
    """A history, told step by step; the store's clock is the history's, in milliseconds."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.now, self.calls = 100.0, 0
        self.sent = {FIFO: 0, FREE: 0}
        self.done = {FIFO: 0, FREE: 0}

    def call(self, op: str, queue: str, out: Any, seconds: float = 0.001, **said: Any) -> None:
        self.calls += 1
        common = {"who": "x", "n": self.calls, "op": op}
        self.events.append({"t": self.now, "e": "inv", "q": queue, **common, **said})
        self.now += seconds
        if out is not None:
            self.events.append({"t": self.now, "e": "ok", "out": out, **common})
        self.now += 0.001

    def send(self, number: int, channel: str, queue: str = FREE, *, known: bool = True, delay=0):
        out = [number] if known else None
        self.call("send", queue, out, messages=[[f"v{number}", channel, delay]])
        self.sent[queue] += known

    def receive(
        self,
        number: int,
        attempt: int,
        channel: str,
        queue: str = FREE,
        *,
        value="",
        seconds=0.001,
        lease: int = 0,
    ) -> None:
        granted = round(self.now * 1000)
        got = [value or f"v{number}", number, attempt, channel, granted + 800, 800, 100_000, lease]
        self.call("receive", queue, [got], seconds)

    def ack(
        self, number: int, attempt: int, queue: str = FREE, *, out: str | None = "Acked", lease=0
    ):
        self.call("ack", queue, out, id=number, attempt=attempt, lease=lease)
        self.done[queue] += out == "Acked"

    def crash(self) -> None:
        self.calls += 1
        common = {"t": self.now, "who": "x", "n": self.calls, "op": "ack"}
        self.events.append({"e": "inv", "q": FREE, "id": 1, "attempt": 1, "lease": 0, **common})
        self.events.append({"e": "crash", "error": "KeyError()", **common})

    def later(self, seconds: float) -> None:
        self.now += seconds

    def count(self, queue: str) -> None:
        """The queue's counters say that one more was sent."""
        self.sent[queue] += 1

    def kill(self) -> None:
        self.events.append({"t": self.now, "e": "void", "gone": self.now + 0.001})
        self.now += 0.002

    def check(self, *, left: Any = (), drained: bool = True, **options: Any) -> Report:
        stats = {
            queue: SimpleNamespace(
                scheduled=0,
                ready=sent - self.done[queue],
                leased=0,
                sent=sent,
                done=self.done[queue],
                dead=0,
                cancelled=0,
                expired=0,
            )
            for queue, sent in self.sent.items()
        }
        kept = {FREE: list(left), FIFO: []}
        how = {"limits": LIMITS, "rates": RATES, "drained": drained, **options}
        how |= {"queue_limits": {FREE: 2}, "queue_rates": {FREE: Rate(10, 1, 3)}}
        return check(self.events, kept, stats, **how)


def there(number: int) -> Any:
    import zlib

    value = f"v{number}"
    return SimpleNamespace(id=number, payload=f"{value} {zlib.crc32(value.encode())}".encode())


@pytest.fixture
def tale() -> Tale:
    return Tale()


def good(tale: Tale) -> None:
    for number in (1, 2, 3):
        tale.send(number, "k", FIFO)
    for number in (4, 5):
        tale.send(number, "one")
    for number in (1, 2, 3):
        tale.receive(number, 1, "k", FIFO)
        tale.ack(number, 1, FIFO)
    tale.receive(4, 1, "one")
    tale.now += 1  # its lease runs out
    tale.receive(4, 2, "one")
    tale.ack(4, 1, out="LeaseLost")
    tale.ack(4, 2)
    tale.receive(5, 1, "one")
    tale.ack(5, 1)


def test_a_good_history_is_valid(tale):
    good(tale)
    report = tale.check(at_least={"stale receipts": 1, "deliveries": 6, "slots full": 3})
    assert report.verdict == "valid", str(report)
    assert report.numbers["redeliveries"] == 1


def test_too_few_opportunities_are_unknown(tale):
    good(tale)
    report = tale.check(at_least={"stale receipts": 2})
    assert report.verdict == "unknown"
    assert "stale receipts" in str(report)


def test_undrained_is_unknown(tale):
    good(tale)
    assert tale.check(drained=False).verdict == "unknown"


def test_what_is_unknown_is_no_violation(tale):
    good(tale)
    tale.send(6, "open", known=False)
    tale.send(7, "open")
    tale.sent[FREE] -= 1
    tale.receive(7, 1, "open")
    tale.ack(7, 1, out=None)
    tale.sent[FREE] += 1
    assert tale.check().verdict == "valid", str(tale.check())


def test_a_send_repeated_with_its_key_is_one_message(tale):
    good(tale)
    tale.send(6, "open")
    tale.call("send", FREE, [6], messages=[["v6", "open", 0]], again=True)
    tale.receive(6, 1, "open")
    tale.ack(6, 1)
    report = tale.check(at_least={"repeated": 1})
    assert report.verdict == "valid", str(report)


send, receive, ack, call, later, crash, count = (
    partial(methodcaller, name)
    for name in ("send", "receive", "ack", "call", "later", "crash", "count")
)
FAULTS: dict[str, list[Callable[[Tale], None]]] = {
    "P1 lost": [send(6, "open")],
    "P1 done twice": [send(6, "open"), receive(6, 1, "open"), ack(6, 1), ack(6, 1)],
    "P2 invented": [receive(9, 1, "open")],
    "P2 damaged": [send(6, "open"), receive(6, 1, "open", value="other"), ack(6, 1)],
    "P3 in part": [
        call("send", FREE, None, messages=[["v6", "open", 0], ["v7", "open", 0]]),
        *(receive(6, 1, "open"), ack(6, 1)),
    ],
    "P4 twice": [
        send(6, "open"),
        *(call("send", FREE, [8], messages=[["v6", "open", 0]], again=True), count(FREE)),
        *(receive(6, 1, "open"), ack(6, 1)),
        *(receive(8, 1, "open", value="v6"), ack(8, 1)),
    ],
    "P5 two leases": [*(send(6, "open"), receive(6, 1, "open"), receive(6, 2, "open"), ack(6, 2))],
    "P5 a receipt twice": [
        *(send(6, "open"), receive(6, 1, "open"), later(1), receive(6, 1, "open"), ack(6, 1))
    ],
    "P6 no fence": [
        *(send(6, "open"), receive(6, 1, "open"), later(1), receive(6, 2, "open"), ack(6, 1))
    ],
    "P7 after its end": [
        *(send(6, "open"), receive(6, 1, "open"), ack(6, 1), receive(6, 2, "open"))
    ],
    "P8 early": [send(6, "open", delay=10**6), receive(6, 1, "open"), ack(6, 1)],
    "P9 two at a time": [
        *(send(6, "k", FIFO), send(7, "k", FIFO)),
        *(receive(6, 1, "k", FIFO), receive(7, 1, "k", FIFO)),
        *(ack(6, 1, FIFO), ack(7, 1, FIFO)),
    ],
    "P9 out of order": [
        *(send(6, "k", FIFO), send(7, "k", FIFO)),
        *(receive(7, 1, "k", FIFO), ack(7, 1, FIFO)),
        *(receive(6, 1, "k", FIFO), ack(6, 1, FIFO)),
    ],
    "P10 too many": [
        *(send(6, "one"), send(7, "one")),
        *(receive(6, 1, "one"), receive(7, 1, "one")),
        *(ack(6, 1), ack(7, 1)),
    ],
    "P10 too many in a queue": [
        *(send(6, "a"), send(7, "b"), send(8, "c")),
        *(receive(6, 1, "a"), receive(7, 1, "b"), receive(8, 1, "c")),
        *(ack(6, 1), ack(7, 1), ack(8, 1)),
    ],
    "P11 too fast for a queue": [
        *(send(6, "a"), send(7, "b"), receive(6, 1, "a"), ack(6, 1)),
        *(receive(7, 1, "b"), ack(7, 1)),
    ],
    "P11 too fast": [
        *(send(6, "slow"), send(7, "slow")),
        *(receive(6, 1, "slow"), ack(6, 1), receive(7, 1, "slow"), ack(7, 1)),
    ],
    "P13 stuck": [send(6, "open"), receive(6, 1, "open", seconds=30), ack(6, 1)],
    "P15 miscounted": [count(FREE)],
    "P17 crashed": [crash()],
}
"""What happens after a good history, by the promise that it breaks."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(tale, fault):
    good(tale)
    for step in FAULTS[fault]:
        step(tale)
    report = tale.check()
    assert report.verdict == "invalid"
    promise = fault.partition(" ")[0]
    assert any(v.startswith(f"{promise}:") for v in report.violations), str(report)


def test_ended_and_still_there_is_found(tale):
    good(tale)
    report = tale.check(left=[there(4)])
    assert any(v.startswith("P7:") for v in report.violations), str(report)


def test_a_payload_that_was_harmed_has_no_value():
    assert value_of(there(1).payload.decode()) == "v1"
    assert value_of("v1 123") is None
    assert value_of("") is None


def test_a_kill_voids_leases_and_the_same_attempt_comes_back_under_another_number(tale):
    tale.send(1, "a")
    tale.receive(1, 1, "a", lease=7)
    tale.kill()
    tale.receive(1, 1, "a", lease=9)
    tale.ack(1, 1, lease=7, out="LeaseLost")
    tale.ack(1, 1, lease=9)
    assert tale.check().verdict == "valid"


def test_a_receipt_of_before_a_kill_that_is_honoured(tale):
    tale.send(1, "a")
    tale.receive(1, 1, "a", lease=7)
    tale.kill()
    tale.receive(1, 1, "a", lease=9)
    tale.ack(1, 1, lease=7)
    assert {v[:2] for v in tale.check().violations} >= {"P6"}


def test_the_same_receipt_after_a_kill(tale):
    tale.send(1, "a")
    tale.receive(1, 1, "a", lease=7)
    tale.kill()
    tale.receive(1, 1, "a", lease=7)
    tale.ack(1, 1, lease=7)
    assert {v[:2] for v in tale.check().violations} == {"P5"}
