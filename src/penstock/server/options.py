"""What a server is told when it starts: where it listens, whom it believes, and its limits."""

from __future__ import annotations

from penstock.words import limits
from penstock.words.value import value


@value
class ServerOptions:
    """The options of `penstock serve`; each limit refuses with a clear answer (P17).

    Sizes are bytes, times are seconds.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    allowed_hosts: tuple[str, ...] = ()
    """Names for the Host header, beside loopback's and `host`; `*` allows all."""
    allowed_origins: tuple[str, ...] = ()
    """Pages of these origins may call; of no others, as a browser sends what it is told to."""
    auth: str = "auto"
    """`auto`: tokens are needed once there is one, or when not bound to loopback; `tokens`: always;
    `none`: never, on loopback only.
    """
    max_payload_bytes: int = limits.PAYLOAD_BYTES_MAX
    max_body_bytes: int = 4 * 1024 * 1024
    max_header_bytes: int = 32 * 1024
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
