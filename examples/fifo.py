"""Strict order inside each channel: `python examples/fifo.py [URL]`."""

import sys

import turnabout

URL = sys.argv[1] if len(sys.argv) > 1 else "sqlite://"

with turnabout.connect(URL) as mq:
    events = mq.queue("account-events")
    events.create(fifo=True, backoff_seconds=0)  # FIFO is decided when a queue is made

    for event in ("open", "deposit", "close"):
        events.send(event, channel="account-7")
    events.send("open", channel="account-8")

    # One message of each channel at a time, however many receive.
    seven, eight = events.receive(max_messages=10)
    print(seven.channel, seven.text(), "and", eight.channel, eight.text())
    print(len(events.receive(max_messages=10)), "more")

    # Channels do not wait for each other; a failed head stays the head.
    eight.ack()
    seven.fail("the bank does not answer")

    for message in events.consume():
        print(message.channel, message.text(), "attempt", message.attempt)

# It prints:
#   account-7 open and account-8 open
#   0 more
#   account-7 open attempt 2
#   account-7 deposit attempt 1
#   account-7 close attempt 1
