"""Who ends a message? Acks, cancels, retries, expiries, receives at once: exactly one of them."""

import random
import threading
import time
from collections import Counter, defaultdict
from typing import Any

import pytest

from tests.conformance.steps import counts, finished, grave_of
from tests.support.seeds import share_of
from turnabout import Acked, Dead, Deferred, Released, Retrying, message
from turnabout.words.outcomes import Cancelled

pytestmark = [pytest.mark.slow, pytest.mark.real_time, pytest.mark.needs("sharing")]

MANY = 150
SECONDS, SECONDS_MAX = 1.2, 20
"""A tumult goes on until each way to end was tried: a busy machine needs longer for it."""
OFTEN, TRIES = 6, 5


class Tumult:
    """Threads, each with a connection of its own, that all want to end the same messages."""

    def __init__(self, door: Any, name: str, ids: tuple[int, ...]) -> None:
        self.door, self.name, self.ids = door, name, ids
        self.began = time.monotonic()
        self.expiry: dict[int, int] = {}
        self.said: dict[int, list[str]] = defaultdict(list)
        self.tried: Counter[str] = Counter()
        self.late: list[Any] = []
        self.errors: list[BaseException] = []
        self.lock = threading.Lock()

    def run(self, *roles: Any) -> None:
        threads = [threading.Thread(target=self._play, args=(role,)) for role in roles]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "somebody waits for ever"
        assert not self.errors, self.errors

    def _play(self, role: Any) -> None:
        try:
            with self.door.open(real_time=True) as mq:
                queue, dice = mq.queue(self.name), random.Random()
                while not self.is_over():
                    role(queue, dice)
        except BaseException as error:  # noqa: BLE001 (told to the test's own thread)
            self.errors.append(error)

    def is_over(self) -> bool:
        seconds = time.monotonic() - self.began
        tried = min(self.tried["done"], self.tried["cancelled"]) >= OFTEN
        return seconds > (SECONDS if tried else SECONDS_MAX) or len(self.said) == MANY

    def end(self, number: int, how: str) -> None:
        with self.lock:
            self.said[number].append(how)
            self.tried[how] += 1

    # --- roles ---

    def work(self, queue: Any, dice: random.Random) -> None:
        """Receive some and end them; late in one case of ten."""
        for held in queue.receive(5, lease_seconds=0.2):
            if held.lease_until - held.delivery.lease_ms >= self.expiry.get(held.id, 10**15):
                self.late.append(held)
            if dice.random() < 0.1:
                time.sleep(0.25)
            verb = dice.choice([held.ack, held.release, held.fail, held.defer, self.refuse(held)])
            outcome = verb()
            match outcome:
                case Acked():
                    self.end(held.id, "done")
                case Dead():
                    self.end(held.id, "dead")
                case Cancelled():
                    self.end(held.id, "cancelled")
                case Released() | Retrying() | Deferred():
                    pass

    @staticmethod
    def refuse(held: Any) -> Any:
        return lambda: held.fail("no", retry=False)

    def cancel(self, queue: Any, dice: random.Random) -> None:
        some = dice.sample(self.ids, 3)
        for number, outcome in zip(some, queue.cancel(some), strict=True):
            if isinstance(outcome, Cancelled):
                self.end(number, "cancelled")
        time.sleep(0.03)

    def retry(self, queue: Any, dice: random.Random) -> None:
        queue.retry(dice.sample(self.ids, 5))
        time.sleep(0.01)


@pytest.mark.parametrize("fifo", share_of([False, True], 1, __name__))
def test_each_message_ends_once(door, fifo):
    for _ in range(TRIES):
        told = tumult_of(door, fifo=fifo)
        if min(told["done"], told["cancelled"], told["expired"]) >= OFTEN:
            return
    pytest.fail(f"{TRIES} tumults, and in each one way to end was hardly tried: {told}")


def tumult_of(door: Any, *, fifo: bool) -> Counter[str]:
    """How the messages of one tumult have ended, each of them once."""
    with door.open(real_time=True) as mq:
        queue = mq.queue(door.name_of_a_queue())
        queue.create(fifo=fifo, max_attempts=4, backoff_seconds=0.02, lease_seconds=0.2)
        ttls = [None, None, 0.2, 0.7, 1.5]
        ids = queue.send_many(
            [
                message(str(n), channel=f"c{n % 40}", ttl_seconds=ttls[n % len(ttls)])
                for n in range(MANY)
            ]
        ).ids
        tumult = Tumult(door, queue.name, ids)
        tumult.expiry = {p.id: p.expires_at for p in queue.peek(1000) if p.expires_at is not None}
        tumult.run(tumult.work, tumult.work, tumult.cancel, tumult.retry)
        assert not tumult.late, "delivered at or after expires_at"
        time.sleep(0.3)
        for _ in range(4):
            queue.receive(1, lease_seconds=0.001)
            time.sleep(0.01)
        rows = finished(queue)
        endings = Counter(row.id for row in rows)
        assert not [number for number, times in endings.items() if times > 1], "ended twice"
        kept = {row.id: row.outcome for row in rows}
        for number, said in tumult.said.items():
            assert said == [kept[number]], f"message {number} was said to have ended {said}"
        unfinished = {p.id for p in queue.peek(1000)}
        assert unfinished.isdisjoint(kept)
        assert unfinished | set(kept) == set(ids), "lost"
        buried = {p.id for p in grave_of(queue).peek(1000)}
        assert buried == {number for number, outcome in kept.items() if outcome == "dead"}
        stats = counts(queue)
        told = Counter(kept.values())
        for outcome in ("done", "dead", "cancelled", "expired"):
            assert getattr(stats, outcome) == told[outcome], outcome
        return told
