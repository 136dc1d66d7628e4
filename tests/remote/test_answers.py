"""What the client makes of what comes back, or does not: did it happen?"""

import asyncio
import contextlib
import json
import socket
import struct
import threading
import time
import traceback

import pytest

import turnabout
import turnabout.aio
from tests.remote.liar import Liar, answer, liar
from tests.support.doors import blocking
from tests.support.each import each
from turnabout.words import verbs as v

TOKEN = "tbt_abcdefghijkl_c2VjcmV0"
SEND = v.Send("q", (turnabout.message("x"),))
READ = v.Stats("q")
HTML = b"<html><p>Welcome!</p></html>"


def error(code: str, **more: object) -> bytes:
    return json.dumps(
        {"error": {"code": code, "message": "m", "retryable": False, **more}}
    ).encode()


@pytest.fixture(params=["blocking", "asyncio"])
def connect(request: pytest.FixtureRequest):
    """`connect`, in either colour, for blocking callers."""
    if request.param == "blocking":
        yield turnabout.connect
        return
    with asyncio.Runner() as runner:
        yield lambda *words, **named: blocking(runner, turnabout.aio.connect(*words, **named))


def raised(connect, server: Liar | str, verb, options: str = "", token: str = TOKEN):
    """What the verb raises there; its text never has the token."""
    url = server if isinstance(server, str) else server.url
    with (
        connect(url + options, token=token) as mq,
        pytest.raises(turnabout.TurnaboutError) as caught,
    ):
        mq.store.run(verb)
    text = "".join(traceback.format_exception(caught.value))
    assert token not in text
    assert token not in repr(mq.store)
    return caught.value


def test_a_request_has_all_that_it_needs(connect) -> None:
    with liar(answer(200, b'{"outcome": "sent", "ids": [7]}')) as server:
        host = server.url.removeprefix("http://")
        with connect(f"{server.url}/base/", token=TOKEN) as mq:
            assert mq.queue("emails").send("x").id == 7
            assert mq.queue("emails").send("x").id == 7
        assert server.connections == 1  # kept open
    head, _, body = server.asked[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /base/v1/queues/emails/messages HTTP/1.1"
    assert f"authorization: Bearer {TOKEN}" in lines
    assert "content-type: application/json" in lines
    assert f"host: {host}" in lines
    assert json.loads(body)["messages"][0]["payload"] == {"text": "x"}


def test_nobody_there(connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    for verb in (SEND, READ):
        found = raised(connect, url, verb)
        assert type(found) is turnabout.Disconnected
        assert f"no server can be reached at {url}" in str(found)


def test_it_hangs_up_on_the_way(connect) -> None:
    with liar(b"") as server:
        assert type(raised(connect, server, SEND)) is turnabout.Uncertain
        assert len(server.asked) == 1
        assert type(raised(connect, server, READ)) is turnabout.Disconnected
        assert len(server.asked) == 3  # what only reads was asked once more
        assert type(raised(connect, server, v.Endings("q", (1,)))) is turnabout.Disconnected


def test_what_only_reads_finds_the_server_after_its_restart(connect) -> None:
    with liar(b"", answer(200, b'{"items": []}')) as server, connect(server.url) as mq:
        assert mq.stats() == ()


def reset(connection: socket.socket) -> None:
    connection.sendall(answer(200, b"{" + b" " * 100)[:-50])
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_it_breaks_in_the_middle_of_the_answer(connect) -> None:
    with liar(reset) as server:
        assert type(raised(connect, server, SEND)) is turnabout.Uncertain


def test_it_takes_too_long(connect) -> None:
    with liar(lambda _: time.sleep(0.4)) as server:
        found = raised(connect, server, SEND, "?timeout_seconds=0.1")
        assert type(found) is turnabout.Uncertain
        assert "none came in 0.1 seconds" in str(found)


@each(
    ("said", "write", "read"),
    [
        (answer(200, HTML, "text/html"), turnabout.UsageError, turnabout.UsageError),
        (answer(200, b"{}", ""), turnabout.UsageError, turnabout.UsageError),
        (answer(404, HTML, "text/html"), turnabout.UsageError, turnabout.UsageError),
        (answer(404, b'{"detail": "Not Found"}'), turnabout.UsageError, turnabout.UsageError),
        (
            answer(302, b"", "", "location: http://127.0.0.1:1/\r\n"),
            turnabout.UsageError,
            turnabout.UsageError,
        ),
        (answer(413, HTML, "text/html"), turnabout.UsageError, turnabout.UsageError),
        (answer(403, HTML, "text/html"), turnabout.Forbidden, turnabout.Forbidden),
        (answer(429, HTML, "text/html"), turnabout.Unavailable, turnabout.Unavailable),
        (answer(500, HTML, "text/html"), turnabout.Uncertain, turnabout.UsageError),
        (answer(502, HTML, "text/html"), turnabout.Uncertain, turnabout.Disconnected),
        (answer(503, HTML, "text/html"), turnabout.Disconnected, turnabout.Disconnected),
        (answer(504, HTML, "text/html"), turnabout.Uncertain, turnabout.Disconnected),
        (answer(200, b'{"hello": "world"}'), turnabout.Uncertain, turnabout.WrongVersion),
        (answer(200, b"[" * 100_000), turnabout.Uncertain, turnabout.WrongVersion),
        (answer(200, b"\xff"), turnabout.Uncertain, turnabout.WrongVersion),
        (
            answer(200, b"{}", "application/json", "content-encoding: gzip\r\n"),
            turnabout.UsageError,
            turnabout.UsageError,
        ),
    ],
)
def test_what_stands_there_is_no_server_of_ours(said: bytes, write, read) -> None:
    with liar(said) as server:
        for verb, kind in ((SEND, write), (READ, read)):
            found = raised(turnabout.connect, server, verb)
            assert type(found) is kind, found
            assert server.url in str(found)


def test_an_answer_that_does_not_end(connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnabout.remote.exchange.ANSWER_BYTES_MAX", 1_000)
    with liar(answer(200, b"[" + b"1," * 1_000 + b"1]")) as server:
        found = raised(connect, server, SEND)
        assert type(found) is turnabout.Uncertain
        assert "over 1,000 bytes" in str(found)
        assert type(raised(connect, server, READ)) is turnabout.Disconnected
        assert len(server.asked) == 2  # and is not asked for twice


def test_all_connections_are_busy() -> None:
    refused = threading.Event()

    def drip(connection: socket.socket) -> None:
        """Slow, but never so long without a word that a client gives up."""
        for byte in answer(200, b"[]")[:-1]:
            if not refused.wait(0.1):
                connection.sendall(bytes([byte]))

    with (
        liar(drip) as server,
        turnabout.connect(f"{server.url}?max_connections=1&timeout_seconds=1") as mq,
    ):

        def call() -> None:
            with contextlib.suppress(turnabout.Uncertain):
                mq.store.run(SEND)

        first = threading.Thread(target=call)
        first.start()
        while not server.asked:
            time.sleep(0.01)
        with pytest.raises(turnabout.Busy, match="all 1 connections"):
            mq.store.run(SEND)
        refused.set()
        first.join()
