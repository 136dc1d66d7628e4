"""Many who wait, on real connections to a real server."""

import json
import socket
import time
from typing import Any

import pytest

from tests.server.running import Client, Running, running
from tests.server.running import post as posted
from tests.support.each import each
from tests.support.until import until
from turnabout.server import ServerOptions

pytestmark = pytest.mark.slow

CROWD = 200


def post(path: str, **body: Any) -> bytes:
    return posted(f"/v1/queues/q/{path}", body)


def send(server: Running, *payloads: str) -> None:
    messages = [{"payload": {"text": one}} for one in payloads]
    assert server.ask(post("messages", messages=messages)).status == 200


def payloads(client: Client) -> list[str]:
    answer = client.answer()
    assert answer.status == 200
    return [one["payload"]["text"] for one in json.loads(answer.body)["deliveries"]]


def waiting(server: Running, count: int) -> list[Client]:
    clients: list[Client] = []
    for number in range(count):
        client = server.connect()
        client.send(post("receive", max_messages=1, wait_seconds=20))
        clients.append(client)
        until(lambda number=number: server.context.admission.waiting == number + 1)
    return clients


def idle() -> float:
    """The processor time that a fifth of a second takes of this process, in which all runs."""
    spent = time.process_time()
    time.sleep(0.2)
    return time.process_time() - spent


def test_two_hundred_wait_for_little_and_are_answered_in_order() -> None:
    with running(ServerOptions(auth="none", port=0)) as server:
        send(server, "first")
        assert server.ask(post("receive", max_messages=1)).status == 200
        clients = waiting(server, CROWD)
        looks = server.counted("verb_duration_seconds_count", verb="receive")
        assert looks <= CROWD + 10  # one for each who came; none for those that wait
        assert min(idle() for _ in range(3)) < 0.1
        assert server.counted("verb_duration_seconds_count", verb="receive") - looks <= 3
        send(server, *"abc")
        assert [payloads(client) for client in clients[:3]] == [["a"], ["b"], ["c"]]
        # Who hangs up leaves what comes to the next.
        clients[3].close()
        until(lambda: server.context.admission.waiting == CROWD - 4)
        send(server, "d")
        assert payloads(clients[4]) == ["d"]
        server.loop.call_soon_threadsafe(server.context.lifecycle.close)
        assert {tuple(payloads(client)) for client in clients[5:]} == {()}
        for client in clients:
            client.close()


@each("asked_at", ["ours", "ToxMQ's"])
def test_a_large_batch_whose_reader_vanishes_is_for_others_at_once(asked_at: str) -> None:
    toxmq = b"POST /queue/q/pop/50 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
    asked = post("receive", max_messages=50) if asked_at == "ours" else toxmq
    with running(ServerOptions(auth="none", port=0)) as server:
        for _ in range(2):  # more than any socket's buffer may grow to
            send(server, *["x" * 100_000] * 25)
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.connect(("127.0.0.1", server.port))
            client.sendall(asked)
            assert client.recv(10), "the answer is under way"
        with server.connect() as other:
            other.send(post("receive", max_messages=50, wait_seconds=20))
            again = json.loads(other.answer().body)["deliveries"]
        assert [one["attempt"] for one in again] == [2] * 50
        assert {one["failures"] + one["crashes"] for one in again} == {0}, "nobody is charged"
