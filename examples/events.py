"""What happens, as it happens, and after an absence: `python examples/events.py [URL]`."""

import sys
import threading

import turnabout

URL = sys.argv[1] if len(sys.argv) > 1 else "sqlite://"

with turnabout.connect(URL) as mq:
    orders = mq.queue("orders")
    orders.create(events="all", backoff_seconds=0)

    begun = threading.Event()
    cursors: list[str] = []

    def watch() -> None:
        """Print what happens until the order is done. It could be another program."""
        for event in orders.events():
            cursors.append(event.cursor)
            begun.set()
            if event.channel == "shop-7":
                print(event.kind, "attempt", event.attempt)
            if event.kind == "done":
                break

    watcher = threading.Thread(target=watch)
    watcher.start()
    while not begun.wait(0.1):  # it tells what happens from its first step on
        orders.send("is anybody there?", channel="hello")
    orders.purge(channel="hello")

    orders.send({"order": 4711}, channel="shop-7")
    orders.receive()[0].fail("no paper")
    orders.receive()[0].ack()
    watcher.join()

    # A reader that was away continues where it stopped, for up to a day.
    orders.send({"order": 4712}, channel="shop-8")
    for event in orders.events(after=cursors[-1], idle_seconds=0.5):
        print("meanwhile:", event.kind, event.channel)

# It prints:
#   created attempt 0
#   leased attempt 1
#   failed attempt 1
#   leased attempt 2
#   done attempt 2
#   meanwhile: created shop-8
