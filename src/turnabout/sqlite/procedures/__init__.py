"""Verbs on SQLite: one procedure each, `(connection, verb, now_ms) -> outcome`.

A procedure runs inside a transaction that its caller opened, on a connection that nobody else
uses. It decides; every statement is in `sql/`. A procedure is called as its verb is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import ModuleType
from typing import Any

from turnabout import slices
from turnabout.sqlite._connection import Connection
from turnabout.sqlite.procedures import (
    endings,
    events,
    inbox,
    look,
    maintenance,
    messages,
    policies,
    queues,
    receive,
    redrives,
    schedules,
    send,
    settle,
    totals,
    workers,
)
from turnabout.words.administration import ADMINISTRATION
from turnabout.words.verbs import VOCABULARY, Verb

Procedure = Callable[[Connection, Any, int], Any]


def procedures(verbs: Iterable[type[Verb[Any]]], *modules: ModuleType) -> Mapping[Any, Procedure]:
    """The procedure of each verb, which is called as the verb is, from these modules."""
    by_name = {
        name: made
        for module in modules
        for name, made in vars(module).items()
        if getattr(made, "__module__", None) == module.__name__
    }
    return {kind: by_name[kind.name] for kind in verbs}


PROCEDURES: Mapping[type[Verb[Any]], Procedure] = procedures(
    (*VOCABULARY, *ADMINISTRATION, inbox.Drain),
    *(endings, events, inbox, look, messages, policies, queues, receive, redrives),
    *(schedules, send, settle, maintenance, totals, workers),
)


@cache
def procedure_of(kind: type[Verb[Any]]) -> Procedure | None:
    """The procedure of a verb, of the core's or a slice's."""
    return PROCEDURES.get(kind) or slices.merged("sqlite", "PROCEDURES").get(kind)
