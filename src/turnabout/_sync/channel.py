"""For blocking callers. Generated from `_async/channel.py` by `tools/unasync.py`: do not edit."""

from __future__ import annotations

from typing import Any

from turnabout.store import Store
from turnabout.words import limits
from turnabout.words.errors import UsageError
from turnabout.words.outcomes import Deleted
from turnabout.words.policy import NO_POLICY, Policy
from turnabout.words.verbs import ChannelDelete, PolicyGet, PolicySet


class Channel:
    """One channel of a queue: its policy, and pause and resume."""

    def __init__(self, store: Store, queue: str, name: str) -> None:
        self._store = store
        self._queue = queue
        self.name = name

    def policy(self) -> Policy:
        """The channel's own policy; the queue's default policy fills the fields it leaves open."""
        return self._store.run(PolicyGet(self._queue, self.name))

    def set_policy(self, policy: Policy) -> Policy:
        """Replace the channel's policy; it holds for every lease granted after this."""
        if not isinstance(policy, Policy):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"a policy is a Policy, not {type(policy).__name__}")
        changes = {name: getattr(policy, name) for name in Policy.__struct_fields__}
        return self._store.run(PolicySet(self._queue, self.name, changes, replace=True))

    def change_policy(self, **changes: Any) -> Policy:
        """Change some fields of the channel's policy; the others stay."""
        NO_POLICY.changed(changes)
        return self._store.run(PolicySet(self._queue, self.name, changes))

    def clear_policy(self) -> None:
        """Remove the channel's policy, all of it: the queue's default holds again."""
        self.set_policy(NO_POLICY)

    def pause(self, *, seconds: float | None = None, reason: str | None = None) -> None:
        """Hand out nothing from this channel until `resume`; sends are still taken.

        seconds: or for so long, by the database's clock; a longer pause that was stays.
        reason:  for people, shown in the channel's policy.
        """
        if seconds is None:
            self.change_policy(paused=True, pause_reason=reason)
        else:
            pause_ms = limits.delay_ms(seconds)
            changes = {"pause_reason": reason}
            verb = PolicySet(self._queue, self.name, changes, pause_ms=pause_ms)
            self._store.run(verb)

    def resume(self) -> None:
        """Hand out the channel's messages again."""
        self.change_policy(paused=False, paused_until=None, pause_reason=None)

    def delete(self) -> Deleted:
        """Cancel the channel's waiting messages and clear its policy; leases run on.

        The next message sent to it makes it anew, without a policy.
        """
        return self._store.run(ChannelDelete(self._queue, self.name))
