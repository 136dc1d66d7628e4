"""Steps that many tests take, and what always holds after them."""

from typing import Any

from penstock import Acked, QueueStats, Sent


def sent(queue: Any, *payloads: Any, **options: Any) -> list[int]:
    """Send each payload by itself; the ids."""
    outcomes = [queue.send(payload, **options) for payload in payloads]
    assert all(isinstance(outcome, Sent) for outcome in outcomes)
    return [outcome.id for outcome in outcomes]


def texts(batch: Any) -> list[str]:
    """The payloads of a batch as text, in its order."""
    return [message.text() for message in batch]


def one(queue: Any, **options: Any) -> Any:
    """Receive the one message that there is to receive."""
    (message,) = queue.receive(10, **options)
    return message


def one_by_one(queue: Any, most: int = 1000, *, ack: bool = True) -> list[Any]:
    """Receive and ack one message at a time until there is none; all of them."""
    got = []
    while len(got) < most and (batch := queue.receive(1)):
        (message,) = batch
        got.append(message)
        if ack:
            assert message.ack() == Acked()
    return got


def counts(queue: Any) -> QueueStats:
    """The queue's stats, which add up (P15)."""
    stats = queue.stats()
    parts = (stats.scheduled, stats.ready, stats.leased, stats.done, stats.dead, stats.cancelled)
    assert min(parts) >= 0
    assert stats.sent == sum(parts), stats
    assert stats.scheduled + stats.ready + stats.leased == len(queue.peek(1000))
    return stats


def is_empty(queue: Any) -> bool:
    """Whether a receive hands out nothing now."""
    return not queue.receive(10)
