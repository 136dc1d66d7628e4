"""For blocking callers. Generated from `_async/batch.py` by `tools/unasync.py`: do not edit."""

from __future__ import annotations

from turnabout._sync.shared import Shared
from turnabout.words.errors import UsageError
from turnabout.words.plan import BatchPlan


class BatchBlock:
    """`turnabout.batch()`: a `with` block that notes verbs, and runs them at its end.

    All of it in one transaction; nothing at all if the block raises.
    """

    def __init__(self, shared: Shared) -> None:
        self._store = shared.store
        self._plan = BatchPlan(shared.max_payload_bytes)
        self._is_entered = False

    def __enter__(self) -> BatchPlan:
        if self._is_entered:
            raise UsageError("a batch is for one `with` block: make another")
        self._is_entered = True
        return self._plan

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        verbs = self._plan.close()
        if error is None and verbs:
            self._plan.tell(self._store.run_transaction(verbs))
