"""`AsyncChannel`: one channel's policy."""

from __future__ import annotations

from typing import Any

from turnabout.store import AsyncStore
from turnabout.words import limits
from turnabout.words.errors import UsageError
from turnabout.words.outcomes import Deleted
from turnabout.words.policy import NO_POLICY, Policy
from turnabout.words.verbs import ChannelDelete, PolicyGet, PolicySet


class AsyncChannel:
    """One channel of a queue: its policy, and pause and resume."""

    def __init__(self, store: AsyncStore, queue: str, name: str) -> None:
        self._store = store
        self._queue = queue
        self.name = name

    async def policy(self) -> Policy:
        """The channel's own policy; the queue's default policy fills the fields it leaves open."""
        return await self._store.run(PolicyGet(self._queue, self.name))

    async def set_policy(self, policy: Policy) -> Policy:
        """Replace the channel's policy; it holds for every lease granted after this."""
        if not isinstance(policy, Policy):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"a policy is a Policy, not {type(policy).__name__}")
        changes = {name: getattr(policy, name) for name in Policy.__struct_fields__}
        return await self._store.run(PolicySet(self._queue, self.name, changes, replace=True))

    async def change_policy(self, **changes: Any) -> Policy:
        """Change some fields of the channel's policy; the others stay."""
        NO_POLICY.changed(changes)
        return await self._store.run(PolicySet(self._queue, self.name, changes))

    async def clear_policy(self) -> None:
        """Remove the channel's policy, all of it: the queue's default holds again."""
        await self.set_policy(NO_POLICY)

    async def pause(self, *, seconds: float | None = None, reason: str | None = None) -> None:
        """Hand out nothing from this channel until `resume`; sends are still taken.

        seconds: or for so long, by the database's clock; a longer pause that was stays.
        reason:  for people, shown in the channel's policy.
        """
        if seconds is None:
            await self.change_policy(paused=True, pause_reason=reason)
        else:
            pause_ms = limits.delay_ms(seconds)
            changes = {"pause_reason": reason}
            verb = PolicySet(self._queue, self.name, changes, pause_ms=pause_ms)
            await self._store.run(verb)

    async def resume(self) -> None:
        """Hand out the channel's messages again."""
        await self.change_policy(paused=False, paused_until=None, pause_reason=None)

    async def delete(self) -> Deleted:
        """Cancel the channel's waiting messages and clear its policy; leases run on.

        The next message sent to it makes it anew, without a policy.
        """
        return await self._store.run(ChannelDelete(self._queue, self.name))
