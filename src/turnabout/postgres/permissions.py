"""Which functions each kind of permission is for.

A role with a permission may call these functions, which act with the rights of the schema's owner;
of the tables it may read the ledger only. `operate` is everything, tokens, namespaces, pipelines
and their views included: a server connects as such a role.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from turnabout.postgres.calls import CALLS
from turnabout.words import verbs as v
from turnabout.words.credentials import ADMINISTRATION, KINDS
from turnabout.words.pipeline import PIPELINE

_WITHOUT_TABLES = frozenset({"clock_ms"})
"""These need no rights of their owner, and are inlined where they are called."""

_CALLED = re.compile(r"\bturnabout\w*\.(\w+)\(")


@cache
def functions_of_kinds() -> Mapping[str, list[str]]:
    """For each kind the names of its functions, sorted."""
    verbs = {**KINDS, "operate": (*KINDS["operate"], *ADMINISTRATION, *PIPELINE)}
    return {kind: sorted(_names(some)) for kind, some in verbs.items()}


def verbs_functions() -> list[str]:
    """The functions that act with the rights of their owner."""
    return [name for name in functions_of_kinds()["operate"] if name not in _WITHOUT_TABLES]


def kinds_as_json() -> str:
    """The same, as the ledger keeps it."""
    return json.dumps(functions_of_kinds(), sort_keys=True)


def _names(verbs: tuple[type[v.Verb[Any]], ...]) -> set[str]:
    calls = [CALLS[verb] for verb in verbs]
    texts = [text for call in calls for text in (call.text, (call.nowait or b"").decode())]
    return {name for text in texts for name in _CALLED.findall(text)}
