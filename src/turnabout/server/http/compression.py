"""Answers in gzip, for clients that take it, where it pays: whole bodies of more than a packet.

Answers written in pieces (deliveries, whose client is watched meanwhile) are not compressed.
"""

from __future__ import annotations

import asyncio
import zlib

from starlette.types import Message, Send

PAYS_BYTES = 1_400
"""Smallest body that is compressed: any smaller one fits into one packet anyway."""
LARGE_BYTES = 64 * 1024
"""Size above which a thread compresses the body."""
LEVEL = 1
"""JSON shrinks to a fifth at the least effort, and to little less at the most."""
_GZIP = 31
_PLAIN = b"image/"


def takes_gzip(accepted: bytes) -> bool:
    """Whether an `Accept-Encoding` accepts gzip."""
    for one in accepted.lower().split(b","):
        name, _, weight = one.strip().partition(b";")
        if name.strip() in (b"gzip", b"*"):
            return weight.replace(b" ", b"").rstrip(b"0.") != b"q="
    return False


def compressed(send: Send) -> Send:
    """The same, with bodies in gzip."""
    start: Message | None = None

    async def write(message: Message) -> None:
        nonlocal start
        if message["type"] == "http.response.start":
            start = message
            return
        body = message.get("body", b"")
        if start is not None:
            is_whole = not message.get("more_body", False)
            if is_whole and len(body) > PAYS_BYTES and not _is_plain(start):
                body = await _pressed(body)
                start["headers"] = _gzip_headers(start, len(body))
                message = {**message, "body": body}
            await send(start)
            start = None
        await send(message)

    return write


async def _pressed(body: bytes) -> bytes:
    if len(body) < LARGE_BYTES:
        return zlib.compress(body, LEVEL, _GZIP)
    return await asyncio.to_thread(zlib.compress, body, LEVEL, _GZIP)


def _is_plain(start: Message) -> bool:
    return any(
        name == b"content-encoding" or (name == b"content-type" and value.startswith(_PLAIN))
        for name, value in start.get("headers", ())
    )


def _gzip_headers(start: Message, size: int) -> list[tuple[bytes, bytes]]:
    kept = [pair for pair in start.get("headers", ()) if pair[0] != b"content-length"]
    return [
        *kept,
        (b"content-length", b"%d" % size),
        (b"content-encoding", b"gzip"),
        (b"vary", b"accept-encoding"),
    ]
