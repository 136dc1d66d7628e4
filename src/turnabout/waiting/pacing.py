"""Per-process polling state: when to look again, and each receiver's place in the round robin.

Waiting (`Patience`): soon at first, then less and less often. Hints tell when a look may pay, but
some are lost, and a busy queue gives them without end. So a look comes after a hint or at the
latest after a pause that grows, and never sooner after the last one than a share of the time waited
so far. Schedules (`Watch`): once a second where there are any, else rarely. The round robin and
maintenance (`Rounds`). All but `Patience` is safe to share between threads.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict, deque

from turnabout.words.entities import FIRST_TURN, Shard, Turn
from turnabout.words.errors import TurnaboutError

MAINTAIN_SECONDS = 1.0
HINT_SECONDS_MIN, HINT_SECONDS_MAX = 0.1, 5.0
REST_SECONDS_MIN, REST_SECONDS_MAX = 0.005, 1.0
REST_SHARE = 0.1
"""Pause before the next look, as a share of the time waited so far."""
LOOK_SECONDS = 1.0
LOOK_SECONDS_IDLE = 10.0
"""Time between looks where there was no schedule: a new one is noticed this late."""
TURNS_MAX = 10_000
"""Queues and shards whose places in the round robin, or whose upkeep, are remembered."""
FAILURES_TOLD = 10
"""Retryable failures of maintenance in a row before one is logged."""
AGAIN_SECONDS = 60.0
"""Pause after a refusal, and between complaints about the same matter."""


class Patience:
    """A waiter, for `seconds` or (None) for ever. `now` is given, in seconds."""

    def __init__(
        self, now: float, seconds: float | None, *, hint_seconds_max: float = HINT_SECONDS_MAX
    ) -> None:
        self._began = now
        self._ends = None if seconds is None else now + seconds
        self._looked = now
        self._hint_seconds_max = hint_seconds_max

    def is_over(self, now: float) -> bool:
        """Whether the time is up."""
        return self._ends is not None and now >= self._ends

    def looked(self, now: float) -> None:
        """A look begins."""
        self._looked = now

    def start_again(self, now: float) -> None:
        """A message arrived: reset the back-off."""
        if self._ends is not None:
            self._ends += now - self._began
        self._began = now

    def for_hint(self, now: float) -> float:
        """Seconds to wait for a hint; then look without one."""
        waited = now - self._began
        return self._at_most(min(max(waited, HINT_SECONDS_MIN), self._hint_seconds_max), now)

    def before_look(self, now: float) -> float:
        """Seconds to rest before the next look, hint or not."""
        share = (now - self._began) * REST_SHARE
        rest = min(max(share, REST_SECONDS_MIN), REST_SECONDS_MAX)
        return self._at_most(self._looked + rest - now, now)

    def _at_most(self, seconds: float, now: float) -> float:
        left = seconds if self._ends is None else min(seconds, self._ends - now)
        return max(left, 0.0)


class Watch:
    """One for all receivers of a connection: the one that comes at the right moment looks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._look_at = time.monotonic() + LOOK_SECONDS
        self._complain_at = 0.0
        self.is_idle = True
        """No schedule was there at the last look."""

    def must_look(self) -> bool:
        """True once in a while: this caller should look for schedules that are due now."""
        now = time.monotonic()
        if now < self._look_at:
            return False
        with self._lock:
            if now < self._look_at:
                return False
            self._look_at = now + LOOK_SECONDS
            return True

    def until_look(self) -> float:
        """Seconds until somebody should look; a receiver that waits comes back then."""
        return max(self._look_at - time.monotonic(), 0.01)

    def found(self, *, any_there: bool, more_due: bool = False) -> None:
        """Note what the look has shown; `more_due`: there was more to fire than fits in one go."""
        with self._lock:
            self.is_idle = not any_there
            if self.is_idle:
                self._look_at = time.monotonic() + LOOK_SECONDS_IDLE
            elif more_due:
                self._look_at = time.monotonic()

    def stop_for_a_while(self) -> None:
        """Looking is forbidden here: ask again after a while."""
        with self._lock:
            self._look_at = time.monotonic() + AGAIN_SECONDS

    def stop(self) -> None:
        """Nobody here looks: the store does it by itself."""
        self._look_at = math.inf

    def must_complain(self) -> bool:
        """True at most once a minute: what could not be fired may be logged."""
        now = time.monotonic()
        with self._lock:
            if now < self._complain_at:
                return False
            self._complain_at = now + AGAIN_SECONDS
            return True


class Rounds:
    """The turns of all receivers in this process, and when each queue was last maintained.

    A call takes a turn and puts its successor back, so concurrent receivers stand at different
    places and do not run into each other.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: OrderedDict[tuple[str, Shard | None], deque[Turn]] = OrderedDict()
        self._maintained: dict[str, float] = {}
        self._maintains = True
        self.failing: dict[str, int] = {}
        """Queues whose maintenance fails, and how often in a row."""

    def take(self, queue: str, shard: Shard | None = None) -> Turn:
        """A place in the round robin; nobody else has it until it is put back."""
        with self._lock:
            turns = self._turns.get((queue, shard))
            return turns.popleft() if turns else FIRST_TURN

    def put(self, queue: str, turn: Turn, shard: Shard | None = None) -> None:
        """The place to go on from."""
        place = queue, shard
        with self._lock:
            turns = self._turns.get(place)
            if turns is None:
                turns = self._turns[place] = deque(maxlen=64)
                if len(self._turns) > TURNS_MAX:
                    self._turns.popitem(last=False)
            turns.append(turn)
            self._turns.move_to_end(place)

    def must_maintain(self, queue: str, seconds: float = MAINTAIN_SECONDS) -> bool:
        """True once in this time: this caller should maintain the queue now."""
        if not self._maintains:
            return False
        now = time.monotonic()
        if now - self._maintained.get(queue, -math.inf) < seconds:
            return False
        with self._lock:
            if now - self._maintained.setdefault(queue, now) < seconds:
                if len(self._maintained) > TURNS_MAX:
                    del self._maintained[next(iter(self._maintained))]
                return False
            self._maintained[queue] = now
            return True

    def may_not_maintain(self, queue: str) -> None:
        """Maintenance is forbidden here: ask again after a while."""
        with self._lock:
            self._maintained[queue] = time.monotonic() + AGAIN_SECONDS

    def was_maintained(self, queue: str, error: TurnaboutError | None = None) -> None:
        """Note how it went. What fails is told once; what may be over soon, when it lasts."""
        if error is None:
            self.failing.pop(queue, None)
            return
        self.failing[queue] = times = self.failing.get(queue, 0) + 1
        if times == (FAILURES_TOLD if error.retryable else 1):
            import logging

            log = logging.getLogger("turnabout.maintenance")
            log.warning("the queue %s cannot be maintained, so its old rows stay: %s", queue, error)

    def stop_maintaining(self) -> None:
        """The store does it by itself."""
        self._maintains = False
