"""Messages named without proof of a lease: each request acts on the message's current lease.

These systems have no receipts: any client may finish any message by its id. A request is taken to
mean the current lease, and is ignored if there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from turnabout.server.auth.authorized_store import AuthorizedStore
from turnabout.words.entities import Delivery, Receipt
from turnabout.words.limits import ID_MAX, INTEGER_MAX
from turnabout.words.outcomes import LeaseLost
from turnabout.words.verbs import Peek, Verb

A = TypeVar("A")

KNOWN_MAX = 10_000
ROUNDS = 3
_NO_ATTEMPT = INTEGER_MAX
"""An attempt number that no delivery has: probes a message's state without changing it."""


class Unfenced:
    """Finds the current lease of a message by its id; ID_MAX stands for any lease's number.

    Messages that this process delivered recently take one round trip. For others, the answer
    LeaseLost shows that there is a lease, and a look finds it; again, if it is over by then.
    """

    def __init__(self) -> None:
        self._attempts: dict[int, int] = {}

    def saw(self, deliveries: Iterable[Delivery]) -> None:
        """Remember the attempts of messages that were just delivered."""
        for delivery in deliveries:
            self._attempts.pop(delivery.id, None)  # to the end of the line
            self._attempts[delivery.id] = delivery.attempt
        while len(self._attempts) > KNOWN_MAX:
            del self._attempts[next(iter(self._attempts))]

    async def settle(
        self,
        caller: AuthorizedStore,
        queue: str,
        ids: Sequence[int],
        verb: Callable[[tuple[Receipt, ...]], Verb[tuple[A, ...]]],
    ) -> list[A | LeaseLost]:
        """The outcome for each of `ids`, in order. Raises: QueueNotFound, and as its `run`."""
        outcomes: dict[int, A | LeaseLost] = dict.fromkeys(ids, LeaseLost("gone"))
        receipts = [
            Receipt(id_, self._attempts.get(id_, _NO_ATTEMPT), ID_MAX)
            for id_ in outcomes
            if 1 <= id_ <= ID_MAX
        ]
        for _ in range(ROUNDS):
            if not receipts:
                break
            answers = await caller.run(verb(tuple(receipts)))
            again: list[int] = []
            for receipt, answer in zip(receipts, answers, strict=True):
                outcomes[receipt.id] = answer
                if isinstance(answer, LeaseLost) and answer.now == "leased":
                    again.append(receipt.id)
            receipts = [r for id_ in again if (r := await self._look(caller, queue, id_))]
        return [outcomes[id_] for id_ in ids]

    async def _look(self, caller: AuthorizedStore, queue: str, id_: int) -> Receipt | None:
        # The verb has been let through for this queue, so a look gives nothing away.
        verb = Peek(queue, 1, after_id=id_ - 1)
        for found in await caller.insider().run(verb):
            if found.id == id_ and found.state == "leased":
                return Receipt(id_, found.attempt, ID_MAX)
        return None


def fence(outcomes: Sequence[object]) -> str:
    """The header's value: `none`, `no-lease`, or both where some had a lease and some had none."""
    lost = sum(isinstance(outcome, LeaseLost) for outcome in outcomes)
    values = ["none"] if lost < len(outcomes) or not outcomes else []
    return ", ".join(values + ["no-lease"] * bool(lost))
