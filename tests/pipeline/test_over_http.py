"""A pipeline works on the database itself: no server carries its verbs out."""

from pathlib import Path

import pytest

import turnabout
from tests.support.each import each
from tests.support.served import served
from turnabout import wire
from turnabout.pipeline import verbs as p
from turnabout.server.tenants.namespaces import NAMED, inside
from turnabout.words import verbs as v


@each("namespace", ["", "acme"])
def test_no_door_carries_a_pipeline(namespace: str) -> None:
    """Names of its verbs are stored ones, past all tenants."""
    assert not set(p.VERBS) & (wire.ROUTE_OF.keys() | NAMED.keys() | set(v.VOCABULARY))
    for verb in (p.LogLook(), p.SubscriptionRelease("s"), p.LogAt(0)):
        with pytest.raises(turnabout.UsageError, match="no server carries it out"):
            inside(verb, namespace)


@pytest.mark.slow
@pytest.mark.parametrize("verb", [p.LogLook(), p.SubscriptionRelease("s")])
def test_the_client_asks_no_server(tmp_path: Path, verb: v.Verb) -> None:
    refused = pytest.raises(turnabout.UsageError, match="on the database itself, not on a server")
    with (
        served(f"sqlite:///{tmp_path}/app.db") as server,
        turnabout.connect(server.url) as mq,
    ):
        with refused:
            mq.store.run(verb)
        with refused:
            mq.store.run_transaction([v.Stats("q"), verb])
