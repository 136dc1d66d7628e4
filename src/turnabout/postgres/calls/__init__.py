"""Verbs as calls of PostgreSQL functions: for each, the SQL text, its parameters, its answer.

Pure and without colour; both stores use it. Every statement is one `select` of one function, with
every parameter cast, so that any client can run it and the server plans it once.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import cache
from typing import Any

from turnabout import slices
from turnabout.postgres.call import Call, Rows
from turnabout.postgres.calls import (
    history,
    queues,
    receiving,
    redrives,
    schedules,
    sending,
    settling,
    totals,
)
from turnabout.postgres.items import without_duplicates
from turnabout.postgres.notices import Notice
from turnabout.words.errors import UsageError
from turnabout.words.value import replace
from turnabout.words.verbs import Clear, Receive, Verb

CALLS: dict[type[Any], Call] = {
    **sending.CALLS,
    **receiving.CALLS,
    **settling.CALLS,
    **queues.CALLS,
    **history.CALLS,
    **redrives.CALLS,
    **schedules.CALLS,
    **totals.CALLS,
}


@cache
def call_of(kind: type[Verb[Any]]) -> Call:
    """The call of a verb, of the core's or a slice's."""
    call = CALLS.get(kind) or slices.merged("postgres", "CALLS").get(kind)
    if call is None:
        raise UsageError(f"this store does not know the verb {kind.__name__}")
    return call


def exchange_of(verb: Verb[Any]) -> Generator[tuple[Call, Verb[Any]], Rows, Any]:
    """The calls of a verb, one after another: nearly always it is one. Each call's rows are sent
    in; what it returns is the verb's answer.
    """
    done = verb.nothing_to_do()
    if done is not None:
        return done
    parts = without_duplicates(verb)
    if parts is not None and isinstance(verb, Receive):
        acks, rest = verb.apart()
        acked = yield from exchange_of(acks)
        return replace((yield from exchange_of(rest)), acked=acked)
    if parts is not None:
        answers: list[Any] = []
        for one in parts.verbs:
            answers.append((yield from exchange_of(one)))  # noqa: PERF401 - yields
        return parts.merge(answers)
    call = call_of(type(verb))
    if call.in_parts:
        return (yield from _parts(call, verb))
    rows = yield call, verb
    return call.answer(verb, rows)


def _parts(call: Call, verb: Verb[Any]) -> Generator[tuple[Call, Verb[Any]], Rows, Any]:
    """Part after part, until one finds nothing, or as many are gone as were asked for."""
    total = 0
    while True:
        part = verb
        if isinstance(verb, Clear) and verb.limit is not None:
            part = replace(verb, limit=verb.limit - total)
        answer = call.answer(part, (yield call, part))
        total += answer.messages
        if not answer.messages or total == getattr(verb, "limit", None):
            return replace(answer, messages=total)


def notified(call: Call, verb: Any, rows: Rows) -> Sequence[Notice]:
    """The notices for those who wait, after a call."""
    if call.notifies is not None:
        return [Notice(queue) for queue in call.notifies(verb, rows)]
    change = verb.to_notify()
    if not change:
        return ()
    most = None if verb.items is None else len(verb.items.of(verb))
    return (Notice(verb.queue, change, most),)
