"""The ASGI app: the doors over one store. Whoever opened the store closes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fastapi import FastAPI
from starlette.routing import BaseRoute

from penstock.server.gate import Gate
from penstock.server.house import House
from penstock.server.options import ServerOptions
from penstock.server.parking import Parking
from penstock.server.together import together
from penstock.store import AsyncStore

Door = Callable[[House], Sequence[BaseRoute]]
"""A door is a function that gives its routes."""

DOORS: tuple[Door, ...] = ()


def create_app(store: AsyncStore, options: ServerOptions | None = None) -> FastAPI:
    """The app over that store; `app.state.house` is its house."""
    options = options or ServerOptions()
    merged = together(store)
    gate = Gate()
    house = House(store, options, merged, Parking(merged), gate)
    gate.house = house
    app = FastAPI(title="Penstock", openapi_url=None, docs_url=None, redoc_url=None)
    app.state.house = house
    for door in DOORS:
        app.router.routes.extend(door(house))
    return app
