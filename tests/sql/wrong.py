"""What no send may be, at its limits and above: the same list for both stores' plain SQL."""

from typing import Any

from turnabout.words import limits

BIG = "x" * limits.PAYLOAD_BYTES_MAX
CHANNEL = "é" * (limits.CHANNEL_BYTES_MAX // 2) + "x"
NAME = "q" * limits.NAME_CHARS_MAX
YEAR = limits.DELAY_SECONDS_MAX


def headers(count: int, size: int = 1) -> dict[str, str]:
    """So many headers, of 3 + size bytes each."""
    return {f"{n:03}": "x" * size for n in range(count)}


AT_THE_LIMIT: list[dict[str, Any]] = [
    {"payload": ""},
    {"payload": BIG},
    {"queue": NAME},
    {"queue": f"{NAME}-dead"},
    {"queue": "0._-"},
    {"queue": f"{NAME}/{NAME}-dead"},
    {"queue": f"{NAME}-dead/{NAME}"},
    {"channel": CHANNEL},
    {"channel": ""},
    {"channel": "a b\n\tü'\""},
    {"priority": limits.PRIORITY_MIN},
    {"priority": limits.PRIORITY_MAX},
    {"delay_seconds": 0},
    {"delay_seconds": YEAR},
    {"ttl_seconds": 0.001},
    {"ttl_seconds": YEAR},
    {"headers": {}},
    {"headers": headers(limits.HEADERS_MAX)},
    {"headers": headers(1, limits.HEADERS_BYTES_MAX - 3)},
    {"headers": {"é\"'": "\n"}},
    {"content_type": "x"},
    {"content_type": "x" * limits.CONTENT_TYPE_CHARS_MAX},
    {"dedup_key": "k" * limits.DEDUP_KEY_BYTES_MAX},
    {"dedup_key": "k", "dedup_mode": "latest", "dedup_scope": "channel"},
    {"dedup_key": "k", "dedup_mode": "sliding", "dedup_window_seconds": 0.001},
]

# Arguments, and what the refusal speaks of.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"queue": ""}, "queue"),
    ({"queue": None}, "queue"),
    ({"queue": "a b"}, "queue"),
    ({"queue": "-a"}, "queue"),
    ({"queue": "é"}, "queue"),
    ({"queue": "a\n"}, "queue"),
    ({"queue": NAME + "q"}, "80 characters"),
    ({"queue": f"{NAME}q-dead"}, "80 characters"),
    ({"queue": "a/b/c"}, "queue"),
    ({"queue": "/a"}, "queue"),
    ({"queue": "a/"}, "queue"),
    ({"queue": "a/-b"}, "queue"),
    ({"queue": f"a/{NAME}q"}, "80 characters"),
    ({"queue": f"{NAME}q/a"}, "80 characters"),
    ({"payload": None}, "payload"),
    ({"payload": BIG + "x"}, "1048576"),
    ({"channel": CHANNEL + "x"}, "255 bytes"),
    ({"priority": limits.PRIORITY_MIN - 1}, "priority is"),
    ({"priority": limits.PRIORITY_MAX + 1}, "priority is"),
    ({"delay_seconds": -0.001}, "delay_seconds is"),
    ({"delay_seconds": YEAR + 1}, "delay_seconds is"),
    ({"ttl_seconds": 0}, "ttl_seconds is"),
    ({"ttl_seconds": YEAR + 1}, "ttl_seconds is"),
    ({"headers": []}, "headers are a JSON object of texts"),
    ({"headers": {"n": 1}}, "headers are a JSON object of texts"),
    ({"headers": {"n": None}}, "headers are a JSON object of texts"),
    ({"headers": {"": "x"}}, "headers are a JSON object of texts"),
    ({"headers": headers(limits.HEADERS_MAX + 1)}, "64 headers"),
    ({"headers": headers(1, limits.HEADERS_BYTES_MAX - 2)}, "16384 bytes"),
    ({"content_type": ""}, "content type"),
    ({"content_type": "x" * (limits.CONTENT_TYPE_CHARS_MAX + 1)}, "content type"),
    ({"content_type": "a\nb"}, "content type"),
    ({"dedup_key": ""}, "dedup key"),
    ({"dedup_key": "k" * (limits.DEDUP_KEY_BYTES_MAX + 1)}, "dedup key"),
    ({"dedup_mode": "window"}, "need a dedup_key"),
    ({"dedup_window_seconds": 1}, "need a dedup_key"),
    ({"dedup_scope": "queue"}, "need a dedup_key"),
    ({"dedup_key": "k", "dedup_mode": "sometimes"}, "dedup_mode"),
    ({"dedup_key": "k", "dedup_scope": "world"}, "dedup_scope"),
    ({"dedup_key": "k", "dedup_window_seconds": 0}, "dedup_window_seconds is"),
]
