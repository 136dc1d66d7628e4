"""A pipeline works on the database itself: no server carries its verbs out."""

import urllib.request
from pathlib import Path

import pytest

import turnabout
from tests.support.each import each
from tests.support.postgres import migrated
from tests.support.served import served
from tests.support.until import until
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
    with served(f"sqlite:///{tmp_path}/app.db") as server, turnabout.connect(server.url) as mq:
        with refused:
            mq.store.run(verb)
        with refused:
            mq.store.run_transaction([v.Stats("q"), verb])


def test_the_server_s_metrics_have_the_lag_of_streams_and_archives() -> None:
    with migrated() as url, turnabout.connect(url) as mq, served(url) as server:
        mq.queue("mail").send_many([turnabout.message("x"), turnabout.message("y")])
        reader = mq.store.run(p.SubscriptionOpen("mailer", "host 1"))
        mq.store.run(p.EpochLease("mailer", reader.generation, ("mail",), 0, 1, 60_000))
        mq.queue("ended").send("z")
        mq.queue("ended").receive()[0].ack()
        mq.store.run(p.WatermarkSet("archive", "1.1", 5))
        found: dict[str, str] = {}

        def scraped() -> bool:
            with urllib.request.urlopen(f"{server.url}/metrics") as answer:
                lines = answer.read().decode().splitlines()
            found.update(line.rpartition(" ")[::2] for line in lines)
            return found.get('turnabout_stream_messages_unfinished{subscription="mailer"}') == "2.0"

        until(scraped)
        for name in (
            'turnabout_archive_lag_seconds{archive="archive"}',
            'turnabout_stream_oldest_message_age_seconds{subscription="mailer"}',
        ):
            assert 0 < float(found[name]) < 60, name
