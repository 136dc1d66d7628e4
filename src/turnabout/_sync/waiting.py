"""For blocking callers. Generated from `_async/waiting.py` by `tools/unasync.py`: do not edit."""

from __future__ import annotations

import time

from turnabout._sync.receiving import maintain_when_due
from turnabout._sync.shared import Shared
from turnabout.waiting.pacing import Patience
from turnabout.words.errors import Unavailable, Uncertain
from turnabout.words.records import Ending
from turnabout.words.verb import Change


def wait_for(
    shared: Shared, queue: str, ids: tuple[int, ...], timeout_seconds: float
) -> tuple[Ending | None, ...]:
    """The endings of all, or at the timeout of some. An outage of the database is waited out; if
    it lasts until the timeout, its error is raised.
    """
    from time import sleep

    store, poller = shared.store, shared.poller(queue)
    patience = Patience(time.monotonic(), timeout_seconds)
    found: dict[int, Ending] = {}
    with poller.waiting():
        while True:
            is_last = patience.is_over(time.monotonic())
            try:
                # The signal before the look: no ending between the two is slept over.
                maintain_when_due(shared, queue)
                seen = store.signal(queue, Change.ENDED)
                patience.looked(time.monotonic())
                found.update(poller.look(one for one in ids if one not in found))
                if is_last or all(one in found for one in ids):
                    break
                pause = patience.for_hint(time.monotonic())
                store.wait(queue, seen, pause, Change.ENDED)
            except (Unavailable, Uncertain):
                if is_last:
                    raise
                sleep(patience.for_hint(time.monotonic()))
            sleep(patience.before_look(time.monotonic()))
            if shared.is_closed:
                break
    return tuple(map(found.get, ids))
