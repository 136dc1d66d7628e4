"""Delays, retries, saved state, and a lost lease: `python examples/delays_and_retries.py [URL]`."""

import sys

import turnabout

URL = sys.argv[1] if len(sys.argv) > 1 else "sqlite://"

with turnabout.connect(URL) as mq:
    calls = mq.queue("calls")
    calls.create(max_attempts=3, backoff_seconds=0.1, backoff_jitter=0)

    # Later.
    calls.send("ring", delay_seconds=1)
    batch = calls.receive()
    print(len(batch), "now; more within a second:", batch.retry_after_seconds <= 1)

    # A failure is charged; the message comes back after the back-off.
    (message,) = calls.receive(wait_seconds=5)
    print(type(message.fail("no answer")).__name__)

    # Deferring isn't a failure. The saved state comes with the next delivery.
    (message,) = calls.receive(wait_seconds=5)
    message.defer(delay_seconds=0.1, state=b"rang twice")
    (message,) = calls.receive(wait_seconds=5)
    print(message.state, "attempt", message.attempt, "failures", message.failures)
    message.release()

    # A late receipt changes nothing, and the answer says so.
    (late,) = calls.receive(lease_seconds=0.05)
    (message,) = calls.receive(wait_seconds=5)
    print(late.ack(), "crashes", message.crashes)
    print(message.ack())

# It prints:
#   0 now; more within a second: True
#   Retrying
#   b'rang twice' attempt 3 failures 1
#   LeaseLost(now='leased') crashes 1
#   Acked()
