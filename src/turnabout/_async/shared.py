"""The state that all handles of one connection share."""

from __future__ import annotations

from dataclasses import dataclass, field

from turnabout._async.poller import EndingPoller
from turnabout.pacing import Rounds, Watch
from turnabout.store import AsyncStore
from turnabout.words import limits


@dataclass(slots=True)
class Shared:
    """The store, what `connect` was told, and where this process stands in each round robin."""

    store: AsyncStore
    max_payload_bytes: int = limits.PAYLOAD_BYTES_MAX
    rounds: Rounds = field(default_factory=Rounds)
    watch: Watch = field(default_factory=Watch)
    is_closed: bool = False
    pollers: dict[str, EndingPoller] = field(default_factory=dict[str, EndingPoller])

    def poller(self, queue: str) -> EndingPoller:
        """The poller for all who wait on that queue."""
        return self.pollers.setdefault(queue, EndingPoller(self.store, queue))
