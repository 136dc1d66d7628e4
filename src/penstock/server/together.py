"""Concurrent verbs of many clients, carried out together."""

from __future__ import annotations

from penstock.store import AsyncStore


def together(store: AsyncStore) -> AsyncStore:
    """A store in front of `store` that merges what is asked for at the same time."""
    return store
