"""A server in front of a database that takes no writes."""

import httpx2
import pytest

from tests.support.network import read_only
from tests.support.postgres import migrated_url
from turnabout.postgres._async.store import AsyncPostgresStore
from turnabout.server import ServerOptions, create_app
from turnabout.server.api import health

url = migrated_url


@pytest.mark.slow
async def test_a_server_before_it_is_not_ready(url, monkeypatch) -> None:
    monkeypatch.setattr(health, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(health, "PATIENCE_SECONDS", 60.0)
    read_only(url, on=True)
    store = AsyncPostgresStore(url)
    app = create_app(store, ServerOptions(auth="none"))
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert (await client.get("/readyz")).text == "not ready: disconnected\n"
        read_only(url, on=False)
        assert (await client.get("/readyz")).text == "ok\n"
    app.state.context.lifecycle.close()
    await store.close()
