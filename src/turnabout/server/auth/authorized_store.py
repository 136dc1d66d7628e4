"""The store of one caller: it sees one namespace, checks the token's rights, and counts.

Every API runs its verbs here, so none of them can forget a name, a scope or a quota. The order:
rights, quotas, names put in, the store, names taken out, lists cut to the rights.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, TypeVar, cast

from turnabout.server.auth.authenticator import Authenticator
from turnabout.server.auth.parts import part_of
from turnabout.server.auth.rights import Rights
from turnabout.server.batching.long_poll import LongPoll
from turnabout.server.lifecycle import Lifecycle
from turnabout.server.tenants.admission import Admission
from turnabout.server.tenants.namespaces import ANSWERS_NAME, inside, outside, outside_error
from turnabout.server.tenants.quotas import BOUNDED, bounded_in
from turnabout.server.verbs import Token
from turnabout.store import AsyncStore
from turnabout.words import verbs as v
from turnabout.words.errors import TurnaboutError, UsageError
from turnabout.words.namespaces import stored
from turnabout.words.outcomes import NotDue, Received, must_hold
from turnabout.words.records import Redrive
from turnabout.words.value import replace
from turnabout.words.verb import Change
from turnabout.words.verbs import Receive, Verb

A = TypeVar("A")


@dataclass(slots=True)
class Services:
    """The stores that callers' verbs run on."""

    store: AsyncStore
    """The store behind all callers, without batching."""
    batched: AsyncStore
    """The same with concurrent verbs merged."""
    long_poll: LongPoll
    authenticator: Authenticator
    lifecycle: Lifecycle
    admission: Admission


