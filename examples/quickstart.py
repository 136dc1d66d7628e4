"""Send, receive, ack: `python examples/quickstart.py [URL]`."""

import sys

import turnabout

URL = sys.argv[1] if len(sys.argv) > 1 else "sqlite://"  # in memory

with turnabout.connect(URL) as mq:
    emails = mq.queue("emails")

    emails.send({"to": "ada@example.org"}, channel="customer-1")
    emails.send_many(
        [turnabout.message({"to": f"user-{n}@example.org"}, channel="customer-2") for n in range(3)]
    )

    # Channels are served in turn: customer-1 does not wait for all of customer-2.
    for message in emails.receive(max_messages=2):
        print(message.channel, message.json()["to"])
        message.ack()

    # The short form: each is acked when the loop asks for the next, in one call with it.
    for message in emails.consume(max_messages=10):
        print(message.channel, message.json()["to"])

    print(emails.stats().done, "done")

# It prints:
#   customer-1 ada@example.org
#   customer-2 user-0@example.org
#   customer-2 user-1@example.org
#   customer-2 user-2@example.org
#   4 done
