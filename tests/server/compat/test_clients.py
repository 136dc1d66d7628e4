"""A full life through clients that know hq and ToxMQ only."""

import pytest

from tests.server.compat.clients import HqClient, HTTPError, ToxMqClient
from tests.server.compat.conftest import Place


def test_hq(place: Place) -> None:
    hq = HqClient(place.url)
    assert hq.list_queues() == []
    assert hq.get_queue("films") is None
    hq.delete_queue("films")

    hq.create_queue("films", 2, 30)
    with pytest.raises(HTTPError, match="409") as refused:
        hq.create_queue("films", 2, 30)
    refused.value.close()
    hq.update_queue("films", max_attempts=2, visibility_timeout_seconds=60)
    found = hq.get_queue("films")
    assert found is not None
    assert (found["name"], found["max_attempts"], found["visibility_timeout_seconds"]) == (
        "films", 2, 60,
    )  # fmt: skip
    assert hq.receive_message("films") is None

    sent = [hq.enqueue_message("films", {"film": name}) for name in ("metropolis", "faust", "m")]
    assert len(set(sent)) == 3
    message = hq.receive_message("films")
    assert message is not None
    assert message == {
        "id": sent[0], "args": {"film": "metropolis"}, "queue": "films", "attempts": 1,
    }  # fmt: skip
    hq.complete_message(message["id"])
    failed = hq.receive_message("films")
    assert failed is not None
    hq.fail_message(failed["id"])

    attempts = []
    while (message := hq.receive_message("films")) is not None:
        attempts.append((message["id"], message["attempts"]))
        place.clock.advance(60)
    assert attempts == [(sent[2], 1), (sent[2], 2)]
    dead = [hq.receive_message("films-dead") for _ in range(2)]
    assert [letter["args"]["film"] for letter in dead if letter] == ["faust", "m"]

    hq.delete_queue("films")
    assert hq.list_queues() == []


def test_toxmq(place: Place) -> None:
    players = ToxMqClient(place.url, "players")
    assert players.size() == 0
    assert players.pop_one() is None
    assert players.push({"player": "ada"}, "hash of ada")
    assert not players.push({"player": "ada"}, "hash of ada")
    assert players.push([{"player": "bob"}, {"player": "eve"}])
    assert players.size() == 3

    ada = players.pop_one()
    assert ada is not None
    assert (ada["payload"], ada["attempts"]) == ({"player": "ada"}, 1)
    others = players.pop_many(5, expires_in=10)
    assert [one["payload"]["player"] for one in others] == ["bob", "eve"]
    assert players.pop_many(5) == []
    players.ping_many([ada["_id"]], expires_in=900)
    players.ack_many([others[0]["_id"]])
    assert players.size() == 2

    place.clock.advance(899)  # eve's lease ran out, ada's was pinged
    (eve,) = players.pop_many(5)
    assert eve["_id"] == others[1]["_id"]
    players.ack_many([ada["_id"], eve["_id"]])
    assert players.size() == 0
