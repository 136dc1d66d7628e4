"""A server killed at random under load: what was answered has happened, once, and stays so."""

import contextlib
import http.client
import itertools
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

import turnabout
from tests.server.process import Caller, Process, post_once, process
from tests.support.postgres import migrated

pytestmark = pytest.mark.slow

KILLS = 2
SENDERS, RECEIVERS = 3, 3
LEASE_SECONDS = 1.5
NO_ANSWER = (OSError, http.client.HTTPException)


class Load:
    """Clients that send and receive, through all the deaths of their server, and remember."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.ids: dict[str, int] = {}
        """What answered sends were told, by their keys."""
        self.seen: dict[int, set[str]] = {}
        """Keys of what was delivered, by id: one each, if all is well."""
        self.acked: set[int] = set()
        self.wrong: list[str] = []
        self.broken = 0
        """Requests that had no answer."""
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [
            *(threading.Thread(target=self._work, args=(self._send, n)) for n in range(SENDERS)),
            *(threading.Thread(target=self._work, args=(self._take, n)) for n in range(RECEIVERS)),
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def run(self, chance: random.Random) -> None:
        """Let it go on for a while; when that ends is anybody's guess."""
        enough, patience = len(self.acked) + 20, time.monotonic() + 60
        while len(self.acked) < enough and not self.wrong:
            assert time.monotonic() < patience
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 0.3))

    def _work(self, step: Any, number: int) -> None:
        try:
            with Caller(self.port) as caller:
                for turn in itertools.count():
                    if self._stop.is_set():
                        return
                    step(caller, f"{number}-{turn}")
        except BaseException as error:
            self.wrong.append(repr(error))
            raise

    def _send(self, caller: Caller, key: str) -> None:
        """Until it's answered: a repeat is the same send."""
        message = {"payload": {"text": key}, "dedup_key": key, "channel": key[0]}
        while not self._stop.is_set():
            with self._maybe():
                (id_,) = caller.post("/v1/queues/q/messages", {"messages": [message]})["ids"]
                with self._lock:
                    self.ids[key] = id_
                return

    def _take(self, caller: Caller, _: str) -> None:
        asked = {"max_messages": 10, "lease_seconds": LEASE_SECONDS, "wait_seconds": 0.2}
        with self._maybe():
            with self._lock:
                finished = set(self.acked)  # before the server is asked
            found = caller.post("/v1/queues/q/receive", asked)["deliveries"]
            with self._lock:
                for delivery in found:
                    id_, key = delivery["id"], delivery["payload"]["text"]
                    self.seen.setdefault(id_, set()).add(key)
                    if id_ in finished:
                        self.wrong.append(f"{id_} was acked, and came back")
            receipts = [delivery["receipt"] for delivery in found]
            if receipts:
                outcomes = caller.post("/v1/queues/q/ack", {"receipts": receipts})["items"]
                done = [one["outcome"] == "acked" for one in outcomes]
                with self._lock:
                    self.acked |= {
                        d["id"] for d, is_done in zip(found, done, strict=True) if is_done
                    }

    @contextlib.contextmanager
    def _maybe(self) -> Iterator[None]:
        """A block whose requests may have no answer."""
        try:
            yield
        except NO_ANSWER:
            self.broken += 1
            self._stop.wait(0.02)


@contextlib.contextmanager
def place(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder}/app.db"
    else:
        with migrated() as url:
            yield url


def drained(url: str, load: Load) -> None:
    """What is left comes back when its leases have run out, and nothing else does."""
    with turnabout.connect(url) as mq:
        queue = mq.queue("q")
        while (stats := queue.stats()).sent > stats.done:
            for message in queue.receive(100, wait_seconds=LEASE_SECONDS):
                assert message.id not in load.acked
                load.seen.setdefault(message.id, set()).add(message.text())
                message.ack()
        assert stats.done == len(load.seen)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_what_was_answered_has_happened(kind: str, tmp_path: Path) -> None:
    chance = random.Random()
    with place(kind, tmp_path) as url, contextlib.ExitStack() as stack:
        server: Process = stack.enter_context(process(url))
        post_once(server.port, "/v1/queues", {"queue": "q"})
        with Load(server.port) as load:
            for _ in range(KILLS - 1):
                load.run(chance)
                server.kill()
                server = stack.enter_context(process(url, port=server.port))
            load.run(chance)
            server.kill()
        drained(url, load)
    assert load.wrong == []
    assert load.broken > 0
    # Each id has one key and each key one id, so nothing was doubled; and all of it is there.
    keys = {key: id_ for id_, found in load.seen.items() for key in found}
    assert len(keys) == len(load.seen)
    assert load.ids.items() <= keys.items()
