"""For blocking callers. Generated from `_async/history.py` by `tools/unasync.py`: do not edit."""

from __future__ import annotations

from collections.abc import Iterator

from turnabout.store import Store
from turnabout.words.outcomes import Cleared
from turnabout.words.records import HistoryEntry
from turnabout.words.value import replace
from turnabout.words.verbs import Clear, History

PAGE_ROWS = 100
CLEAR_ROWS = 10_000
"""Rows removed per transaction, so that nobody waits long behind it."""


def entries_of(store: Store, verb: History) -> Iterator[HistoryEntry]:
    """Iterate over all entries, from that page on."""
    while True:
        page = store.run(verb)
        for entry in page.entries:
            yield entry
        if page.cursor is None:
            return
        verb = replace(verb, cursor=page.cursor)


def clear_in_parts(store: Store, verb: Clear) -> Cleared:
    """The work of one long `clear`, in many short ones."""
    removed = 0
    while True:
        left = CLEAR_ROWS if verb.limit is None else min(CLEAR_ROWS, verb.limit - removed)
        cleared = store.run(replace(verb, limit=left))
        removed += cleared.messages
        if not cleared.messages or removed == verb.limit:
            return Cleared(removed)
