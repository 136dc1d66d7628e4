"""What happens to messages that cannot be handled: `python examples/dead_letters.py [URL]`."""

import sys

import penstock

URL = sys.argv[1] if len(sys.argv) > 1 else "sqlite://"

with penstock.connect(URL) as ps:
    emails = ps.queue("emails")
    emails.create(max_attempts=2, backoff_seconds=0)

    emails.send({"to": "ada@example.org"}, channel="customer-1")
    emails.send({"to": "nobody"}, channel="customer-2")

    for message in emails.messages():
        if "@" in message.json()["to"]:
            print(message.fail("connection refused"))
        else:
            print(message.fail("no such address", retry=False))

    # A dead message is in an ordinary queue, with its story.
    dead = ps.queue("emails-dead")
    for letter in dead.peek():
        story = letter.origin
        print(letter.channel, story.reason, f"failures={story.failures}", story.last_error)

    # The server is back: send again what only failed, and let go of the rest.
    for letter in dead.peek(1000):
        print(letter.id, "back" if letter.origin.reason == "attempts" else "let go")
    for letter in dead.messages():
        if "@" in letter.json()["to"]:
            emails.send(letter.payload, channel=letter.channel, content_type=letter.content_type)
        letter.ack()
    print(emails.stats().ready, "ready again")

# It prints:
#   Retrying(due_at=…)
#   Dead(queue='emails-dead')
#   Dead(queue='emails-dead')
#   customer-1 attempts failures=2 connection refused
#   customer-2 refused failures=1 no such address
#   1 back
#   2 let go
#   1 ready again
