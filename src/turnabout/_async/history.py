"""History page by page, and its clearing part by part."""

from __future__ import annotations

from collections.abc import AsyncIterator

from turnabout.store import AsyncStore
from turnabout.words.outcomes import Cleared
from turnabout.words.records import HistoryEntry
from turnabout.words.value import replace
from turnabout.words.verbs import Clear, History

PAGE_ROWS = 100
CLEAR_ROWS = 10_000
"""Rows removed per transaction, so that nobody waits long behind it."""


async def entries_of(store: AsyncStore, verb: History) -> AsyncIterator[HistoryEntry]:
    """Iterate over all entries, from that page on."""
    while True:
        page = await store.run(verb)
        for entry in page.entries:
            yield entry
        if page.cursor is None:
            return
        verb = replace(verb, cursor=page.cursor)


async def clear_in_parts(store: AsyncStore, verb: Clear) -> Cleared:
    """The work of one long `clear`, in many short ones."""
    removed = 0
    while True:
        left = CLEAR_ROWS if verb.limit is None else min(CLEAR_ROWS, verb.limit - removed)
        cleared = await store.run(replace(verb, limit=left))
        removed += cleared.messages
        if not cleared.messages or removed == verb.limit:
            return Cleared(removed)
