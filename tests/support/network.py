"""A network between a client and a PostgreSQL server that can lead elsewhere, fall silent, or have
a pooler in it that has no server.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlencode, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

READ_ONLY = "default_transaction_read_only"
NO_SERVER = b"server login has been failing, try again later (server_login_retry)"


class Network:
    """A TCP address. `url` is the server's, by that way."""

    def __init__(self, url: str) -> None:
        self.lead_to(url)
        self._is_silent = False
        self._refusal: bytes | None = None
        self._tears = 0
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        host, port = self._listener.getsockname()[:2]
        self.address = f"{host}:{port}"
        given = conninfo_to_dict(url)
        who = {name: given[name] for name in ("user", "password") if name in given}
        more = urlencode({**who, "sslmode": "disable", "gssencmode": "disable"})
        self.url = f"postgresql://{self.address}{urlsplit(url).path}?{more}"
        threading.Thread(target=self._accept, daemon=True).start()

    def lead_to(self, url: str) -> None:
        """New connections go there; those that are open stay."""
        given = conninfo_to_dict(url)
        self._host, self._port = str(given["host"]), int(given.get("port") or 5432)

    def fall_silent(self) -> None:
        """Whatever is sent vanishes, and nothing comes back; new connections are not answered."""
        self._is_silent = True

    def speak_again(self) -> None:
        """New connections are good; what was sent meanwhile is gone."""
        self._is_silent = False

    def refuse(self, said: bytes | None) -> None:
        """A pooler's answer to whatever is asked on a connection; it hangs up. None: no more."""
        self._refusal = said

    def tear(self) -> None:
        """Of the next two answers comes a half, and no more."""
        self._tears = 2

    def close(self) -> None:
        """No network any more."""
        for one in (self._listener, *self._open):
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._open.append(near)
                threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        if self._is_silent:
            return  # it stays open, and nobody reads it
        with contextlib.suppress(OSError, ValueError), near, self._connected() as far:
            other = {near: far, far: near}
            while True:
                for one in select.select([near, far], [], [])[0]:
                    data = one.recv(1 << 16)
                    if not data:
                        return
                    if one is near and self._refusal is not None:
                        near.sendall(_fatal(self._refusal))
                        return
                    if one is far and self._tears:
                        self._tears -= 1
                        near.sendall(data[: len(data) // 2])
                        return
                    if not self._is_silent:
                        other[one].sendall(data)

    def _connected(self) -> socket.socket:
        if not self._host.startswith("/"):
            far = socket.create_connection((self._host, self._port))
        else:
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(f"{self._host}/.s.PGSQL.{self._port}")
            except OSError:
                far.close()
                raise
        self._open.append(far)
        return far


def _fatal(text: bytes) -> bytes:
    """The protocol's ErrorResponse, as PgBouncer fills it in."""
    body = b"SFATAL\0C08P01\0M" + text + b"\0\0"
    return b"E" + (len(body) + 4).to_bytes(4, "big") + body


@contextlib.contextmanager
def network_to(url: str) -> Iterator[Network]:
    """A network before the server at `url`."""
    network = Network(url)
    try:
        yield network
    finally:
        network.close()


def read_only(url: str, *, on: bool) -> None:
    """As after a failover: what was opened meanwhile stays where it leads."""
    with psycopg.connect(url, autocommit=True, options=f"-c{READ_ONLY}=off") as db:
        name = psycopg.sql.Identifier(db.info.dbname)
        change = f"set {READ_ONLY} = on" if on else "reset all"
        db.execute(psycopg.sql.SQL("alter database {} " + change).format(name))
