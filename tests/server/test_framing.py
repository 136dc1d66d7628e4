"""Requests as bytes: odd framing, smuggling, strange targets; what each is answered, and whether
the connection goes on. Closed means that nothing behind a doubtful request is taken for one.
"""

from tests.server.running import Running, get, running

HOST = b"Host: 127.0.0.1\r\n"
LIVE = b"GET /livez HTTP/1.1\r\n" + HOST
SEND = b"POST /v1/queues/x/send HTTP/1.1\r\n" + HOST
TE = b"Transfer-Encoding:"
CHUNKED = SEND + TE + b" chunked\r\n\r\n"
LAST = b"0\r\n\r\n"
BEHIND = b"GET /v1/smuggled HTTP/1.1\r\n" + HOST + b"\r\n"


def _sent(*headers: bytes, body: bytes = b"hi") -> bytes:
    return SEND + b"".join(header + b"\r\n" for header in headers) + b"\r\n" + body


def _at(target: bytes) -> bytes:
    return b"GET " + target + b" HTTP/1.1\r\n" + HOST + b"\r\n"


CLOSED: dict[str, tuple[bytes, int]] = {
    "length and chunks": (_sent(b"Content-Length: 5", TE + b" chunked", body=LAST + BEHIND), 400),
    "chunks and length": (_sent(TE + b" chunked", b"Content-Length: 5", body=LAST + BEHIND), 400),
    "two lengths": (_sent(b"Content-Length: 0", b"Content-Length: 30", body=BEHIND), 400),
    "one length twice": (_sent(b"Content-Length: 2", b"Content-Length: 2"), 400),
    "a list of lengths": (_sent(b"Content-Length: 2, 2"), 400),
    "length +2": (_sent(b"Content-Length: +2"), 400),
    "length -1": (_sent(b"Content-Length: -1"), 400),
    "length 0x2": (_sent(b"Content-Length: 0x2"), 400),
    "length over 64 bits": (_sent(b"Content-Length: 18446744073709551618"), 400),
    "length 1 2": (_sent(b"Content-Length: 1 2"), 400),
    "a space before the colon": (_sent(b"Transfer-Encoding : chunked", body=LAST), 400),
    "xchunked": (_sent(TE + b" xchunked", body=LAST), 400),
    "chunked, identity": (_sent(TE + b" chunked, identity", body=LAST), 400),
    "gzip, chunked": (_sent(TE + b" gzip, chunked", body=LAST), 400),
    "chunked twice": (_sent(*[TE + b" chunked"] * 2, body=LAST), 400),
    "identity, then chunked": (_sent(TE + b" identity", TE + b" chunked", body=LAST), 400),
    "a control character": (_sent(TE + b" \x0bchunked", body=LAST), 400),
    "chunked, chunked": (_sent(TE + b" chunked, chunked", body=LAST), 400),
    "a chunk of zz": (CHUNKED + b"zz\r\n", 400),
    "a word": (b"hello\r\n\r\n", 400),
    "a chunk over 64 bits": (CHUNKED + b"fffffffffffffffff\r\nhi\r\n0\r\n\r\n", 400),
    "a chunk of 0x2": (CHUNKED + b"0x2\r\nhi\r\n0\r\n\r\n", 400),
    "a huge extension": (CHUNKED + b"2;" + b"a" * 600_000 + b"\r\nhi\r\n0\r\n\r\n", 431),
    "many extensions": (CHUNKED + (b"1;" + b"a" * 3_000 + b"\r\nx\r\n") * 200 + LAST, 431),
    "chunks with LF only": (CHUNKED + b"2\nhi\n0\n\n", 400),
    "a bare CR in an extension": (CHUNKED + b"2;\rxx\r\nhi\r\n0\r\n\r\n", 400),
    "a folded header": (LIVE + b"X-A: b\r\n c\r\n\r\n", 400),
    "a head with LF only": (b"GET /livez HTTP/1.1\nHost: 127.0.0.1\n\n", 400),
    "a head with CR only": (b"GET /livez HTTP/1.1\rHost: 127.0.0.1\r\r", 400),
    "a NUL in a header": (LIVE + b"X-A: a\x00b\r\n\r\n", 400),
    "a header without a colon": (LIVE + b"garbage\r\n\r\n", 400),
    "a header without a name": (LIVE + b": x\r\n\r\n", 400),
    "a space in a header's name": (LIVE + b"X A: x\r\n\r\n", 400),
    "CONNECT": (b"CONNECT evil:443 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "HTTP/1.2": (b"GET /livez HTTP/1.2\r\n" + HOST + b"\r\n", 400),
    "HTTP/3.7": (b"GET /livez HTTP/3.7\r\n" + HOST + b"\r\n", 400),
    "a method in small letters": (b"get /livez HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "an unknown method": (b"BREW /v1 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100, 400),
    "raw UTF-8 in the path": (_at("/v1/queues/é".encode()), 400),
    "101 headers": (LIVE + b"".join(b"X-%d: a\r\n" % n for n in range(101)) + b"\r\n", 431),
    "a header of 33 KB": (LIVE + b"X-A: " + b"a" * 33_000 + b"\r\n\r\n", 431),
    "a target of 100 KB": (_at(b"/v1/" + b"a" * 100_000), 431),
    "a good one, then a bad one": (LIVE + b"\r\nXX\r\n\r\n", 200),
    "HTTP/1.0": (_sent(b"Content-Length: 2").replace(b"HTTP/1.1", b"HTTP/1.0"), 200),
}  # fmt: skip
OPEN: dict[str, tuple[bytes, int]] = {
    "a tab before chunked": (_sent(TE + b"\tchunked", body=LAST), 200),
    "trailers": (CHUNKED + b"2\r\nhi\r\n0\r\nHost: evil\r\nAuthorization: Bearer x\r\n\r\n", 200),
    "no Host": (b"GET /v1 HTTP/1.1\r\n\r\n", 400),
    "two Hosts": (b"GET /v1 HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil\r\n\r\n", 400),
    "a Host with a user": (b"GET /v1 HTTP/1.1\r\nHost: 127.0.0.1@evil.example\r\n\r\n", 400),
    "a whole URL": (_at(b"http://localhost:80/v1"), 200),
    "a whole URL with an address": (_at(b"http://[::1]:80/v1"), 200),
    "a whole URL of another host": (_at(b"http://evil.example/v1"), 400),
    "a Host as 0x7f.1": (b"GET /v1 HTTP/1.1\r\nHost: 0x7f.1\r\n\r\n", 400),
    "OPTIONS *": (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 404),
    "TRACE": (b"TRACE /v1 HTTP/1.1\r\n" + HOST + b"\r\n", 405),
    "a wish for h2c": (_sent(b"Connection: Upgrade", b"Upgrade: h2c", b"Content-Length: 2"), 200),
    "a wish for a WebSocket": (LIVE + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 200),
    "a strange expectation": (_sent(b"Expect: 999-x", b"Content-Length: 2"), 200),
    "empty lines before": (b"\r\n\r\n\r\n" + LIVE + b"\r\n", 200),
    "a GET with a body": (LIVE + b"Content-Length: 5\r\n\r\nhello", 200),
    "%2e%2e": (_at(b"/dashboard/%2e%2e/__init__.py"), 404),
    "%2f": (_at(b"/dashboard/..%2f__init__.py"), 404),
    "a NUL in a file's name": (_at(b"/dashboard/app.js%00.html"), 404),
    "//": (_at(b"//v1"), 404),
    "%zz": (_at(b"/v1/queues/%zz"), 400),
    "%ff": (_at(b"/v1/queues/%ff%fe"), 400),
    "%2F in a queue's name": (_at(b"/v1/queues/other%2Fsecret"), 404),
    "%00 in a queue's name": (_at(b"/v1/queues/a%00b"), 400),
    "a fragment": (_at(b"/v1#x"), 200),
}  # fmt: skip


def _wrong(server: Running, data: bytes, status: int, *, closes: bool) -> str | None:
    with server.connect() as client:
        client.send(data)
        try:
            answer = client.answer()
            if answer.status != status:
                return f"answered {answer.status}, not {status}"
            if status == 400 and answer.code != "usage":
                return f"the code is {answer.code}"
            if closes:
                return None if client.is_closed() else "the connection goes on"
            return None if client.ask(get()).status == 200 else "the next request is refused"
        except ConnectionError as error:
            return str(error)


def test_what_each_is_answered() -> None:
    with running() as server:
        wrong = {
            name: problem
            for cases, closes in ((CLOSED, True), (OPEN, False))
            for name, (data, status) in cases.items()
            if (problem := _wrong(server, data, status, closes=closes))
        }
    assert wrong == {}


def test_a_request_that_comes_byte_by_byte() -> None:
    with running() as server, server.connect() as client:
        for byte in LIVE + b"\r\n":
            client.send(bytes([byte]))
        assert client.answer().status == 200


def test_who_expects_100_continue_is_told_to_go_on() -> None:
    with running() as server, server.connect() as client:
        expected = SEND + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        assert client.ask(expected).status == 100
        client.send(b"hi")
        assert client.answer().status == 200
