"""`/metrics`: right numbers, few labels, and one query however many look."""

from __future__ import annotations

import asyncio
import re
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families

import turnabout
from tests.server.running import get, running
from tests.server.sights import AWAY, Sight, looking
from tests.support.postgres import migrated
from turnabout.server import ServerOptions
from turnabout.server.api import metrics
from turnabout.server.verbs import TokenRevoke
from turnabout.words import verbs as v
from turnabout.words.administration import Totals
from turnabout.words.fairness import ChannelShare, FairShares

OURS = re.compile(r"(turnabout|process|python)_[a-z0-9_]+")


def values(text: str) -> dict[tuple[str, ...], float]:
    """Each sample by its name and its labels' values, in the order of their names."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def seen(sight: Sight) -> dict[tuple[str, ...], float]:
    response = await sight.get("/metrics")
    assert response.status_code == 200
    return values(response.text)


@pytest.fixture
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "FRESH_SECONDS", 0.0)


@looking()
async def test_figures_follow_messages(sight: Sight) -> None:
    await sight.send("emails", 3)
    await sight.send("acme/emails", 2)
    await sight.finish("emails", 1)
    found = await seen(sight)
    assert found["turnabout_messages_unfinished", "", "emails"] == 2
    assert found["turnabout_messages_unfinished", "acme", "emails"] == 2
    assert found["turnabout_messages_sent_total", "", "emails"] == 3
    assert found["turnabout_messages_done_total", "", "emails"] == 1
    assert found["turnabout_oldest_message_age_seconds", "acme", "emails"] >= 0
    assert found["turnabout_queues",] == 4  # each has its dead-letter queue
    assert found["turnabout_messages_accepted_total",] == 5
    assert found["turnabout_messages_received_total",] == 1
    assert found["turnabout_messages_acked_total",] == 1
    assert found["turnabout_message_wait_seconds_count",] == 1
    assert found["turnabout_verb_duration_seconds_count", "send"] == 2
    assert found["turnabout_database_up",] == 1
    assert found["turnabout_store_commits_total",] >= 4


@looking()
async def test_what_went_wrong_is_counted(sight: Sight) -> None:
    run = sight.context.batched.run
    await sight.send("q", 1)
    (delivery,) = (await run(v.Receive("q", 5))).deliveries
    assert not (await run(v.Receive("q", 5))).deliveries
    await run(v.Ack("q", (delivery.receipt,)))
    await run(v.Ack("q", (delivery.receipt,)))
    sight.store.error = AWAY
    with pytest.raises(type(AWAY)):
        await run(v.QueueList())
    sight.store.error = None
    sight.context.counts.refused("max_headers")
    found = await seen(sight)
    assert found["turnabout_receive_empty_total",] == 1
    assert found["turnabout_leases_lost_total",] == 1
    assert found["turnabout_messages_acked_total",] == 1
    assert found["turnabout_verb_errors_total", "disconnected", "queue_list"] == 1
    assert found["turnabout_refusals_total", "max_headers"] == 1


@pytest.mark.slow
@looking()
async def test_requests_are_counted_by_route_and_never_by_path(sight: Sight) -> None:
    for n in range(20):
        await sight.get(f"/nothing/{n}")
        await sight.client.request(f"BREW{n}", "/livez")
        await sight.get("/livez")
    found = await seen(sight)
    assert found["turnabout_http_requests_total", "GET", "none", "404"] == 20
    assert found["turnabout_http_requests_total", "GET", "/livez", "200"] == 20
    assert found["turnabout_http_request_duration_seconds_count", "GET", "/livez"] == 20
    assert found["turnabout_http_requests_total", "other", "/livez", "405"] == 20
    assert sum(1 for key in found if key[0] == "turnabout_http_requests_total") == 3


@pytest.mark.slow
@looking(metrics_queues=2)
async def test_the_largest_queues_are_named_and_the_rest_is_summed(
    sight: Sight, no_cache: None
) -> None:
    for n in range(1, 6):
        await sight.send(f"q{n}", n)
    found = await seen(sight)
    unfinished = {k[1:]: n for k, n in found.items() if k[0] == "turnabout_messages_unfinished"}
    assert unfinished == {("", "q4"): 4, ("", "q5"): 5, ("_other", "_other"): 6}
    assert found["turnabout_messages_sent_total", "_other", "_other"] == 6
    # q1 becomes one of the largest. What was `_other`'s stays there: a counter never falls.
    await sight.send("q1", 10)
    found = await seen(sight)
    assert found["turnabout_messages_unfinished", "", "q1"] == 11
    assert found["turnabout_messages_sent_total", "", "q1"] == 11
    assert found["turnabout_messages_sent_total", "_other", "_other"] == 6
    await sight.send("q2", 1)
    assert (await seen(sight))["turnabout_messages_sent_total", "_other", "_other"] == 7


@looking()
async def test_who_asks_for_openmetrics_gets_it(sight: Sight) -> None:
    await sight.send("q")
    answer = await sight.get("/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    names = {family.name for family in openmetrics(answer.text)}
    assert {"turnabout_messages_accepted", "turnabout_messages_unfinished"} <= names
    assert (await sight.get("/metrics")).headers["content-type"].startswith("text/plain")


@looking()
async def test_a_channel_is_a_label_only_of_the_worst_off(sight: Sight) -> None:
    await sight.send("q", 1, channel="canary-channel")
    await sight.finish("q", 1)
    assert "canary" not in (await sight.get("/metrics")).text
    await sight.send("q", 1, channel="canary-channel")
    assert "canary" not in (await sight.get("/metrics")).text  # it has only just come


def test_fairness_names_channels_unless_anybody_may_look() -> None:
    worst = ChannelShare("canary", 7, 0, 60_000, None, 1, 2, 10, got=2, fair=8.0, starved=True)
    shares = FairShares((worst,), 1, 7, 0, 2, 0, 1, 60_000, 2, 10, 300_000, by_leases=False)
    for public in (False, True):
        context: Any = SimpleNamespace(options=ServerOptions(metrics_public=public))
        board = metrics.Board(context)
        board.shares = {"acme/emails": shares}
        found = {
            (one.name, *one.labels.values()): one.value
            for family in board.families()
            for one in family.samples
        }
        where = ("acme", "emails")
        assert found["turnabout_channels_starved", *where] == 1
        ratio = found.get(("turnabout_channel_fair_share_ratio", *where, "canary"))
        age = found.get(("turnabout_channel_oldest_message_age_seconds", *where, "canary"))
        assert (ratio, age) == ((None, None) if public else (0.25, 60))


@looking()
async def test_many_scrapes_are_one_query(sight: Sight) -> None:
    await sight.send("q")
    await asyncio.gather(*(sight.get("/metrics") for _ in range(20)))
    await sight.get("/metrics")
    assert sight.store.times(Totals) == 1
    assert not any(isinstance(verb, (v.Stats, v.StatsOfChannels)) for verb in sight.store.asked)


@looking()
async def test_without_the_database_the_last_figures_stay(sight: Sight, no_cache: None) -> None:
    await sight.send("q", 2)
    await seen(sight)
    sight.store.error = AWAY
    found = await seen(sight)
    assert found["turnabout_database_up",] == 0
    assert found["turnabout_messages_unfinished", "", "q"] == 2


@pytest.mark.slow
@looking(metrics_public=True)
async def test_a_database_that_does_not_answer_holds_no_scrape_up(
    sight: Sight, no_cache: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "PATIENCE_SECONDS", 0.02)
    sight.store.hangs = asyncio.Event()
    assert (await seen(sight))["turnabout_database_up",] == 0
    assert (await seen(sight))["turnabout_database_up",] == 0
    assert sight.store.times(Totals) == 1  # the second one waited for the first one's
    sight.store.hangs.set()


@looking(auth="tokens")
async def test_a_database_that_cannot_say_who_asks_holds_no_scrape_up(
    sight: Sight, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "PATIENCE_SECONDS", 0.02)
    sight.store.hangs = asyncio.Event()
    token = {"authorization": await sight.token("totals:*")}
    assert (await sight.get("/metrics", **token)).status_code == 503
    sight.store.hangs.set()


@looking(auth="tokens")
async def test_that_the_database_is_away_is_seen_with_a_token(sight: Sight, no_cache: None) -> None:
    operator, tenant = await sight.token("totals:*"), await sight.token("operate")
    authenticator, now = sight.context.authenticator, [1_000.0]
    authenticator._clock = lambda: now[0]
    assert (await sight.get("/metrics", authorization=operator)).status_code == 200
    assert (await sight.get("/metrics", authorization=tenant)).status_code == 403
    sight.store.error = AWAY
    now[0] += 3_600
    found = await sight.get("/metrics", authorization=operator)
    assert found.status_code == 200
    assert "turnabout_database_up 0.0" in found.text
    assert (await sight.get("/metrics", authorization=tenant)).status_code == 403
    stranger = await sight.token("totals:*")
    assert (await sight.get("/metrics", authorization=stranger)).status_code == 503
    assert (await sight.get("/v1/queues", authorization=operator)).status_code == 503
    sight.store.error = None
    await sight.store.inner.run(TokenRevoke(operator.split("_")[1]))
    assert (await sight.get("/metrics", authorization=operator)).status_code == 401
    sight.store.error = AWAY
    now[0] += 3_600
    assert (await sight.get("/metrics", authorization=operator)).status_code == 503


@looking(auth="tokens")
async def test_who_may_look(sight: Sight) -> None:
    operator = await sight.token("totals:*")
    tenant = await sight.token("operate:*", namespace="acme")
    assert (await sight.get("/metrics")).status_code == 401
    refused = await sight.get("/metrics", authorization=tenant)
    assert refused.status_code == 403
    assert "--scope totals" in refused.json()["error"]["message"]
    stray = await sight.token("totals:*", "operate", namespace="acme")
    assert (await sight.get("/metrics", authorization=stray)).status_code == 403
    plain = await sight.token("operate:*")
    assert (await sight.get("/metrics", authorization=plain)).status_code == 403
    assert "turnabout_queues" in (await sight.get("/metrics", authorization=operator)).text


@looking(auth="tokens", metrics_public=True)
async def test_everybody_may_look_if_the_server_was_told_so(sight: Sight) -> None:
    assert (await sight.get("/metrics")).status_code == 200


@looking()
async def test_names_and_types_are_prometheus_s(sight: Sight) -> None:
    await sight.send("q")
    text = (await sight.get("/metrics")).text
    families = list(text_string_to_metric_families(text))
    assert all(OURS.fullmatch(family.name) and family.documentation for family in families)
    assert all(family.type != "unknown" for family in families)
    assert len({family.name for family in families}) == len(families)


@pytest.mark.slow
def test_on_postgresql() -> None:
    with migrated() as url, running(ServerOptions(auth="none", port=0), url=url) as served:
        with turnabout.connect(url) as mq:
            mq.queue("acme/emails").send_many([turnabout.message(n) for n in range(3)])
        ready = served.ask(get("/readyz", "Connection: close"))
        assert (ready.status, ready.body) == (200, b"ok\n")
        found = values(served.ask(get("/metrics", "Connection: close")).body.decode())
        assert found["turnabout_messages_unfinished", "acme", "emails"] == 3
        assert found["turnabout_messages_sent_total", "acme", "emails"] == 3
        assert found["turnabout_store_connections_max",] == 16
        assert 1 <= found["turnabout_store_connections_open",] <= 16
        assert found["turnabout_store_calls_waiting",] == 0
        assert found["turnabout_connections",] == 1
