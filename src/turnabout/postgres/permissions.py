"""The functions that each kind of permission allows.

A role with a permission may call these functions, which act with the rights of the schema's owner;
of the tables it may read the ledger only. What it says is not trusted: the types of arguments are
domains, which say what each may be (migrations/0001_core.sql). `operate` is everything, tokens and
namespaces and all functions and views of slices included: a server connects as such a role.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from turnabout.postgres.call import SETTLE, Call
from turnabout.postgres.calls import CALLS
from turnabout.postgres.notices import STATEMENTS, WAITING
from turnabout.words import verbs as v
from turnabout.words.administration import ADMINISTRATION
from turnabout.words.verbs import KINDS

MAY_SEND = "may_send"
"""Stored beside the ledger: the types of arguments depend on it."""

_CALLED = re.compile(r"\bturnabout_r\d+\.(\w+)\(")


@cache
def functions_of_kinds() -> Mapping[str, list[str]]:
    """Names of functions by kind, sorted."""
    verbs = {**KINDS, "operate": (*KINDS["operate"], *ADMINISTRATION)}
    return {kind: sorted(_names(some)) for kind, some in verbs.items()}


def functions_of_slice(name: str, calls: Mapping[type[v.Verb[Any]], Call]) -> list[str]:
    """The functions of a slice that its verbs call: they are for `operate`."""
    own = re.compile(rf"\bturnabout_r\d+_{name}_r\d+\.(\w+)\(")
    return sorted({found for call in calls.values() for found in own.findall(call.text)})


def _names(verbs: tuple[type[v.Verb[Any]], ...]) -> set[str]:
    calls = [CALLS[verb] for verb in verbs]
    texts = [text for call in calls for text in (call.text, (call.nowait or b"").decode())]
    texts += [SETTLE.decode() for call in calls if call.settles]
    waiting = WAITING if v.Receive in verbs else ()
    texts += [statement.decode() for statement in (*STATEMENTS, *waiting)]
    return {MAY_SEND} | {name for text in texts for name in _CALLED.findall(text)}
