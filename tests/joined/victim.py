"""A process that works in transactions and kills itself at a chosen step; see `test_kills`.

Three rounds are whole; in the fourth it dies by SIGKILL right after the step.
"""

import os
import signal
from collections.abc import Callable, Iterator
from typing import Final

from tests.joined.libraries import ON_POSTGRES, ON_SQLITE, Connected

ROUNDS: Final = 3


def produce(joined: Connected, n: int) -> Iterator[str]:
    """A row, and the message that tells of it."""
    yield "begun"
    joined.execute(f"insert into business values ({n}, 'produced')")
    yield "row"
    joined.queue("q").send(str(n))
    yield "sent"
    joined.commit()
    yield "committed"


def consume(joined: Connected, _n: int) -> Iterator[str]:
    """A message, and the row that is its effect."""
    yield "begun"
    (message,) = joined.queue("q").receive()
    yield "received"
    joined.execute(f"insert into business values ({message.text()}, 'consumed')")
    yield "row"
    message.ack()
    yield "acked"
    joined.commit()
    yield "committed"


SCENARIOS: Final[dict[str, Callable[[Connected, int], Iterator[str]]]] = {
    "producer": produce,
    "consumer": consume,
}
STEPS: Final[dict[str, tuple[str, ...]]] = {
    "producer": ("begun", "row", "sent", "committed"),
    "consumer": ("begun", "received", "row", "acked", "committed"),
}


def main(url: str, library: str, scenario: str, last: str) -> None:
    """Work, and die."""
    with (ON_POSTGRES | ON_SQLITE)[library](url) as joined:
        for n in range(ROUNDS + 1):
            for step in SCENARIOS[scenario](joined, n):
                if n == ROUNDS and step == last:
                    os.kill(os.getpid(), signal.SIGKILL)
