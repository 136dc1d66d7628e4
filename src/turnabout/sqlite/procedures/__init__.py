"""What each verb does: one procedure per verb, `(connection, verb, now_ms) -> outcome`.

A procedure runs inside a transaction that its caller opened, on a connection that nobody else
uses. It decides; every statement is in `sql/`. A procedure is called as its verb is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from turnabout.sqlite._connection import Connection
from turnabout.sqlite.procedures import (
    credentials,
    endings,
    events,
    look,
    maintenance,
    messages,
    pipeline_epochs,
    pipeline_log,
    pipeline_sink,
    policies,
    queues,
    receive,
    redrives,
    schedules,
    send,
    settle,
)
from turnabout.words.credentials import ADMINISTRATION
from turnabout.words.pipeline import PIPELINE
from turnabout.words.verbs import VOCABULARY, Verb

Procedure = Callable[[Connection, Any, int], Any]

_BY_NAME: Mapping[str, Procedure] = {
    name: made
    for module in (
        *(credentials, endings, events, look, messages, policies, queues, receive, redrives),
        *(pipeline_epochs, pipeline_log, pipeline_sink, schedules, send, settle, maintenance),
    )
    for name, made in vars(module).items()
    if getattr(made, "__module__", None) == module.__name__
}

PROCEDURES: Mapping[type[Verb[Any]], Procedure] = {
    kind: _BY_NAME[kind.name] for kind in (*VOCABULARY, *ADMINISTRATION, *PIPELINE)
}
