"""`/livez`, `/readyz`, `/healthz`: right, quick, and cheap for the database."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.server.running import get, post, running
from tests.server.sights import AWAY, Sight, looking
from tests.support.each import each
from turnabout.server import ServerOptions
from turnabout.server.api import health
from turnabout.server.verbs import TokenRevoke
from turnabout.words.errors import BrokenInvariant, StorageFull, WrongVersion


@looking()
async def test_all_is_well(sight: Sight) -> None:
    assert (await sight.get("/livez")).text == "ok\n"
    assert (await sight.get("/readyz")).text == "ok\n"
    document = (await sight.get("/healthz")).json()
    assert document["status"] == "ok"
    assert set(document["checks"]) == {"closing", "store", "disk", "maintenance"}


@each("error", [AWAY, WrongVersion("canary"), RuntimeError("canary"), OSError()])
@looking()
async def test_without_the_store_it_lives_and_is_not_ready(sight: Sight, error: Exception) -> None:
    sight.store.error = error
    ready = await sight.get("/readyz")
    assert ready.status_code == 503
    assert ready.text == f"not ready: {getattr(error, 'code', None) or code(error)}\n"
    assert "canary" not in (await sight.get("/healthz")).text
    assert (await sight.get("/livez")).status_code == 200


def code(error: Exception) -> str:
    return "disconnected" if isinstance(error, OSError) else "internal"


@pytest.mark.slow
@looking()
async def test_it_is_ready_again_when_the_store_is_back(
    sight: Sight, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FRESH_SECONDS", 0.0)
    sight.store.error = AWAY
    assert (await sight.get("/readyz")).status_code == 503
    sight.store.error = None
    assert (await sight.get("/readyz")).status_code == 200


@looking()
async def test_a_closing_server_is_not_ready(sight: Sight) -> None:
    sight.context.lifecycle.close()
    ready = await sight.get("/readyz")
    assert (ready.status_code, ready.text) == (503, "not ready: closing\n")
    assert (await sight.get("/livez")).status_code == 200


@looking()
async def test_failed_maintenance_is_told_and_keeps_nobody_away(sight: Sight) -> None:
    rounds = sight.context.long_poll.maintenance._shared.rounds
    rounds.was_maintained("q", BrokenInvariant("no"))
    ready = await sight.get("/readyz")
    assert (ready.status_code, ready.text) == (200, "ok, but maintenance fails: see the log\n")
    assert sight.context.now()["queues_unmaintained"] == 1
    rounds.was_maintained("q")
    assert (await sight.get("/readyz")).text == "ok\n"


@looking()
async def test_a_full_disk_is_not_ready(sight: Sight) -> None:
    sight.store.free_bytes = health.DISK_FREE_BYTES - 1
    assert (await sight.get("/readyz")).text == "not ready: storage_full\n"
    sight.store.free_bytes += 1
    assert (await sight.get("/readyz")).status_code == 200


@looking()
async def test_nor_is_a_database_that_has_refused_a_verb_for_want_of_room(
    sight: Sight, monkeypatch: pytest.MonkeyPatch
) -> None:
    sight.store.error = StorageFull("canary")
    with pytest.raises(StorageFull):
        await sight.send("q")
    sight.store.error = None
    assert (await sight.get("/readyz")).text == "not ready: storage_full\n"
    monkeypatch.setattr(health, "FULL_SECONDS", 0.0)
    assert (await sight.get("/readyz")).status_code == 200


@looking()
async def test_a_flood_of_probes_is_one_look(sight: Sight, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FRESH_SECONDS", "PATIENCE_SECONDS"):  # on a busy machine they take long
        monkeypatch.setattr(health, name, 60.0)
    answers = await asyncio.gather(*(sight.get("/readyz") for _ in range(100)))
    assert {answer.status_code for answer in answers} == {200}
    for path in ("/readyz", "/healthz", "/livez"):
        await sight.get(path)
    assert sight.store.times(TokenRevoke) == 1


@pytest.mark.slow
@looking()
async def test_a_store_that_hangs_holds_no_probe_up(
    sight: Sight, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "PATIENCE_SECONDS", 0.02)
    sight.store.hangs = asyncio.Event()
    for _ in range(3):
        assert (await sight.get("/readyz")).text == "not ready: timeout\n"
    assert sight.store.times(TokenRevoke) == 1
    monkeypatch.setattr(health, "PATIENCE_SECONDS", 10.0)
    sight.store.hangs.set()
    assert (await sight.get("/readyz")).status_code == 200


@looking(auth="tokens")
async def test_details_are_for_those_who_may_look(sight: Sight) -> None:
    operator = await sight.token("totals:*")
    assert (await sight.get("/readyz")).status_code == 200
    assert (await sight.get("/healthz")).json() == {"status": "ok"}
    assert "checks" in (await sight.get("/healthz", authorization=operator)).json()


def test_a_lame_duck_serves_while_it_says_that_it_leaves(tmp_path: Path) -> None:
    options = ServerOptions(auth="none", lame_duck_seconds=600)
    with running(options, url=f"sqlite:///{tmp_path}/app.db") as server, server.connect() as early:
        assert early.ask(get("/readyz")).status == 200
        server.loop.call_soon_threadsafe(server._until.set)
        with server.connect() as late:
            while (answer := late.ask(get("/readyz"))).status == 200:
                pass
            assert (answer.status, answer.body) == (503, b"not ready: closing\n")
            sent = post("/v1/queues/q/messages", {"messages": [{"payload": {"text": "late"}}]})
            assert (late.ask(sent).status, early.ask(sent).status) == (200, 200)
        server.serving.is_forced = True
