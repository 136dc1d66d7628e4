"""Sends that may be repeated: `python examples/send_once.py [URL]`."""

import sys

import turnabout

URL = sys.argv[1] if len(sys.argv) > 1 else "sqlite://"

with turnabout.connect(URL) as mq:
    invoices = mq.queue("invoices")

    # The answer was lost, a user clicks twice: the same key, the same message.
    first = invoices.send({"order": 7}, dedup_key="order-7")
    again = invoices.send({"order": 7}, dedup_key="order-7")
    print("the same" if again.id == first.id else "another", again.duplicates)

    # In a batch each message has its own key; what is new is sent.
    orders = [turnabout.message({"order": n}, dedup_key=f"order-{n}") for n in (6, 7, 8)]
    print(invoices.send_many(orders).duplicates, invoices.stats().ready, "in all")

    # Only the newest state is of interest: the one that waits is replaced.
    screen = mq.queue("screen")
    screen.create(dedup_mode="latest")
    for degrees in (12, 13, 14):
        screen.send(degrees, dedup_key="outside")
    print([message.json() for message in screen.receive(10)])

    # While one build runs, one more is kept, however often it is asked for.
    builds = mq.queue("builds")
    builds.create(dedup_mode="rerun", dedup_scope="channel")
    builds.send("build", channel="main", dedup_key="build")
    (running,) = builds.receive()
    for _ in range(5):
        builds.send("build", channel="main", dedup_key="build")
    print(builds.stats().leased, "runs,", builds.stats().ready, "waits")
    running.ack()

# It prints:
#   the same (0,)
#   (1,) 3 in all
#   [14]
#   1 runs, 1 waits
