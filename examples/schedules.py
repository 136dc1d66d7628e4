"""Messages at given times, and one that comes back by itself: `python examples/schedules.py [URL]`.

The first needs the extra `cron`: in the folder of your clone, `pip install '.[cron]'`.
"""

import sys
from datetime import UTC, datetime

import turnabout

URL = sys.argv[1] if len(sys.argv) > 1 else "sqlite://"

with turnabout.connect(URL) as mq:
    # Every program that needs it may say so at its start: it is there once.
    mq.schedules.set(
        "nightly", "reports", {"kind": "daily"}, cron="30 2 * * *", zone="Europe/Berlin"
    )
    first, second = mq.schedules.next("nightly", 2)
    print("it comes again within", round((second - first) / 3_600_000), "hours")

    # Workers and receivers send what is due; here is nobody else.
    mq.schedules.set("launch", "reports", "go", at=datetime(2026, 1, 31, 9, 0, tzinfo=UTC))
    print([sent.schedule for sent in mq.schedules.fire_due()], "then", mq.schedules.fire_due())
    (message,) = mq.queue("reports").receive()
    print(message.text(), "because of", message.headers["schedule"])
    message.ack()

    # Where the next time depends on the last one, a message defers itself, with a note to itself.
    poll = mq.queue("poll")
    poll.send("is it ready?")
    for message in poll.consume(wait_seconds=1):
        tries = int(message.state or b"0") + 1
        if tries < 3:
            message.defer(delay_seconds=0.01, state=str(tries).encode())
        else:
            message.ack()
            print("ready after", tries, "tries, charged", message.failures)
            break

# It prints:
#   it comes again within … hours
#   ['launch'] then ()
#   go because of launch
#   ready after 3 tries, charged 0
