"""Places that the tenants of a server share max-min: to wait, and to connect.

A tenant gets a place while one is free. When all are taken, the tenant that holds most gives up its
oldest, unless it is the requester, or would end up with no more than the requester: then the
request is refused. So one tenant alone may use all places, and none can shut others out.
"""

from __future__ import annotations

from collections.abc import Callable

Claim = Callable[[], bool]
"""Asks the holder of a place to leave. False: it cannot leave now."""


class Shares:
    """Places by holder: a namespace, or anything else that gets a share of its own."""

    __slots__ = ("_of", "_refused", "most", "taken")

    def __init__(self, most: int, refused: Callable[[], object] = lambda: None) -> None:
        """`refused`: is told of each that gets no place, or gives its own up."""
        self.most = most
        self.taken = 0
        self._refused = refused
        self._of: dict[str, dict[Claim, None]] = {}

    def take(self, holder: str, claim: Claim, *, may_replace: bool = False) -> bool:
        """A place; False: the holder has its share already, and with `may_replace` none of its
        older claims could be moved.
        """
        if self.taken >= self.most:
            self._refused()
            if not (self._make_room(holder) or (may_replace and self._give_up(holder))):
                return False
        self._of.setdefault(holder, {})[claim] = None
        self.taken += 1
        return True

    def give(self, holder: str, claim: Claim) -> None:
        """Give a place back; does nothing for one that was taken away."""
        places = self._of.get(holder)
        if places is not None and claim in places:
            del places[claim]
            self.taken -= 1
            if not places:
                del self._of[holder]

    def move(self, holder: str, other: str, claim: Claim) -> bool:
        """Move a place to another holder; False: it was given up meanwhile."""
        if claim not in self._of.get(holder, ()):
            return False
        self.give(holder, claim)
        self._of.setdefault(other, {})[claim] = None
        self.taken += 1
        return True

    def held(self, holder: str) -> int:
        """The places of a holder."""
        return len(self._of.get(holder, ()))

    def _make_room(self, holder: str) -> bool:
        """Have the greediest holder give a place up, unless it has hardly more than this one."""
        greediest = max(self._of, key=self.held)
        return self.held(greediest) > self.held(holder) + 1 and self._give_up(greediest)

    def _give_up(self, holder: str) -> bool:
        for claim in self._of.get(holder, ()):
            if claim():
                self.give(holder, claim)
                return True
        return False
