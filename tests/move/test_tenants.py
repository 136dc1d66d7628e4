"""What a server needs moves as well: namespaces, quotas, tokens, and names with a slash."""

from typing import Any

import pytest

import turnabout
from tests.move.endpoints import Endpoints
from turnabout.move import plan
from turnabout.server import verbs as c
from turnabout.words import verbs as v
from turnabout.words.administration import Totals

pytestmark = pytest.mark.slow


def opened(url: str) -> Any:
    return turnabout.connect(url)


def test_tenants_and_their_tokens_move_and_what_is_there_keeps_its_quotas(
    endpoints: Endpoints,
) -> None:
    ids = [c.new_token()[0] for _ in range(2)]
    with opened(endpoints.source) as mq, opened(endpoints.target) as there:
        for token_id, name in zip(ids, ("acme", "beta"), strict=True):
            mq.store.run(c.TokenCreate(token_id, bytes(32), name, "x", c.scopes(["peek"])))
        mq.store.run(c.TokenRevoke(ids[1]))
        mq.store.run(c.NamespaceSet(c.Namespace("beta", max_messages=7)))
        there.store.run(c.NamespaceSet(c.Namespace("acme", max_bytes=5)))
        mq.store.run(v.Send("acme/emails", (v.Outgoing(b"x", "text/plain"),)))
        tokens, before = mq.store.run(c.TokenList()), mq.store.run(v.QueueList("acme"))
        assert plan(endpoints.source, endpoints.target).tokens == 2
        assert endpoints.move().tokens == 2
        assert there.store.run(c.TokenList()) == tokens
        quotas = {n.name: (n.max_messages, n.max_bytes) for n in there.store.run(c.NamespaceList())}
        assert quotas == {"acme": (None, 5), "beta": (7, None)}
        after = there.store.run(v.QueueList("acme"))
        assert [(e.name, e.dead_letter) for e in after] == [(e.name, e.dead_letter) for e in before]
        assert [t.unfinished for t in there.store.run(Totals("acme"))] == [1, 0]
