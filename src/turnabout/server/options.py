"""The options of a server: where it listens, whom it believes, and its limits."""

from __future__ import annotations

import ipaddress
import math
import re
from dataclasses import fields
from urllib.parse import urlsplit

from turnabout.words import limits
from turnabout.words.errors import UsageError
from turnabout.words.value import value

AUTH = ("tokens", "none")
LOG_FORMATS = ("text", "json")
SECONDS_MAX = 86_400.0

_HOST = re.compile(r"[A-Za-z0-9_.:-]{1,253}")


@value
class ServerOptions:
    """The options of `turnabout serve`; each limit refuses with a clear answer (P17).

    Sizes are bytes, times are seconds. Raises: UsageError for what is out of range.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    """0: any that is free."""
    allowed_hosts: tuple[str, ...] = ()
    """Names for the Host header, besides loopback's and `host`; `*` allows all."""
    allowed_origins: tuple[str, ...] = ()
    """Pages of these origins may call; of no others, as a browser sends what it is told to."""
    auth: str = "tokens"
    """`tokens`: every request shows one; `none`: everybody on this machine may do everything."""
    max_payload_bytes: int = limits.PAYLOAD_BYTES_MAX
    max_body_bytes: int = 4 * 1024 * 1024
    max_header_bytes: int = 32 * 1024
    """Of the request line and all headers together."""
    max_headers: int = 100
    max_messages: int = 1_000
    """In one request: of a send, receive, ack …"""
    head_seconds: float = 10.0
    """From the first byte of a request (or of its connection) to the end of its headers."""
    body_idle_seconds: float = 10.0
    body_seconds: float = 60.0
    idle_seconds: float = 30.0
    """A connection without a request."""
    write_seconds: float = 30.0
    """For a client to take what was written to it."""
    max_connections: int = 4_096
    max_polls: int = 2_500
    """Requests that wait at once: long polls, waits and event streams together."""
    max_wait_seconds: float = 60.0
    """A longer `wait_seconds` is cut to this."""
    max_pending: int = 1_000
    """Requests that want the store at once; more are refused with 503 and Retry-After."""
    drain_seconds: float = 20.0
    """After SIGTERM: for requests that run. Waiting ones are answered at once."""
    dashboard: bool = True
    log_format: str = "text"
    """`text` or `json`."""
    access_log: bool = False
    """A line for every request. Without it for those that were refused or failed only."""
    metrics_public: bool = False
    """`/metrics` and the details of `/healthz` for everybody who reaches the port. Without it, for
    tokens with the scope `totals:*`.
    """
    metrics_queues: int = 100
    """Queues with figures of their own in `/metrics`: those with the most messages. The rest is
    summed up as `_other`.
    """
    tracing: bool = False
    """Spans and trace context, by OpenTelemetry: see `turnabout.tracing`."""
    tls_cert: str | None = None
    """A file with the certificate and its chain (PEM): then HTTPS is spoken, and nothing else."""
    tls_key: str | None = None
    """The file with its key, unless it is in the same one."""

    def __post_init__(self) -> None:
        self._check_places()
        limits.choice(self.auth, "auth", AUTH)
        limits.choice(self.log_format, "log_format", LOG_FORMATS)
        if self.auth == "none" and not self.is_loopback:
            raise UsageError(
                f"auth=none is for loopback only: anybody who reaches {self.host} could do "
                "everything; leave it out, and the first start makes a token"
            )
        for field in fields(self):
            number = getattr(self, field.name)
            if field.name.startswith("max_") and not field.name.endswith("_seconds"):
                limits.whole(number, field.name, 1, limits.INTEGER_MAX)
            elif field.name.endswith("_seconds"):
                self._check_seconds(number, field.name)
        limits.whole(self.max_payload_bytes, "max_payload_bytes", 1, limits.PAYLOAD_BYTES_HARD_MAX)
        limits.whole(self.max_messages, "max_messages", 1, limits.SEND_MESSAGES_MAX)
        limits.whole(self.max_header_bytes, "max_header_bytes", 256, 1024 * 1024)
        if self.tls_key is not None and self.tls_cert is None:
            raise UsageError("a key for TLS needs its certificate, too: give --tls-cert")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    def _check_places(self) -> None:
        limits.whole(self.port, "port", 0, 65_535)
        if not _HOST.fullmatch(self.host):
            raise UsageError(
                f"{limits.shown(self.host)} is not an address to listen on: use 127.0.0.1, 0.0.0.0 "
                "or a name of this machine"
            )
        for name in self.allowed_hosts:
            if name != "*" and (not _HOST.fullmatch(name) or ":" in name):
                raise UsageError(
                    f"{limits.shown(name)} is not a name for the Host header: write it without a "
                    "scheme and a port, such as queue.example.com, or * for all"
                )
        for origin in self.allowed_origins:
            parts = urlsplit(origin)
            if (
                parts.scheme not in ("http", "https")
                or origin != f"{parts.scheme}://{parts.netloc}"
            ):
                raise UsageError(
                    f"{limits.shown(origin)} is not an origin: write scheme, host and port only, "
                    "such as https://app.example.com"
                )

    @staticmethod
    def _check_seconds(number: object, name: str) -> None:
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise UsageError(f"{name} is a number, not {type(number).__name__}")
        if not (math.isfinite(number) and 0 < number <= SECONDS_MAX):
            raise UsageError(f"{name} is more than 0 and at most {SECONDS_MAX:,.0f}, not {number}")


def is_loopback(host: str) -> bool:
    """Whether that name or address is this machine's own, which no other can reach."""
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
