"""The server's listening socket: a port, or a Unix socket; and its TLS certificate."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import stat
import sys
from contextlib import suppress
from pathlib import Path

from turnabout import slices
from turnabout.server.options import ServerOptions
from turnabout.words.errors import Unavailable, UsageError
from turnabout.words.value import Value

BACKLOG = 2_048
SEND_BUFFER_BYTES = 128 * 1024
"""The system's buffer of answers on each connection. Left alone it takes megabytes: more memory
than ours for slow clients, and answers would count as read while they are in that buffer.
"""
FILES_BESIDE = 128
"""Files that a server needs besides its connections: the database, listeners, logs."""
RELOAD_SECONDS = 10.0
"""Time between two checks for a new certificate."""

log = logging.getLogger("turnabout.server")


class Serving(Value):
    """The address of a server that has started."""

    url: str
    port: int | None
    """The port; None at a Unix socket."""
    dashboard: str | None
    first_token: str | None = None
    """A token made because the database had none: shown this once."""


def serving(options: ServerOptions, listener: socket.socket, token: str | None) -> Serving:
    """The address and first token to show for a server on that socket."""
    if options.unix_socket is not None:
        return Serving(f"unix:{options.unix_socket}", None, None, token)
    port: int = listener.getsockname()[1]
    host = options.host
    if host in ("0.0.0.0", "::", "localhost"):  # noqa: S104 - shown, not bound
        host = "localhost"
    elif ":" in host:
        host = f"[{host}]"
    url = f"{'https' if options.tls_cert else 'http'}://{host}:{port}"
    shown = options.dashboard and any(one.name == "dashboard" for one in slices.found())
    return Serving(url, port, f"{url}/dashboard" if shown else None, token)


def listen(options: ServerOptions, *, shared: bool = False) -> socket.socket:
    """A bound socket. `shared`: other processes may bind to the port as well.

    Raises: UsageError, Unavailable.
    """
    _allow_files(options.max_connections + FILES_BESIDE)
    if options.unix_socket is not None:
        return _at_path(options.unix_socket)
    host, port = options.host, options.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        return _bound(found[0][0], found[0][4][:2], shared=shared)
    except socket.gaierror as error:
        raise UsageError(
            f"{host!r} is not an address of this machine: use 127.0.0.1 or 0.0.0.0"
        ) from error
    except OSError as error:
        raise Unavailable(
            f"cannot listen on {host} port {port}: {error.strerror or error}; stop what listens "
            "there, or give another --port (0: any that is free)"
        ) from error


def _bound(family: int, address: tuple[object, ...], *, shared: bool) -> socket.socket:
    # The protocol is named: asyncio turns Nagle's algorithm off for no other, and with it an answer
    # in two pieces takes 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":  # there it would let two servers have one port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        # Connections have it from their listener.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        listener.bind(address)
        if not shared:
            listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _at_path(path: str) -> socket.socket:
    """A listening Unix socket; its folder's permissions and the umask say who may open it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_left_over(path)
        listener.bind(path)
    except OSError as error:
        listener.close()
        raise Unavailable(f"cannot listen at {path}: {error.strerror or error}") from error
    return listener


def _remove_left_over(path: str) -> None:
    """Remove the socket of a server that was killed."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(Path(path).stat().st_mode):
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as there:
                there.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink()


def _allow_files(wanted: int) -> None:
    """A connection is an open file. Where fewer are allowed than connections, ask for more."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < wanted:
        log.warning(
            "only %d open files are allowed, too few for max_connections: raise the limit "
            "(`ulimit -n %d`, LimitNOFILE=%d), or lower max_connections to %d",
            most, wanted, wanted, max(most - FILES_BESIDE, 1),
        )  # fmt: skip


# --- TLS -----------------------------------------------------------------------------------------


class Certificate:
    """The certificate and its key; read again when the files change, for new connections."""

    def __init__(self, options: ServerOptions, cert: str) -> None:
        """Raises: UsageError for files that do not hold a certificate and its key."""
        self._files = (cert, options.tls_key)
        self._stamps = self._look_at_files()
        self.context = self._load(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))

    def _load(self, context: ssl.SSLContext) -> ssl.SSLContext:
        cert, key = self._files
        try:
            context.load_cert_chain(cert, key)
        except OSError as error:  # as is whatever the TLS library says
            raise UsageError(
                f"{cert} and {key or 'the key in it'} are not a certificate and key in PEM: see "
                "--tls-cert and --tls-key"
            ) from error
        return context

    def _look_at_files(self) -> list[tuple[int, int]]:
        try:
            found = [Path(file).stat() for file in self._files if file is not None]
        except OSError:  # just being replaced
            return []
        return [(one.st_mtime_ns, one.st_ino) for one in found]

    def renew(self) -> None:
        """Take the files' new certificate, if there is one. Halves of it change nothing."""
        stamps = self._look_at_files()
        if stamps in (self._stamps, []):
            return
        self._stamps = stamps
        try:
            self._load(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))
            self._load(self.context)
        except UsageError as error:
            log.warning("the certificate stays as it was: %s", error)
        else:
            log.info("there is a new certificate")

    async def keep_renewed(self) -> None:
        """Reload a changed certificate, as long as the server runs."""
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            self.renew()
