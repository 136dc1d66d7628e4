"""A server that is told to end: who waits is answered, what runs may end, nobody is let in."""

import signal
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.server.process import Process, post_once, process
from tests.server.running import Client, get, post, request

pytestmark = pytest.mark.slow
HALF = request("POST", "/v1/queues/q/messages", "Content-Length: 9") + b"{"


def wait_for(server: Process, queue: str) -> Any:
    asked = {"wait_seconds": 60, "lease_seconds": 30}
    return post_once(server.port, f"/v1/queues/{queue}/receive", asked)


def until_waiting(server: Process, many: int) -> None:
    """Until so many wait, as the server itself counts them."""
    ends_at = time.monotonic() + 30
    while time.monotonic() < ends_at:
        with Client(server.port) as client:
            answer = client.ask(get("/metrics"))
        if f"turnabout_polls {many}".encode() in answer.body.replace(b".0\n", b"\n"):
            return
    raise AssertionError(answer.body.decode())


def test_who_waits_is_answered_at_once(tmp_path: Path) -> None:
    with (
        process(f"sqlite:///{tmp_path}/app.db") as server,
        ThreadPoolExecutor(8) as clients,
        Client(server.port) as idle,
    ):
        assert idle.ask(get()).status == 200
        post_once(server.port, "/v1/queues", {"queue": "q"})
        waiting = [clients.submit(wait_for, server, "q") for _ in range(8)]
        until_waiting(server, 8)
        began = time.monotonic()
        assert server.end(signal.SIGINT) == 0
        assert time.monotonic() - began < 15
        assert [one.result()["deliveries"] for one in waiting] == [[]] * 8
        assert idle.is_closed()


def test_what_runs_may_end(tmp_path: Path) -> None:
    """A send that waits for the database's writer is stored and answered all the same."""
    file = tmp_path / "app.db"
    with process(f"sqlite:///{file}") as server, Client(server.port) as client:
        post_once(server.port, "/v1/queues", {"queue": "q"})
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("begin immediate")  # so that the send has to wait
        client.send(post("/v1/queues/q/messages", {"messages": [{"payload": {"text": "late"}}]}))
        with Client(server.port) as second:
            second.ask(get())  # the first has come, too
        server.popen.send_signal(signal.SIGTERM)
        until_refused(server.port)
        other.execute("rollback")
        other.close()
        answer = client.answer()
        assert answer.status == 200
        assert server.popen.wait(30) == 0
    with sqlite3.connect(file) as found:
        assert found.execute("select count(*) from turnabout_message").fetchone() == (1,)
    found.close()


def test_what_never_ends_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "app.db"
    with (
        process(f"sqlite:///{file}", "--drain-seconds=0.3") as server,
        Client(server.port) as client,
    ):
        client.send(HALF)
        with Client(server.port) as second:
            second.ask(get())
        assert server.end() == 1


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with process(f"sqlite:///{tmp_path}/app.db") as server, Client(server.port) as client:
        client.send(HALF)
        with Client(server.port) as second:
            second.ask(get())
        server.popen.send_signal(signal.SIGTERM)
        until_refused(server.port)
        time.sleep(0.6)  # the same signal twice in a moment is one
        began = time.monotonic()
        assert server.end(signal.SIGTERM) == 1
        assert time.monotonic() - began < 15


def until_refused(port: int) -> None:
    """Until nobody is let in."""
    ends_at = time.monotonic() + 30
    while time.monotonic() < ends_at:
        try:
            Client(port).close()
        except ConnectionRefusedError:
            return
        threading.Event().wait(0.01)
    raise AssertionError("it still takes connections")
