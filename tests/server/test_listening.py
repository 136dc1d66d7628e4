"""Unix sockets, certificates that are renewed, and proxies that say who the client is."""

import socket
import ssl
from pathlib import Path

import pytest

from tests.server.running import get, running
from tests.server.yard import Yard, ticking
from tests.support.each import each
from turnabout.server import ServerOptions
from turnabout.server.listening import listen
from turnabout.words.errors import Unavailable, UsageError

# --- Unix sockets --------------------------------------------------------------------------------


def ask_at(path: Path) -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(30)
        client.connect(str(path))
        client.sendall(get("/v1/queues", "Connection: close"))
        return b"".join(iter(lambda: client.recv(65_536), b""))


def test_a_unix_socket_serves_this_machine(tmp_path: Path) -> None:
    path = tmp_path / "serve.sock"
    options = ServerOptions(auth="none", unix_socket=str(path))
    with running(options):
        assert ask_at(path).startswith(b"HTTP/1.1 200 OK")
        with pytest.raises(Unavailable, match=r"serve\.sock"):
            listen(options)
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as left:  # as a server that was killed leaves it
        left.bind(str(path))
    assert path.is_socket()
    with running(options):
        assert ask_at(path).startswith(b"HTTP/1.1 200 OK")


def test_a_file_is_not_replaced_by_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(Unavailable):
        listen(ServerOptions(unix_socket=str(path)))
    assert path.read_text() == "mine"


# --- certificates --------------------------------------------------------------------------------


OLD, NEW = (
    Path(__file__).with_name("certificates").joinpath(f"{name}.pem").read_text()
    for name in ("old", "new")
)
"""Certificates of nobody, with their keys: made for these tests."""


def handshake(port: int) -> ssl.SSLSocket:
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    plain = socket.create_connection(("127.0.0.1", port), 30)
    return anybody.wrap_socket(plain, server_hostname="old.example")


def test_a_new_certificate_is_shown_to_new_connections(tmp_path: Path) -> None:
    file = tmp_path / "both.pem"
    file.write_text(OLD)
    with running(ServerOptions(auth="none", tls_cert=str(file))) as server:
        certificate = server.serving.certificate
        assert certificate is not None

        def shown() -> bytes | None:
            certificate.renew()
            with handshake(server.port) as client:
                return client.getpeercert(binary_form=True)

        old, new = (
            ssl.PEM_cert_to_DER_cert(text.partition("-----BEGIN P")[0]) for text in (OLD, NEW)
        )
        assert shown() == old
        file.write_text(NEW[: len(NEW) // 2])
        assert shown() == old
        file.unlink()
        assert shown() == old
        file.write_text(NEW)
        assert shown() == new


def test_hsts_is_for_names_that_are_not_loopback_s(tmp_path: Path) -> None:
    file = tmp_path / "both.pem"
    file.write_text(OLD)
    for host, said in (("127.0.0.1", False), ("0.0.0.0", True)):
        options = ServerOptions(host=host, tls_cert=str(file))
        with running(options) as server, handshake(server.port) as client:
            client.sendall(get())
            assert (b"strict-transport-security: max-age=" in client.recv(65_536)) is said


# --- proxies -------------------------------------------------------------------------------------


@each(
    ("trusted", "peer", "said", "client"),
    [
        (["10.0.0.0/8"], "10.0.0.1", ["192.0.2.7"], "192.0.2.7"),
        (["10.0.0.0/8"], "10.0.0.1", ["1.1.1.1, 192.0.2.7"], "192.0.2.7"),
        (["10.0.0.0/8"], "10.0.0.1", ["1.1.1.1, 192.0.2.7, 10.0.0.2"], "192.0.2.7"),
        (["10.0.0.0/8"], "10.0.0.1", ["1.1.1.1", "192.0.2.7,10.0.0.2"], "192.0.2.7"),
        (["10.0.0.0/8"], "10.0.0.1", ["10.0.0.3"], "10.0.0.3"),
        (["10.0.0.0/8"], "10.0.0.1", ["evil"], "10.0.0.1"),
        (["10.0.0.0/8"], "10.0.0.1", ["1.1.1.1, evil, 10.0.0.2"], "10.0.0.2"),
        (["10.0.0.0/8"], "10.0.0.1", ["[2001:db8::1]:443"], "2001:db8::1"),
        (["10.0.0.0/8"], "10.0.0.1", ["192.0.2.7:8080"], "192.0.2.7"),
        (["10.0.0.0/8"], "::ffff:10.0.0.1", ["192.0.2.7"], "192.0.2.7"),
        (["10.0.0.0/8"], "10.0.0.1", [], "10.0.0.1"),
        (["10.0.0.0/8"], "192.0.2.9", ["192.0.2.7"], "192.0.2.9"),
        (["10.0.0.0/8"], None, ["192.0.2.7"], ""),
        (["unix"], None, ["192.0.2.7"], "192.0.2.7"),
        ([], "10.0.0.1", ["192.0.2.7"], "10.0.0.1"),
    ],
)
async def test_only_trusted_proxies_say_who_the_client_is(trusted, peer, said, client, caplog):
    caplog.set_level("INFO")
    caplog.clear()
    one: Yard
    async with ticking(trusted_proxies=tuple(trusted)) as one:
        headers = [("X-Forwarded-For", text) for text in said]
        place = None if peer is None else (peer, 50_000)
        assert (await one.ask("GET", "/v1/queues", b"", *headers, client=place)).status == 401
    assert [record.client for record in caplog.records if hasattr(record, "client")] == [client]


@each("proxy", ["", "10.0.0.1/8", "proxy.example", "10.0.0.0/33", "*"])
def test_what_is_not_a_proxy(proxy: str) -> None:
    with pytest.raises(UsageError, match="is not a proxy's address"):
        ServerOptions(trusted_proxies=(proxy,))
