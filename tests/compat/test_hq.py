"""What hq got wrong, right here; and what its transcripts cannot show."""

import json
import uuid

import pytest

from tests.compat.conftest import Place
from tests.support.each import each

pytestmark = pytest.mark.slow


@pytest.fixture
def films(place: Place) -> Place:
    place.ask("POST /queues?name=films&max_attempts=2&visibility_timeout_seconds=30")
    return place


def _send(place: Place, args: object = 1) -> str:
    return place.ask("POST /queues/films/enqueue", json.dumps(args)).json["message_id"]


def _receive(place: Place) -> dict[str, object] | None:
    return place.ask("GET /queues/films/receive").json


def test_the_timeout_that_is_changed_holds_from_the_next_receive_on(films: Place) -> None:
    _send(films)
    films.ask("PUT /queues/films?max_attempts=3&visibility_timeout_seconds=1")
    assert _receive(films)
    films.clock.advance(ms=999)
    assert _receive(films) is None
    films.clock.advance(ms=1)
    assert _receive(films)


def test_a_complete_ends_the_lease_of_whoever_has_it_now(films: Place) -> None:
    id_ = _send(films)
    _receive(films)
    films.clock.advance(30)
    assert films.ask(f"PUT /messages/{id_}/complete").fence == "none"  # nobody took it away yet
    assert films.ask(f"PUT /messages/{id_}/complete").fence == "no-lease"


def test_a_message_that_waits_is_not_completed(films: Place) -> None:
    id_ = _send(films)
    assert films.ask(f"PUT /messages/{id_}/complete").fence == "no-lease"
    assert films.ask(f"PUT /messages/{id_}/fail").fence == "no-lease"
    assert _receive(films) is not None


def test_an_id_that_another_process_gave_out_is_found(films: Place) -> None:
    id_ = _send(films)
    assert _receive(films)
    films.restart()
    assert films.ask(f"PUT /messages/{id_}/complete").fence == "none"


def test_ids_are_uuids_of_version_8_and_sort_as_sent(films: Place) -> None:
    ids = [_send(films) for _ in range(12)]
    assert ids == sorted(ids)
    assert {uuid.UUID(id_).version for id_ in ids} == {8}
    assert {uuid.UUID(id_).variant for id_ in ids} == {uuid.RFC_4122}


def test_what_is_not_json_comes_as_text(films: Place) -> None:
    films.ask("POST /v1/queues/films/send", "plain", Content_Type="text/plain")
    films.ask("POST /v1/queues/films/send", b"\xff\x00", Content_Type="image/png")
    films.ask("POST /v1/queues/films/send", '{"a": }', Content_Type="application/json")
    got = [message and message["args"] for message in (_receive(films) for _ in range(2))]
    assert got == ["plain", "/wA="]


def test_too_large_is_413(films: Place) -> None:
    """Hq takes 2 MB, and so does this door, unless the server's limit was set."""
    assert films.ask("POST /queues/films/enqueue", json.dumps("x" * 2_000_000)).status == 200
    assert films.ask("POST /queues/films/enqueue", json.dumps("x" * 2_100_000)).status == 413


@each(
    "body",
    [b"\xff", b'"\xed\xa0\x80"', b"1e999", b"[" * 70 + b"]" * 70, b'{"a":', b"\xef\xbb\xbf1"],
)
def test_what_is_not_strict_json_is_refused(films: Place, body: bytes) -> None:
    answer = films.ask("POST /queues/films/enqueue", body)
    assert answer.status == 400
    assert answer.text.startswith("Something went wrong: ")


def test_a_full_queue_says_so(films: Place) -> None:
    films.ask("PATCH /v1/queues/films", {"max_messages": 1})
    _send(films)
    assert films.ask("POST /queues/films/enqueue", "2").status == 409


def test_tokens_scopes_and_namespaces(films: Place) -> None:
    id_ = _send(films)
    works = films.token("operate:*", namespace="acme")
    looks = films.token("queue_list:*", namespace="acme")
    assert films.ask("GET /queues", Authorization=f"Bearer {works}").json == []
    made = "POST /queues?name=films&max_attempts=2&visibility_timeout_seconds=30"
    assert films.ask(made, Authorization=f"Bearer {looks}").status == 403
    assert films.ask(made, Authorization=f"Bearer {works}").status == 200
    # Its queue of the same name is another one, and the message over there is not its own.
    acme = {"Authorization": f"Bearer {works}"}
    assert films.ask("GET /queues/films/receive", **acme).json is None
    assert films.ask(f"PUT /messages/{id_}/complete", **acme).fence == "no-lease"
    mine = films.ask("POST /queues/films/enqueue", "1", **acme).json["message_id"]
    assert films.ask("GET /queues/films/receive", **acme).json["queue"] == "films"
    only_looks = films.ask(f"PUT /messages/{mine}/complete", Authorization=f"Bearer {looks}")
    assert only_looks.status == 403
    assert films.ask(f"PUT /messages/{mine}/complete", **acme).fence == "none"
    missing = films.ask("POST /queues/none/enqueue", "1", **acme)
    assert missing.status == 404
    assert "acme" not in missing.text
