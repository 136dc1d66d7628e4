"""The rights of a token: allowed verbs at the queues of its namespace. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnabout.server.verbs import Token
from turnabout.words import verbs as v
from turnabout.words.entities import QueueEntry, QueueStats
from turnabout.words.errors import Forbidden
from turnabout.words.limits import PEEK_MESSAGES_MAX, shown
from turnabout.words.namespaces import NO_NAMESPACE
from turnabout.words.records import Redrive
from turnabout.words.schedules import ScheduleEntry
from turnabout.words.value import replace
from turnabout.words.verbs import Verb

Kind = type[Verb[Any]]

SENDING_ON: frozenset[Kind] = frozenset({v.RedriveStart, v.QueueCreate, v.QueueUpdate})
"""Verbs that may name a queue to which messages go: the token needs the right to send there."""

_REMEMBERED = 1_024
_SHOWN_CHARS = 128


class Rights:
    """The rights of one token, or all rights to a namespace. The authenticator keeps them, so that
    each decision is made once.
    """

    __slots__ = ("_known", "good_until", "namespace", "scopes", "token")

    def __init__(self, namespace: str = NO_NAMESPACE, token: Token | None = None) -> None:
        self.namespace = namespace
        self.token = token
        self.scopes = None if token is None else token.scopes
        """Scopes of the token; None: everything is allowed."""
        self.good_until = float("inf")
        """Time, by the authenticator's clock, until which the token is trusted without a lookup."""
        self._known: dict[tuple[Kind, str | None], bool] = {}

    def allows(self, kind: Kind, queue: str | None) -> bool:
        """Whether that verb may be used at that queue (plain name); None: at all queues."""
        if self.scopes is None:
            return True
        known = self._known.get((kind, queue))
        if known is None:
            known = any(scope.allows(kind, queue) for scope in self.scopes)
            if queue is None or len(queue) <= _SHOWN_CHARS:  # what is kept is bounded
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[kind, queue] = known
        return known

    def allows_any(self, kind: Kind) -> bool:
        """Whether that verb may be used at some queue."""
        if self.scopes is None:
            return True
        return any(scope.allows(kind, scope.queues) for scope in self.scopes)

    def knows(self, queue: str) -> bool:
        """Whether there is any right at that queue: enough to learn that something changed."""
        return any(self.allows(kind, queue) for kind in v.VOCABULARY)

    def need(self, kind: Kind, queue: str | None) -> None:
        """Raises: Forbidden, with the scope that is missing."""
        if not self.allows(kind, queue):
            where = "for all queues" if queue is None else f"for {shown(queue)}"
            raise Forbidden(
                f"the token has no scope that allows {kind.name} {where}: "
                f"it takes one such as {kind.name}:{_fit(queue)}"
            )

    def check(self, verb: Verb[Any]) -> None:
        """All queues that the verb names. Maintenance and schedules have rules in the caller.

        Raises: Forbidden.
        """
        kind = type(verb)
        queue: str | None = getattr(verb, "queue", None)
        if queue is None and kind.lists:
            if not self.allows_any(kind):
                self.need(kind, None)
        elif not self._known.get((kind, queue)):
            self.need(kind, queue)
        if kind in SENDING_ON and (target := _target_of(verb)) is not None:
            self.need(v.Send, target)

    def widened(self, verb: Verb[Any]) -> Verb[Any]:
        """A list of which only a part will be shown, without its own limit."""
        if isinstance(verb, v.RedriveList) and not self.allows(v.RedriveList, None):
            return replace(verb, limit=PEEK_MESSAGES_MAX)
        return verb

    def only(self, kind: Kind, items: Sequence[Any]) -> tuple[Any, ...]:
        """The items of a list that concern queues at which that verb may be used."""
        if self.allows(kind, None):
            return tuple(items)
        return tuple([one for one in items if self.allows(kind, queue_of(one))])


def queue_of(one: QueueStats | QueueEntry | Redrive | ScheduleEntry) -> str:
    """The queue that an item of a list is about."""
    match one:
        case QueueEntry():
            return one.name
        case ScheduleEntry():
            return one.schedule.queue
        case QueueStats() | Redrive():
            return one.queue


def _target_of(verb: Verb[Any]) -> str | None:
    """The other queue that messages go to by the verb."""
    match verb:
        case v.RedriveStart():
            return verb.target
        case v.QueueCreate():
            return verb.settings.dead_letter
        case v.QueueUpdate():
            target = verb.changes.get("dead_letter")
            return target if isinstance(target, str) else None
        case _:
            return None


def _fit(queue: str | None) -> str:
    """A pattern for the text of an error; a name that could be in none becomes a star."""
    return queue if queue is not None and len(queue) <= _SHOWN_CHARS and queue.isascii() else "*"
