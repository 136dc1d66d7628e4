"""Messages that are put aside to be sent together, by columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from turnabout.words import limits
from turnabout.words.entities import Outgoing
from turnabout.words.errors import UsageError
from turnabout.words.payload import BYTES

STAGED_FIELDS: Final = tuple(
    name for name in Outgoing.__struct_fields__ if name not in ("payload", "due_at")
)
"""The columns of staged messages, as `Outgoing` has them."""


class StagedMessages(Struct):
    """Messages for a queue, by columns.

    payloads      one for each message
    content_type  of those for which the column `content_type` has none
    columns       by name the other fields of `Outgoing` that any message has (headers as JSON),
                  each as long as the payloads; None leaves the default
    """

    queue: str
    payloads: list[bytes]
    content_type: str = BYTES
    columns: dict[str, list[Any]] = {}

    def __post_init__(self) -> None:
        limits.queue_name(self.queue)

    @classmethod
    def of(cls, queue: str, messages: Iterable[Outgoing]) -> StagedMessages:
        """Some messages. Raises: UsageError for a due_at: a delay is from the publishing on."""
        made = cls(queue, [])
        for message in messages:
            if message.due_at is not None:
                raise UsageError("a staged message has a delay, and no due_at")
            headers = json.dumps(dict(message.headers)) if message.headers else None
            fields = {name: getattr(message, name) for name in STAGED_FIELDS} | {"headers": headers}
            made.add([message.payload], {n: [v] for n, v in fields.items() if v not in (None, "")})
        return made

    def add(self, payloads: Sequence[bytes], columns: Mapping[str, Sequence[Any]]) -> None:
        """Put messages behind those that are there."""
        for name in self.columns.keys() | columns.keys():
            column = self.columns.setdefault(name, [None] * len(self.payloads))
            column.extend(columns.get(name) or [None] * len(payloads))
        self.payloads.extend(payloads)

    def messages(self) -> Iterator[Outgoing]:
        """The messages one by one, as they were put in."""
        for number, payload in enumerate(self.payloads):
            fields: dict[str, Any] = {"content_type": self.content_type}
            for name, column in self.columns.items():
                if column[number] is not None:
                    fields[name] = column[number]
            if "headers" in fields:
                fields["headers"] = json.loads(fields["headers"])
            yield Outgoing(payload, **fields)
