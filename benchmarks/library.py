"""Our side of each comparison: the public library, as its users call it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import turnabout

QUEUE = "bench"
PAYLOAD = b"x" * 100


def channel_name(number: int, channels: int) -> str:
    """A queue that needs no channels has the one without a name."""
    return "" if channels == 1 else f"tenant-{number % channels}"


class Library:
    """Receives, acks and sends through `turnabout.connect`."""

    def __init__(self, url: str, channels: int = 1, payload: bytes = PAYLOAD) -> None:
        self._turnabout = turnabout.connect(url)
        self._queue = self._turnabout.queue(QUEUE)
        self._channels = channels
        self._payload = payload
        self._number = itertools.count()

    def take(self, most: int) -> Sequence[turnabout.Receipt]:
        """Lease some messages."""
        return [message.receipt for message in self._queue.receive(most)]

    def done(self, receipts: Sequence[turnabout.Receipt]) -> None:
        """End them."""
        self._queue.ack(receipts)

    def put(self, count: int) -> None:
        """Send so many, the channels in turn."""
        number, channels = self._number, self._channels
        if count == 1:
            self._queue.send(self._payload, channel=channel_name(next(number), channels))
            return
        self._queue.send_many(
            [
                turnabout.message(self._payload, channel=channel_name(next(number), channels))
                for _ in range(count)
            ]
        )

    def close(self) -> None:
        """Free the connection."""
        self._turnabout.close()


class Consuming(Library):
    """The same by one call: the next messages are received with the acks of those before, as
    `consume` does it.
    """

    def __init__(self, url: str, channels: int = 1, payload: bytes = PAYLOAD) -> None:
        super().__init__(url, channels, payload)
        self._ended: Sequence[turnabout.Receipt] = ()

    def take(self, most: int) -> Sequence[turnabout.Receipt]:
        """Ack what is ended, and lease some messages."""
        ended, self._ended = self._ended, ()
        return [message.receipt for message in self._queue.receive(most, acks=ended)]

    def done(self, receipts: Sequence[turnabout.Receipt]) -> None:
        """They are acked by the next call."""
        self._ended = receipts

    def close(self) -> None:
        """Ack the last ones, and free the connection."""
        if self._ended:
            super().done(self._ended)
        super().close()
