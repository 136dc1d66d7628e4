"""What ToxMQ got wrong, right here; and what its transcripts cannot show."""

import base64
import json
from urllib.parse import quote

import pytest

from tests.compat.conftest import Place

pytestmark = pytest.mark.slow


def _pop(place: Place, queue: str = "q") -> dict[str, object] | None:
    answer = place.ask(f"POST /queue/{queue}/pop")
    return answer.json if answer.status == 200 else None


def test_equal_payloads_die_one_by_one_with_their_ids(place: Place) -> None:
    place.ask("POST /queue/q/push", [{"a": 1}, {"a": 1}])
    for _ in range(5):
        popped = place.ask("POST /queue/q/pop/2").json
        place.clock.advance(300)
    assert _pop(place) is None
    dead = place.ask("GET /queue/q-dead/peek").json
    assert [one["_id"] for one in dead] == [one["_id"] for one in popped]
    assert [one["origin"]["crashes"] for one in dead] == [5, 5]
    for _ in range(6):  # nothing dies there
        assert len(place.ask("POST /queue/q-dead/pop/2").json) == 2
        place.clock.advance(300)


def test_a_list_that_grew_under_its_hash_brings_what_is_new(place: Place) -> None:
    long = "h" * 300
    assert place.ask(f"POST /queue/q/push?hashCode={long}", [{"n": 1}]).status == 201
    assert place.ask(f"POST /queue/q/push?hashCode={long}", [{"n": 1}, {"n": 2}]).status == 201
    assert place.ask("GET /queue/q/size").json == {"size": 2}


def test_nobody_s_lease_is_taken_by_an_old_ack(place: Place) -> None:
    place.ask("POST /queue/q/push", {})
    message = _pop(place)
    assert message is not None
    place.clock.advance(300)
    place.ask("POST /queue/other/push", {})  # and nobody has popped it again
    assert place.ask("POST /queue/other/ack", [message["_id"]]).fence == "no-lease"
    assert place.ask("GET /queue/q/size").json == {"size": 1}


def test_a_waiting_message_is_not_acked(place: Place) -> None:
    place.ask("POST /queue/q/push", [{}, {}])
    first = _pop(place)
    assert first is not None
    second = place.ask("GET /queue/q/peek?offset=1").json[0]
    answer = place.ask("POST /queue/q/ack", [first["_id"], second["_id"]])
    assert (answer.status, answer.fence) == (204, "none, no-lease")
    assert place.ask("GET /queue/q/size").json == {"size": 1}


def test_ids_of_another_process_are_known(place: Place) -> None:
    place.ask("POST /queue/q/push", [{}] * 3)
    ids = [one["_id"] for one in place.ask("POST /queue/q/pop/3").json]
    place.restart()
    assert place.ask("POST /queue/q/ping?expiresIn=600", ids).json["expiryDate"]
    assert place.ask("POST /queue/q/ack", ids).fence == "none"
    assert place.ask("GET /queue/q/size").json == {"size": 0}


def test_more_than_the_original_s_body_fits(place: Place) -> None:
    assert place.ask("POST /queue/q/push", [{"x": "y" * 1000}] * 900).status == 201
    assert place.ask("GET /queue/q/size").json == {"size": 900}
    found = place.ask("GET /queue/q/peek?amount=1000")
    assert len(found.json) == 900
    assert "turnabout-cut" not in found.headers


def test_a_peek_is_bounded_and_says_so(place: Place) -> None:
    for _ in range(5):
        place.ask("POST /queue/q/push", {"x": "y" * 1_000_000})
    found = place.ask("GET /queue/q/peek?amount=1000")
    assert len(found.json) == 5
    place.ask("POST /queue/q/push", {"x": "y"})
    found = place.ask("GET /queue/q/peek?amount=1000")
    assert (len(found.json), found.headers.get("turnabout-cut")) == (5, "yes")


def test_a_filter_reaches_nothing_but_the_payload(place: Place) -> None:
    place.ask("POST /queue/q/push", {"a": 1})
    for text in (
        '{"$where": "sleep(1000)"}',
        '{"payload": {"$function": {}}}',
        "[1]",
        '{"_id": 1}',
    ):
        assert place.ask(f"GET /queue/q/peek?filter={quote(text)}").status == 400, text


def test_a_full_queue_is_no_suppressed_push(place: Place) -> None:
    place.ask("POST /queue/q/push", {})
    place.ask("PATCH /v1/queues/q", {"max_messages": 1})
    assert place.ask("POST /queue/q/push", {}).status == 409


def test_tokens_by_basic_and_namespaces(place: Place) -> None:
    place.ask("POST /queue/q/push", {"whose": "nobody's"})
    theirs = _pop(place)
    assert theirs is not None
    secret = place.token("produce:*", "consume:*", namespace="acme")
    refused = place.ask("POST /queue/q/pop", Authorization=f"Bearer {secret}x")
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    basic = base64.b64encode(f"anybody:{secret}".encode()).decode()
    acme = {"Authorization": f"Basic {basic}"}
    assert place.ask("POST /queue/q/pop", **acme).status == 204
    assert place.ask("POST /queue/q/ack", [theirs["_id"]], **acme).fence == "no-lease"
    assert place.ask("GET /queue/q/size", **acme).json == {"size": 0}
    assert place.ask("POST /queue/q/push", {"whose": "acme's"}, **acme).status == 201
    assert json.loads(place.ask("POST /queue/q/pop", **acme).text)["payload"] == {"whose": "acme's"}
    assert place.ask("GET /queue/q/peek", **acme).status == 403  # a matter of `operate`
    assert place.ask("GET /health").text == "HEALTHY"
