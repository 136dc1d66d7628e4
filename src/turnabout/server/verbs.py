"""The verbs of namespaces and tokens.

Their words are in `words/credentials.py`: a pipeline looks a token up, too.
"""

from __future__ import annotations

from typing import Any

from turnabout.words import credentials as c
from turnabout.words.verbs import Verb

VERBS: tuple[type[Verb[Any]], ...] = (
    c.NamespaceSet,
    c.NamespaceList,
    c.NamespaceDelete,
    c.TokenCreate,
    c.TokenFind,
    c.TokenList,
    c.TokenRevoke,
)
