"""What happens to messages that cannot be handled: `python examples/dead_letters.py [URL]`."""

import sys

import turnabout

URL = sys.argv[1] if len(sys.argv) > 1 else "sqlite://"

with turnabout.connect(URL) as mq:
    emails = mq.queue("emails")
    emails.create(max_attempts=2, backoff_seconds=0)

    emails.send({"to": "ada@example.org"}, channel="customer-1")
    emails.send({"to": "nobody"}, channel="customer-2")

    for message in emails.consume():
        if "@" in message.json()["to"]:
            print(message.fail("connection refused"))
        else:
            print(message.fail("no such address", retry=False))

    # A dead message is in an ordinary queue, together with its error history.
    dead = mq.queue("emails-dead")
    for letter in dead.peek():
        story = letter.origin
        print(letter.channel, story.reason, f"failures={story.failures}", story.last_error)

    # The server is back: send again what only failed, and let go of the rest.
    print(dead.redrive(error="connection", dry_run=True).moved, "would go back")
    redrive = dead.redrive(error="connection", per_second=100)
    print(redrive.moved, "went back:", redrive.state)
    print(dead.purge(), "and", emails.stats().ready, "ready again")

# It prints:
#   Retrying(due_at=…)
#   Dead(queue='emails-dead')
#   Dead(queue='emails-dead')
#   customer-1 attempts failures=2 connection refused
#   customer-2 refused failures=1 no such address
#   1 would go back
#   1 went back: done
#   Purged(messages=1) and 1 ready again
