"""Messages as the admin shows them, and what it does to them: by Turnabout's verbs alone, so that
it is the same on each store.
"""

from __future__ import annotations

from typing import Any

from turnabout import Turnabout
from turnabout.django.results import dead_letter, dead_letters_of, ended, moment, waiting
from turnabout.words.entities import Peeked
from turnabout.words.errors import QueueNotFound
from turnabout.words.outcomes import Cancelled, CancelRequested, Retried
from turnabout.words.records import OUTCOMES, HistoryEntry

STATES = ("scheduled", "ready", "leased", *OUTCOMES)
PAGE = 100
REDRIVES_MAX = 1000
"""Redrives that a person may make of a message; the usual limit is for programs, which may loop."""


def page(
    mq: Turnabout, queue: str, state: Any, channel: str, cursor: str
) -> tuple[list[dict[str, Any]], str | None]:
    """Some messages, and the cursor for more. No state: all that have not ended."""
    handle, only = mq.queue(queue), channel or None
    if state in OUTCOMES:
        found = handle.history(PAGE, outcome=state, channel=only, cursor=cursor or None)
        return [_row(queue, entry) for entry in found.entries], found.cursor
    after = int(cursor) if cursor.isdecimal() else 0
    some = handle.peek(PAGE, state=state or None, channel=only, after_id=after)
    return [_row(queue, one) for one in some], str(some[-1].id) if len(some) == PAGE else None


def find(mq: Turnabout, queue: str, id_: int) -> dict[str, Any] | None:
    """One message; one that died with its error history."""
    found = waiting(mq, queue, id_) or ended(mq, queue, id_)
    if isinstance(found, HistoryEntry) and found.outcome == "dead":
        letter = dead_letter(mq, queue, id_)
        return _row(queue, found, letter and letter.origin)
    return found and _row(queue, found)


def retry(mq: Turnabout, queue: str, id_: int) -> bool:
    """Have it done again: at once if it waits; if it has died, out of its dead-letter queue."""
    found = waiting(mq, queue, id_)
    if found is not None and (found.origin is None or found.origin.queue == queue):
        (outcome,) = mq.queue(queue).retry([id_])
        return isinstance(outcome, Retried)
    try:
        letters = mq.queue(dead_letters_of(mq, queue) if found is None else queue)
        return letters.redrive(ids=[id_], max_redrives=REDRIVES_MAX).moved == 1
    except QueueNotFound:
        return False


def cancel(mq: Turnabout, queue: str, id_: int) -> bool:
    """End it; a worker that has it is asked to."""
    (outcome,) = mq.queue(queue).cancel([id_])
    return isinstance(outcome, (Cancelled, CancelRequested))


def _row(queue: str, one: Peeked | HistoryEntry, origin: Any = None) -> dict[str, Any]:
    """A message as the templates show it."""
    headers = one.headers or {}
    if isinstance(one, Peeked):
        origin = one.origin
        of_kind = {"state": one.state, "at": moment(one.due_at), "result": None}
    else:
        result = one.result and one.result.data.decode(errors="replace")
        of_kind = {"state": one.outcome, "at": moment(one.finished_at), "result": result}
    error = one.error or (origin and origin.last_error) or ""
    return {
        **of_kind,
        "message": one,
        "id": str(one.id),
        "queue": queue,
        "task": headers.get("task", ""),
        "sent_at": moment(one.sent_at),
        "payload": (one.payload or b"(not kept)").decode(errors="replace"),
        "headers": dict(headers),
        "error": error,
        "last_line": error.strip().rpartition("\n")[2],
        "origin": origin,
        "died_at": origin and moment(origin.died_at),
    }
