"""Steps that many tests take, and what always holds after them."""

from typing import Any

from tests.support.doors import beside
from turnabout import Acked, QueueStats, Sent
from turnabout.words import verbs as v
from turnabout.words.records import Ending, HistoryEntry


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


def taken(queue: Any, payload: Any, *, lease_seconds: float | None = None, **options: Any) -> Any:
    """Send a message, and receive it: there is no other."""
    sent(queue, payload, **options)
    return one(queue, **({} if lease_seconds is None else {"lease_seconds": lease_seconds}))


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
    ended = (stats.done, stats.dead, stats.cancelled, stats.expired)
    parts = (stats.scheduled, stats.ready, stats.leased, *ended)
    assert min(parts) >= 0
    assert stats.sent == sum(parts), stats
    unfinished = stats.scheduled + stats.ready + stats.leased
    assert min(unfinished, 1000) == len(queue.peek(1000))
    return stats


def is_empty(queue: Any) -> bool:
    """Whether a receive hands out nothing now."""
    return not queue.receive(10)


def run(queue: Any, verb: v.Verb[Any]) -> Any:
    """Hand a verb to the store under that queue."""
    return queue._store.run(verb)


def do(queue: Any, verb: Any, *args: Any, **fields: Any) -> Any:
    """Hand a verb about that queue to the store under it."""
    return run(queue, verb(queue.name, *args, **fields))


def grave_of(queue: Any) -> Any:
    """The queue's dead-letter queue, where it has the usual name."""
    return beside(queue, f"{queue.name}-dead")


def maintained(queue: Any, times: int = 1) -> None:
    """Housekeeping, as each process does it about once a second."""
    for _ in range(times):
        do(queue, v.Maintain)


def acked(queue: Any, message: Any, value: Any = None) -> None:
    """Ack that message, with a result."""
    assert queue.ack([message.receipt], results=[value]) == (Acked(),)


def ending(queue: Any, number: int) -> Ending | None:
    """How that message of the queue ended."""
    (answer,) = queue.endings([number])
    return answer


def finished(queue: Any, **asked: Any) -> list[HistoryEntry]:
    """The queue's history, or what is asked of it, page by page; the newest first."""
    entries: list[HistoryEntry] = []
    page = queue.history(**{"limit": 1000, **asked})
    while True:
        entries += page.entries
        if page.cursor is None:
            return entries
        page = queue.history(**{"limit": 1000, **asked, "cursor": page.cursor})
