"""What random lives are made of: the values that `life` draws, chosen so that they meet."""

from typing import Any

from hypothesis import strategies as st

from tests.support.doors import START
from turnabout import Note, Policy, Rate, message
from turnabout.words.policy import DEDUP_MODES, DEDUP_SCOPES
from turnabout.words.records import EVERYTHING, RedriveFilter

CHANNELS = st.sampled_from(["a", "a", "", "ü"])
DELAYS = st.sampled_from([None, 0, 0, 0.5, 2])
LEASES = st.sampled_from([None, 0.001, 1, 5])
NOTES = st.sampled_from([None, None, Note("half", 0.5), Note(progress=1)])
EXTENDS = st.tuples(LEASES, NOTES, st.just(False)) | st.tuples(
    st.sampled_from([None, 0, 0.001, 1, 5]), NOTES, st.just(True)
)
"""The lease in seconds, a note, and whether it is exact."""
# All buckets fill in the same time: how much of an old rate's debt stays is left to the store.
RATES = st.sampled_from([Rate(1, 0.5), Rate(4, 1, 2), Rate(10, 1, 5)])
POLICIES = st.builds(
    Policy,
    max_concurrency=st.sampled_from([None, 1, 1, 2]),
    rate=st.none() | st.none() | RATES,
    max_size=st.sampled_from([None, None, None, 2, 3]),
    weight=st.sampled_from([None, None, 2, 3]),
    paused=st.sampled_from([False, False, False, False, True]),
)
DEFAULTS = st.sampled_from(
    [Policy(), Policy(max_size=3), Policy(max_concurrency=1), Policy(rate=Rate(1, 0.5))]
)
KEYS = st.fixed_dictionaries(
    {"dedup_key": st.sampled_from(["k", "k", "l"])},
    optional={
        "dedup_mode": st.sampled_from(DEDUP_MODES),
        "dedup_scope": st.sampled_from(DEDUP_SCOPES),
        "dedup_window_seconds": st.sampled_from([0.5, 5]),
    },
)
SLIDING = st.just({"dedup_key": "k", "dedup_mode": "sliding", "dedup_window_seconds": 0.5})
WHEN = st.sampled_from(
    [
        *({}, {"delay_seconds": 0}, {"due_at": START}),
        *({"delay_seconds": 0.5}, {"due_at": START + 3_000}),
    ]
)
MESSAGES = st.builds(
    lambda text, key, when, **options: message(text, **key, **when, **options),
    st.integers(0, 99).map(str),
    st.just({}) | KEYS,
    WHEN,
    channel=CHANNELS,
    priority=st.sampled_from([0, 0, -1, 1]),
    ttl_seconds=st.sampled_from([None, None, None, None, 1]),
)
CROWD = [message("c", channel=channel) for channel in ("", "a", "ü") for _ in range(3)]
WITH_CHANNEL = ["dead_letter_channel"]
WAYS = ["dead_letter"] * 4 + ["drop", "block", *WITH_CHANNEL]


def _possible(chosen: dict[str, Any]) -> dict[str, Any]:
    """Only a FIFO queue can block. Where messages take others of their channel with them, which
    of those go or expire first is left to the store, so there it is one lease and no time to live.
    """
    way = chosen["on_exhausted"]
    if way in WITH_CHANNEL:
        return {**chosen, "fifo": True, "fifo_run": 1, "ttl_seconds": None}
    fifo = chosen["fifo"] or way == "block"
    return {**chosen, "fifo": fifo, "fifo_run": chosen["fifo_run"] if fifo else 1}


