"""The options of a server: its address, trusted proxies and hosts, and limits."""

from __future__ import annotations

import ipaddress
import math
import re
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar
from urllib.parse import urlsplit

from turnabout.words import limits
from turnabout.words.errors import UsageError

T = TypeVar("T")

AUTH = ("tokens", "none")
LOG_FORMATS = ("text", "json")
SECONDS_MAX = 86_400.0

_HOST = re.compile(r"[A-Za-z0-9_.:-]{1,253}")


@dataclass(frozen=True)
class OptionSpec:
    """The help text of an option, and its name on the command line."""

    text: str
    flag: str | None = None
    """The name on the command line; default: the field's own."""
    choices: tuple[str, ...] = ()
    metavar: str | None = None


def option(default: T, text: str, **more: Any) -> T:
    """An option of the server: its one declaration, which the command line reads, too."""
    return field(default=default, metadata={"spec": OptionSpec(text, **more)})


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The options of `turnabout serve`; each limit refuses with a clear answer (P17).

    Sizes are bytes, times are seconds. Raises: UsageError for a value out of range.
    """

    host: str = option("127.0.0.1", "Address to listen on.")
    port: int = option(8080, "0: any that is free.")
    processes: int = option(1, "Processes at this port, for as many cores.")
    unix_socket: str | None = option(None, "Listen at this Unix socket instead.", metavar="FILE")
    trusted_proxies: tuple[str, ...] = option(
        (), "Believe X-Forwarded-For of this address or network; unix: of --unix-socket.",
        flag="trusted-proxy", metavar="ADDRESS",
    )  # fmt: skip
    allowed_hosts: tuple[str, ...] = option(
        (), "A name for the Host header, besides loopback's and --host; * allows all.",
        flag="allow-host", metavar="NAME",
    )  # fmt: skip
    # Of no others, as a browser sends what any page tells it to.
    allowed_origins: tuple[str, ...] = option(
        (), "Web pages of this origin may use the server.", flag="allow-origin", metavar="ORIGIN"
    )
    auth: str = option("tokens", "none: no tokens, on this machine only.", choices=AUTH)
    tls_cert: str | None = option(
        None, "A certificate and its chain (PEM): serve HTTPS, and nothing else.", metavar="FILE"
    )
    tls_key: str | None = option(None, "Its key (PEM), if not in that file.", metavar="FILE")
    dashboard: bool = option(default=True, text="Serve the dashboard.")
    sqs_root: bool = option(default=False, text="Serve the SQS API at the root, too, besides /sqs.")
    metrics_public: bool = option(
        default=False, text="Serve /metrics, and the details of /healthz, without a token."
    )
    metrics_queues: int = option(
        100, "Queues with figures of their own: those with the most messages."
    )
    trace_url: str | None = option(
        None, "Address of a trace, with {trace_id} in it, for links of the dashboard.",
        metavar="URL",
    )  # fmt: skip
    tracing: bool = option(default=False, text="Record spans, by OpenTelemetry.")
    log_format: str = option("text", "How the log is written.", choices=LOG_FORMATS)
    access_log: bool = option(
        default=False, text="A line for every request, not only for refused ones."
    )
    max_payload_bytes: int = option(limits.PAYLOAD_BYTES_MAX, "Of one message.")
    max_body_bytes: int = option(4 * 1024 * 1024, "Of one request.")
    max_header_bytes: int = option(32 * 1024, "Of the request line and all headers.")
    max_headers: int = option(100, "Of one request.")
    max_messages: int = option(1_000, "In one request: sent, received, acked …")
    head_seconds: float = option(10.0, "For a request's headers to come.")
    body_idle_seconds: float = option(10.0, "Between two pieces of a body.")
    body_seconds: float = option(60.0, "For a whole body to come.")
    idle_seconds: float = option(30.0, "For a connection without a request.")
    write_seconds: float = option(30.0, "For a client to take an answer.")
    max_connections: int = option(4_096, "At once.")
    max_polls: int = option(2_500, "Requests that wait at once.")
    max_wait_seconds: float = option(60.0, "A longer wait_seconds is cut to this.")
    max_pending: int = option(1_000, "Requests that want the database at once.")
    lame_duck_seconds: float = option(
        0.0, "After SIGTERM: /readyz says no, and all is served still."
    )
    drain_seconds: float = option(20.0, "After that: for requests that run.")

    def __post_init__(self) -> None:
        self._check_places()
        limits.choice(self.auth, "auth", AUTH)
        limits.choice(self.log_format, "log_format", LOG_FORMATS)
        if self.auth == "none" and not self.is_loopback:
            raise UsageError(
                f"auth=none is for loopback only: anybody who reaches {self.host} could do "
                "everything; leave it out, and the first start makes a token"
            )
        for one in fields(self):
            number = getattr(self, one.name)
            if one.name.startswith("max_") and not one.name.endswith("_seconds"):
                limits.whole(number, one.name, 1, limits.INTEGER_MAX)
            elif one.name.endswith("_seconds"):
                self._check_seconds(number, one.name, may_be_0=not one.default)
        limits.whole(self.processes, "processes", 1, 1_024)
        limits.whole(self.max_payload_bytes, "max_payload_bytes", 1, limits.PAYLOAD_BYTES_HARD_MAX)
        limits.whole(self.max_messages, "max_messages", 1, limits.SEND_MESSAGES_MAX)
        limits.whole(self.max_header_bytes, "max_header_bytes", 256, 1024 * 1024)
        if self.trace_url is not None and not re.fullmatch(
            r"https?://\S*\{trace_id\}\S*", self.trace_url
        ):
            raise UsageError("trace_url is an http address with {trace_id} in it")
        if self.tls_key is not None and self.tls_cert is None:
            raise UsageError("a key for TLS needs its certificate, too: give --tls-cert")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.unix_socket is not None or is_loopback(self.host)

    def _check_places(self) -> None:
        limits.whole(self.port, "port", 0, 65_535)
        if not _HOST.fullmatch(self.host):
            raise UsageError(
                f"{limits.shown(self.host)} is not an address to listen on: use 127.0.0.1, 0.0.0.0 "
                "or a name of this machine"
            )
        if self.unix_socket == "":
            raise UsageError("unix_socket is the path of a file")
        for proxy in self.trusted_proxies:
            network(proxy)
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
    def _check_seconds(number: object, name: str, *, may_be_0: bool) -> None:
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise UsageError(f"{name} is a number, not {type(number).__name__}")
        if number == 0 and may_be_0:
            return
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


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def network(proxy: str) -> Network | None:
    """The addresses of a trusted proxy; None: it comes by the Unix socket. Raises: UsageError."""
    if proxy == "unix":
        return None
    try:
        return ipaddress.ip_network(proxy)
    except ValueError as error:
        raise UsageError(
            f"{limits.shown(proxy)} is not a proxy's address: write 10.0.0.7, 10.0.0.0/8 or unix"
        ) from error