class AuthorizedStore(AsyncStore):
    """An `AsyncStore` for one request's credential.

    Not an `AsyncForwardingStore`: a method missing here must not bypass the rights.
    """

    __slots__ = ("rights", "services")

    def __init__(self, services: Services, rights: Rights) -> None:
        self.services = services
        self.rights = rights

    def insider(self) -> AuthorizedStore:
        """The same namespace with all rights, for looks that a verb needs which was allowed."""
        return AuthorizedStore(self.services, Rights(self.namespace))

    @property
    def namespace(self) -> str:
        """The namespace of all names."""
        return self.rights.namespace

    @property
    def token(self) -> Token | None:
        """The caller's token; None: no token was needed."""
        return self.rights.token

    async def run(self, verb: Verb[A]) -> A:
        """Run a verb in the caller's namespace. A long list is answered in part.

        Raises: Forbidden, QuotaExceeded, and like `AsyncStore`.
        """
        return (await self._run(verb))[0]

    async def part(self, verb: Verb[A]) -> tuple[A, Any]:
        """A part of a list, and where it goes on; None: that was the end."""
        while True:
            items, place = await self._run(verb)
            if items or place is None or verb.pages is None:
                return items, place
            # The caller may see nothing of that part.
            verb = verb.pages.rest(verb, (), place)

    async def whole(self, verb: Verb[A]) -> A:
        """The whole of a list, for APIs whose lists have no parts."""
        all_items: Any
        all_items, place = await self.part(verb)
        pages = verb.pages
        while pages is not None and place is not None:
            items, place = await self.part(pages.rest(verb, all_items, place))
            all_items += items
        return all_items

    async def _run(self, verb: Verb[A]) -> tuple[A, Any]:
        rights = self.rights
        await self.services.authenticator.check(rights)
        kind = cast("type[Verb[Any]]", type(verb))
        if rights.scopes is not None:
            refused = await self._judge(verb)
            if refused is not None:
                return refused[0], None
        try:
            namespaced: Verb[Any] = part_of(self._inside(verb))
            if rights.scopes is not None and verb.lists:
                namespaced = rights.widened(namespaced)
            usage = None
            if kind in BOUNDED:
                usage = self.services.authenticator.quotas.usage(rights.namespace)
            if usage is None:
                answer = await self._in_turn(namespaced)
            else:
                async with usage.room((namespaced,)) as outcomes:
                    answer = await self._in_turn(namespaced)
                    outcomes.append(answer)
        except TurnaboutError as error:
            raise outside_error(error, rights.namespace) from error.__cause__
        self._saw(answer)
        if kind in ANSWERS_NAME:
            answer = outside(answer, rights.namespace)
        if kind.pages is None:
            return self._shown(verb, answer), None
        shown = self._shown(verb, answer)
        if isinstance(verb, v.ScheduleList) and verb.due:
            return shown, None  # it is not by name: what is fired makes room for the rest
        place = kind.pages.place(namespaced, answer)
        if place is not None and shown and kind.lists:  # of what is not shown no name is told
            place = kind.pages.of(shown[-1])
        return shown, place

    async def run_transaction(
        self, verbs: Sequence[Verb[Any]], *, all_or_none: bool = False
    ) -> list[Any]:
        """Like `AsyncStore.run_transaction`, with rights checked for each verb."""
        rights = self.rights
        await self.services.authenticator.check(rights)
        answers: dict[int, Any] = {}
        for place, verb in enumerate(verbs):
            refused = None if rights.scopes is None else await self._judge(verb)
            if refused is not None:
                answers[place] = refused[0]
                if all_or_none:
                    must_hold([*range(place), refused[0]])
        rest = [place for place in range(len(verbs)) if place not in answers]
        try:
            permitted = [
                rights.widened(part_of(self._inside(verbs[place]), len(rest))) for place in rest
            ]
            done = await self._transaction(permitted, all_or_none=all_or_none) if permitted else []
        except TurnaboutError as error:
            raise outside_error(error, rights.namespace) from error.__cause__
        for place, answer in zip(rest, done, strict=True):
            self._saw(answer)
            verb = verbs[place]
            answers[place] = self._shown(verb, outside(answer, rights.namespace))
        return [answers[place] for place in range(len(verbs))]

    async def receive(
        self, verb: Receive, wait_seconds: float, gone: Callable[[], Awaitable[bool]]
    ) -> Received:
        """A receive that waits; messages that arrive after the client has `gone` are released."""
        rights = self.rights
        if rights.scopes is not None:
            rights.need(Receive, verb.queue)
        try:
            namespaced = inside(verb, rights.namespace)
            most = self.services.authenticator.quotas.max_polls(self.namespace)
            received = await self.services.long_poll.receive(namespaced, wait_seconds, gone, most)
        except TurnaboutError as error:
            raise outside_error(error, rights.namespace) from error.__cause__
        try:
            await self.services.authenticator.check(
                rights
            )  # it may have been revoked while this waited
        except BaseException:
            self.services.long_poll.give_back(namespaced.queue, received.deliveries)
            raise
        return outside(received, rights.namespace)

    def waiter(self) -> AbstractAsyncContextManager[None]:
        """A block in which a request of this caller waits. Raises: like `Admission.waiter`."""
        services = self.services
        most = services.authenticator.quotas.max_polls(self.namespace)
        return services.admission.waiter(self.namespace, most)

    async def signal(self, queue: str, change: Change = Change.ANY) -> int:
        """Like `AsyncStore.signal`. Raises: Forbidden without any right at that queue."""
        return await self.services.store.signal(self._known(queue), change)

    async def wait(
        self, queue: str, seen: int, seconds: float, change: Change = Change.ANY
    ) -> None:
        """Like `AsyncStore.wait`; ends when the server closes."""
        name = self._known(queue)
        async with self.services.lifecycle.ends_with_it():
            await self.services.store.wait(name, seen, seconds, change)

    def within(self, connection: object) -> NoReturn:
        """Refused: a transaction is the database's, not the server's."""
        raise UsageError("a server has no transactions of yours: connect to the database itself")

    async def close(self) -> None:
        """Do nothing: the store belongs to the server."""

    # --- rights -----------------------------------------------------------------------------------

    async def _judge(self, verb: Verb[Any]) -> tuple[Any] | None:
        """The answer to give instead of running the verb, as a tuple; None: run it. Rights to a
        schedule are rights to the queue that it sends to. Raises: Forbidden.
        """
        rights = self.rights
        match verb:
            case v.Maintain(queue):
                may = rights.allows(v.Maintain, queue) or rights.allows(Receive, queue)
                return None if may else (None,)
            case v.ScheduleSet(schedule):
                rights.need(v.ScheduleSet, schedule.queue)
                before = await self._queue_of(schedule.name)
                if before is not None:  # it is taken away from that queue
                    rights.need(v.ScheduleSet, before)
            case v.ScheduleDelete(name) if not rights.allows(v.ScheduleDelete, None):
                queue = await self._queue_of(name) if rights.allows_any(v.ScheduleDelete) else None
                rights.need(v.ScheduleDelete, queue)
            case v.ScheduleFire() if self._is_bounded():
                return (NotDue(),)  # the server fires, and looks whether there is room
            case v.ScheduleFire(name) if not rights.allows(v.ScheduleFire, None):
                queue = await self._queue_of(name) if rights.allows_any(v.ScheduleFire) else None
                if queue is None or not rights.allows(v.ScheduleFire, queue):
                    return (NotDue(),)
            case v.ScheduleList(due=True):
                return None if rights.allows_any(v.ScheduleFire) else ((),)
            case _:
                rights.check(verb)
        return None

    def _is_bounded(self) -> bool:
        return self.services.authenticator.quotas.usage(self.namespace) is not None

    async def _queue_of(self, schedule: str) -> str | None:
        """The queue that a schedule sends to, if there is one of that name."""
        found = await self.insider().run(v.ScheduleList(schedule=schedule))
        return next((one.schedule.queue for one in found), None)

    def _known(self, queue: str) -> str:
        """The stored name of a queue at which the caller has any right."""
        rights = self.rights
        name = stored(queue, rights.namespace)
        if rights.scopes is not None and not rights.knows(queue):
            rights.need(Receive, queue)
        return name

    # --- steps ------------------------------------------------------------------------------------

    def _inside(self, verb: Verb[Any]) -> Verb[Any]:
        """The verb with stored names, and the token's label where a record keeps it."""
        namespaced = inside(verb, self.namespace)
        token = self.token
        if token is not None and isinstance(namespaced, v.RedriveStart):
            namespaced = replace(namespaced, started_by=f"token {token.label or token.id}")
        return namespaced

    async def _in_turn(self, verb: Verb[A]) -> A:
        services = self.services
        run = partial(services.batched.run, verb)
        return await services.admission.turns.run(self.namespace, run, verb)

    async def _all_in_turn(self, verbs: Sequence[Verb[Any]], *, all_or_none: bool) -> list[Any]:
        services = self.services
        run = partial(services.batched.run_transaction, verbs, all_or_none=all_or_none)
        return await services.admission.turns.run(self.namespace, run, *verbs)

    async def _transaction(self, verbs: Sequence[Verb[Any]], *, all_or_none: bool) -> list[Any]:
        quotas = self.services.authenticator.quotas
        if self.token is not None:
            quotas.more(self.namespace, len(verbs) - 1)
        bounded = bounded_in(verbs)
        usage = quotas.usage(self.namespace) if bounded else None
        if usage is None:
            return await self._all_in_turn(verbs, all_or_none=all_or_none)
        async with usage.room(bounded) as outcomes:
            answers = await self._all_in_turn(verbs, all_or_none=all_or_none)
            pairs = zip(verbs, answers, strict=True)
            outcomes.extend(answer for verb, answer in pairs if verb in bounded)
            return answers

    def _saw(self, answer: Any) -> None:
        """A redrive that runs from now on: the server takes it to its end."""
        if isinstance(answer, Redrive):
            self.services.long_poll.maintenance.saw(answer)

    def _shown(self, verb: Verb[Any], answer: Any) -> Any:
        """The items of a list that the caller may see."""
        rights = self.rights
        if rights.scopes is None or not verb.lists:
            return answer
        if isinstance(verb, v.ScheduleList) and verb.due:
            return rights.only(v.ScheduleFire, answer)
        answer = rights.only(type(verb), answer)
        return answer[: verb.limit] if isinstance(verb, v.RedriveList) else answer