GRAVES = st.sampled_from([None, "morgue"])
"""Where the dead go: a queue of the usual name, or of one that `life` makes of this word."""
LABELS = st.sampled_from([None, None, {"team": "ü"}])
LEVELS = st.sampled_from(["all", "all", "all", "hints", "off"])
SETTINGS = st.fixed_dictionaries(
    {
        "fifo": st.sampled_from([False, False, False, True]),
        "fifo_run": st.sampled_from([1, 1, 3]),
        "max_attempts": st.sampled_from([1, 2, 3, None]),
        "max_deliveries": st.sampled_from([None, None, None, 1, 3]),
        "queue_max_concurrency": st.sampled_from([None, None, None, 1, 2]),
        "queue_rate": st.none() | st.none() | st.none() | RATES,
        "lease_seconds": st.sampled_from([2, 30]),
        "backoff_seconds": st.sampled_from([0, 0.5]),
        "backoff_max_seconds": st.sampled_from([1, 60]),
        "backoff_jitter": st.just(0.0),
        "delay_seconds": st.sampled_from([0, 0, 1]),
        "history_seconds": st.sampled_from([0, 3600, 3600]),
        "history_failed_seconds": st.sampled_from([None, None, 0, 3600]),
        "on_exhausted": st.sampled_from(["dead_letter"] * 4 + ["drop", "block", *WITH_CHANNEL]),
        "dead_letter": GRAVES,
        "events": LEVELS,
        "ttl_seconds": st.sampled_from([None, None, None, 20]),
        "max_messages": st.sampled_from([None, None, None, 9]),
        "dedup_mode": st.sampled_from(DEDUP_MODES),
        "dedup_scope": st.sampled_from(DEDUP_SCOPES),
        "dedup_window_seconds": st.sampled_from([1, 300]),
        "policy": DEFAULTS,
        "labels": LABELS,
    }
).map(_possible)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "paused": st.sampled_from([False, False, True]),
        "max_attempts": st.sampled_from([1, 3, None]),
        "max_deliveries": st.sampled_from([None, 2]),
        "queue_max_concurrency": st.sampled_from([None, None, 1, 3]),
        "queue_rate": st.none() | RATES,
        "lease_seconds": st.just(7),
        "max_messages": st.sampled_from([None, 4]),
        "dedup_mode": st.sampled_from(DEDUP_MODES),
        "dedup_scope": st.sampled_from(DEDUP_SCOPES),
        "on_exhausted": st.sampled_from(["dead_letter", "drop"]),
        "dead_letter": GRAVES,
        "events": LEVELS,
        "policy": DEFAULTS,
        "labels": LABELS,
    },
)
PICKS = st.lists(st.integers(0, 30), min_size=1, max_size=3)
ONCE = st.none()
SETTLINGS = st.one_of(
    st.tuples(st.just("ack"), st.sampled_from([None, "r", {"n": 1}])),
    st.tuples(st.just("ack_and_receive"), st.sampled_from([None, "r", {"n": 1}])),
    st.tuples(
        st.just("fail"),
        st.tuples(st.sampled_from([True, True, True, False]), st.sampled_from([None, 0])),
    ),
    st.tuples(
        st.just("defer"),
        st.tuples(st.sampled_from([0, 0, 700]), st.sampled_from([None, b"s", b"t"])),
    ),
    st.tuples(st.just("release"), ONCE),
    st.tuples(st.just("extend"), EXTENDS),
    st.tuples(st.just("forge"), st.integers(-1, 2)),
)
CLEARED = st.tuples(st.sampled_from(["done", "failed", "all"]), st.sampled_from([None, 1, 1, 3]))
REDRIVES = st.fixed_dictionaries(
    {
        "filter": st.sampled_from(
            [EVERYTHING, EVERYTHING, RedriveFilter(channel="a"), RedriveFilter(error="error")]
        ),
        "max_redrives": st.sampled_from([3, 1]),
        "dry_run": st.sampled_from([False, False, True]),
    }
)
DEATHS = st.sampled_from([None, "its own", "elsewhere", "a neighbour's"])
CONFIGURINGS = st.one_of(
    st.tuples(st.just("clear_policy"), ONCE),
    st.tuples(st.just("pause_for"), st.sampled_from([1, 5, 60])),
    st.tuples(st.just("update"), CHANGES),
    st.tuples(st.just("purge"), st.sampled_from(["channel", "all", "leased", "dead"])),
    st.tuples(st.just("make_again"), SETTINGS),
    st.tuples(st.sampled_from(["reconnect", "maintain", "redrive_slowly"]), ONCE),
)
