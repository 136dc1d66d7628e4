"""The demo with the dashboard: a shop's e-mails for six tenants, until Ctrl-C; not all goes well.

`acme` floods its queue, `initech` sends addresses that are none, and nobody receives from half of
the channels: one of two workers was never started. The dashboard says so.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

import turnabout
from turnabout.words.urls import without_secrets
from turnabout.worker import Message, Worker

QUEUE = "emails"
TENANTS = {"acme": 60, "globex": 4, "hooli": 4, "initech": 2, "soylent": 4, "umbrella": 4}
"""Messages that each sends in a second."""
WORK_SECONDS = 0.03
TEXT = """\
[b]The dashboard:[/b] {link}

Six tenants send e-mails to the queue [b]{queue}[/b]. Not all goes well. Look for:
  1. who is starved, and why            (the queue's first page; give it half a minute)
  2. what fails, and with which error   (Dead letters, then a message)
  3. the tenant that floods: pause it   (Pause, in its row; Undo takes it back)
  4. a dead letter to try again         (Send back)
Ctrl-C ends it. The database: {database}"""


class Shop:
    """Senders and a worker on one database, in threads of this process."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._over = threading.Event()
        self._worker = Worker(url, shard=(1, 2), name="mailer")
        self._worker.handler(QUEUE, concurrency=2)(deliver)
        self._threads = [
            threading.Thread(target=one, daemon=True) for one in (self._send, self._worker.run)
        ]

    def open(self) -> None:
        """Make the queue, and begin."""
        with turnabout.connect(self._url) as mq:
            mq.queue(QUEUE).create(max_attempts=2, backoff_seconds=1, max_messages=50_000)
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop, and wait for the worker's last words."""
        self._over.set()
        self._worker.stop()
        for thread in self._threads:
            thread.join(10)

    def _send(self) -> None:
        with turnabout.connect(self._url) as mq:
            queue, number = mq.queue(QUEUE), 0
            while not self._over.wait(1.0):
                number += 1
                queue.send_many(
                    turnabout.message(email(tenant, number, copy), channel=tenant)
                    for tenant, count in TENANTS.items()
                    for copy in range(count)
                )


def email(tenant: str, number: int, copy: int) -> dict[str, Any]:
    """An e-mail to send; every other one of initech's has no address."""
    is_bad = tenant == "initech" and copy % 2
    to = "(unknown)" if is_bad else f"user{number}-{copy}@{tenant}.example"
    return {"to": to, "subject": f"Your order {number}"}


def deliver(message: Message) -> None:
    """Send an e-mail, as far as a demo can."""
    to = message.json()["to"]
    if "@" not in to:
        raise ValueError(f"{to!r} is not an address")
    time.sleep(WORK_SECONDS)


def run(url: str | None, folder: Path, until: Callable[[], None]) -> None:
    """Serve a database with the dashboard, and let the shop run until `until` returns."""
    logging.getLogger("turnabout").addHandler(logging.NullHandler())  # the pages show what fails
    console = Console(highlight=False, soft_wrap=True)
    database = url or f"sqlite:///{folder / 'shop.db'}"
    command = [sys.executable, "-m", "turnabout", "serve", "--url", database, "--port", "0"]
    with subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            if not line:  # it has said why
                raise turnabout.UsageError("the server did not start")
            told = json.loads(line)
            shop = Shop(database)
            shop.open()
            token = f"#token={told['token']}" if told.get("token") else ""
            link, shown = told["dashboard"] + token, without_secrets(database)
            console.print(TEXT.format(link=link, queue=QUEUE, database=shown))
            try:
                until()
            finally:
                shop.close()
        finally:
            server.terminate()
