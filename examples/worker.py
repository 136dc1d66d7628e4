"""A worker with handlers for two queues: `python examples/worker.py [URL]`.

It ends when there is nothing to do. In production leave out `until_empty`, or let
`turnabout worker module:worker` run it: then it works until SIGTERM.
"""

import sys

import turnabout
from turnabout.worker import GiveUp, Worker

URL = sys.argv[1] if len(sys.argv) > 1 else "sqlite:///example.db"

worker = Worker(URL, grace_seconds=10)


@worker.handler("orders", settings={"max_attempts": 3, "backoff_seconds": 0})
def handle_order(message):
    order = message.json()
    if order["items"] < 1:
        raise GiveUp("an order without items")  # dead at once
    if message.attempt == 1:
        raise ConnectionError("the shop is away")  # fails, and comes back after the back-off
    print("order", order["order"], "at attempt", message.attempt)  # a return acks


@worker.handler("receipts")
async def print_receipt(message):
    print("receipt", message.text())


with turnabout.connect(URL) as mq:
    mq.queue("orders").create(max_attempts=3, backoff_seconds=0)
    mq.queue("orders").send({"order": 1, "items": 0}, channel="shop-1")
    mq.queue("orders").send({"order": 2, "items": 3}, channel="shop-2")
    mq.queue("receipts").send("no. 7")

    stats = worker.run(until_empty=True)
    print(stats.handled, "handled,", stats.failed, "failed")

    for letter in mq.queue("orders-dead").consume():
        print("dead:", letter.json())  # acked when the loop asks for the next

# It prints, the first two in any order:
#   order 2 at attempt 2
#   receipt no. 7
#   2 handled, 2 failed
#   dead: {'order': 1, 'items': 0}
