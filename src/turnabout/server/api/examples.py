"""Requests and answers that the OpenAPI document shows; a test reads each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "send": {
        "request": {
            "messages": [
                {"payload": {"json": {"to": "ada@example.com"}}, "channel": "ada"},
                {"payload": {"text": "later"}, "delay_seconds": 60, "priority": 5},
            ]
        },
        "answer": {"outcome": "sent", "ids": [4711, 4712]},
    },
    "receive": {
        "request": {"max_messages": 10, "lease_seconds": 30, "wait_seconds": 20},
        "answer": {
            "deliveries": [
                {
                    "receipt": "4711.1",
                    "id": 4711,
                    "attempt": 1,
                    "channel": "ada",
                    "priority": 0,
                    "payload": {"json": {"to": "ada@example.com"}},
                    "content_type": "application/json",
                    "failures": 0,
                    "crashes": 0,
                    "sent_at": 1767225600000,
                    "lease_until": 1767225630000,
                    "lease_seconds": 30.0,
                }
            ]
        },
    },
    "ack": {
        "request": {"receipts": ["4711.1", "4712.3"]},
        "answer": {"items": [{"outcome": "acked"}, {"outcome": "lease_lost", "now": "gone"}]},
    },
}
