"""A program that sends to a queue and works on it until its input ends; then it says what it did.

`python agent.py URL NAME`, with whatever version of the library PYTHONPATH names. Prints `ready`
after its first round, and at the end one line of JSON: what was sent, and what was acked.
"""

import json
import sys
import threading
from collections.abc import Callable
from typing import Any

import turnabout


def patiently(call: Callable[[], Any]) -> Any:
    """What the call answers; while a table is being changed it may be told to repeat it."""
    while True:
        try:
            return call()
        except turnabout.Busy:
            continue


def main(url: str, name: str) -> None:
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    sent: list[str] = []
    acked: list[str] = []
    with turnabout.connect(url) as mq:
        queue = mq.queue("work")
        while not stop.is_set():
            for channel in range(3):
                payload = f"{name}-{len(sent)}"
                sending = patiently(lambda p=payload, c=channel: queue.send(p, channel=f"c{c}"))
                assert isinstance(sending, turnabout.Sent)
                sent.append(payload)
            for message in patiently(lambda: queue.receive(4)):
                assert patiently(message.ack) == turnabout.Acked()
                acked.append(message.text())
            if len(sent) == 3:
                sys.stdout.write("ready\n")
                sys.stdout.flush()
    sys.stdout.write(json.dumps({"sent": sent, "acked": acked}))


if __name__ == "__main__":
    main(*sys.argv[1:])
