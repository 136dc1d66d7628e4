"""The OpenAPI document is valid, and says what there is: no more, no less."""

import json
from typing import Any

import msgspec
import pytest
from openapi_spec_validator import validate
from starlette.routing import Route

from tests.server.running import get, request, running
from tests.support.each import each
from turnabout import wire
from turnabout.server.api import openapi
from turnabout.server.api.examples import EXAMPLES
from turnabout.wire.errors import STATUS
from turnabout.words import verbs as v
from turnabout.words.verbs import VERBS

DOCUMENT: dict[str, Any] = json.loads(openapi.document(50))


@pytest.mark.slow
def test_it_is_valid() -> None:
    validate(DOCUMENT)
    assert DOCUMENT["openapi"] == "3.1.0"


def test_each_route_is_in_it_and_it_has_no_other() -> None:
    with running() as server:
        there = {
            (route.path, method.lower())
            for route in server.routes()
            if isinstance(route, Route)
            and route.path.startswith("/v1")
            and "rest:" not in route.path
            for method in route.endpoint.handlers
            if method != "HEAD"
        }
    said = {(path, method) for path, ways in DOCUMENT["paths"].items() for method in ways}
    assert said == there


def test_each_verb_is_described() -> None:
    names = {way["operationId"] for ways in DOCUMENT["paths"].values() for way in ways.values()}
    assert names >= {kind.name for kind in v.VOCABULARY}
    for ways in DOCUMENT["paths"].values():
        for way in ways.values():
            assert way["description"], way
            assert 0 < len(way["summary"]) < 120, way["summary"]
            assert "(P" not in way["description"]
            assert "default" in way["responses"]


def test_each_schema_is_used() -> None:
    text = json.dumps(DOCUMENT)
    for name in DOCUMENT["components"]["schemas"]:
        assert f'"#/components/schemas/{name}"' in text, name


@each("name", EXAMPLES)
def test_an_example_can_be_read(name: str) -> None:
    kind, example = VERBS[name], EXAMPLES[name]
    assert wire.load_verb(kind, msgspec.json.encode(example["request"]), queue="q")
    assert wire.load_answer(kind, msgspec.json.encode(example["answer"]))


def test_its_bounds_are_those_of_the_server() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["AckRequest"]["properties"]["receipts"]["maxItems"] == 50
    assert schemas["ReceiveRequest"]["properties"]["max_messages"]["maximum"] == 50


def test_every_status_of_an_error_is_there() -> None:
    said = {int(status) for status in openapi.ERRORS if status.isdigit()}
    assert said >= set(STATUS.values())
    with running() as server, server.connect() as client:
        for odd, status in (
            (request("PUT", "/v1/queues"), 405),
            (request("POST", "/v1/queues/q/send", "Content-Encoding: gzip", body=b"x"), 415),
            (get("/v1", "X: " + "x" * 40_000), 431),
        ):
            assert client.ask(odd).status == status
            assert status in said
