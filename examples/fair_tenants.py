"""Tenants that share a queue, with limits of their own: `python examples/fair_tenants.py [URL]`."""

import sys
from collections import Counter

import turnabout
from turnabout import ChannelFull, Policy, Rate

URL = sys.argv[1] if len(sys.argv) > 1 else "sqlite://"

with turnabout.connect(URL) as mq:
    jobs = mq.queue("jobs")

    # The default for every tenant without a policy of its own.
    jobs.create(policy=Policy(max_concurrency=5, max_size=1000))

    # One pays for more, one is held back, one is paused.
    jobs.channel("gold").set_policy(Policy(weight=3, max_concurrency=100))
    jobs.channel("noisy").set_policy(Policy(rate=Rate(1, per_seconds=60, burst=2)))
    jobs.channel("unpaid").pause()

    for tenant in ("gold", "noisy", "silver", "unpaid"):
        jobs.send_many([turnabout.message(n, channel=tenant) for n in range(500)])

    for _ in range(3):
        got = Counter(message.channel for message in jobs.receive(max_messages=5))
        print(dict(sorted(got.items())))

    for channel in sorted(jobs.channels(), key=lambda c: c.channel):
        print(channel.channel, channel.ready, "ready,", channel.leased, "leased:", channel.blocked)

    match jobs.send_many([turnabout.message(n, channel="silver") for n in range(600)]):
        case ChannelFull(channel, max_size, size):
            print(f"{channel} has {size} of {max_size}: none of the 600 was taken")

# It prints:
#   {'gold': 3, 'noisy': 1, 'silver': 1}
#   {'gold': 3, 'noisy': 1, 'silver': 1}
#   {'gold': …, 'silver': …}
#   gold … ready, … leased: None
#   noisy 498 ready, 2 leased: rate
#   silver … ready, … leased: …
#   unpaid 500 ready, 0 leased: paused
#   silver has 500 of 1000: none of the 600 was taken
