"""The state that all handles of one connection share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from turnabout.store import AsyncStore
from turnabout.waiting._async.endings import EndingPoller
from turnabout.waiting._async.receives import ReceiveGroup
from turnabout.waiting.pacing import Rounds, Watch
from turnabout.words import limits
from turnabout.words.entities import Shard

Place = tuple[str, int | None, Shard | None]


@dataclass(slots=True)
class Shared:
    """The store, what `connect` was told, and where this process stands in each round robin."""

    store: AsyncStore
    max_payload_bytes: int = limits.PAYLOAD_BYTES_MAX
    rounds: Rounds = field(default_factory=Rounds)
    watch: Watch = field(default_factory=Watch)
    is_closed: bool = False
    pollers: dict[str, EndingPoller] = field(default_factory=dict[str, EndingPoller])

    waiters: dict[Place, ReceiveGroup] = field(default_factory=dict[Place, ReceiveGroup])
    """Waiting receives, by queue, lease and shard."""
    looking: set[Place] = field(default_factory=set[Place])
    """Places where a receive that may wait is looking; receives that join share the next look."""
    loose_ends: set[Any] = field(default_factory=set[Any])
    """Calls that abandoned loops still make; `close` waits for them."""

    def __post_init__(self) -> None:
        if self.store.maintains_itself:
            self.watch.stop()
            self.rounds.stop_maintaining()

    def poller(self, queue: str) -> EndingPoller:
        """The poller for all who wait on that queue."""
        return self.pollers.setdefault(queue, EndingPoller(self.store, queue))
