"""Actions that send messages, one or ten."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from turnabout.server.uuids import message_uuid
from turnabout.sqs import attributes as attrs
from turnabout.sqs import message as m
from turnabout.sqs import shapes
from turnabout.sqs.errors import SqsError, invalid, missing, wrong
from turnabout.sqs.place import SqsPlace
from turnabout.sqs.protocol import batch_checked
from turnabout.words import verbs as v
from turnabout.words.entities import Outgoing, QueueEntry
from turnabout.words.outcomes import Sent

Found = dict[str, Any]
MESSAGE_BYTES_MAX = BATCH_BYTES_MAX = 1_048_576
DELAY_MAX = 900
NOT_OF_THIS_TYPE = "The request includes a parameter that is not valid for this queue type."


async def send_message(at: SqsPlace, request: shapes.SendMessage) -> Found:
    """Send a message."""
    entry = await at.queue(request.queue_url, v.Send)
    ids = await _send(at, entry, [_outgoing(at, entry, request)])
    return _answer(entry, request, ids[0])


async def send_message_batch(at: SqsPlace, request: shapes.SendBatch) -> Found:
    """Send messages; those that are wrong are told one by one, and the others are sent."""
    entry = await at.queue(request.queue_url, v.Send)
    entries = batch_checked(request.entries)
    if sum(m.size_of(one.message_body, {}) for one in entries) > BATCH_BYTES_MAX:
        raise SqsError("BatchRequestTooLong", "A batch has at most 1048576 bytes.")
    good: list[tuple[shapes.SendEntry, Outgoing]] = []
    failed: list[Found] = []
    for one in entries:
        try:
            good.append((one, _outgoing(at, entry, one)))
        except SqsError as error:
            failed.append(failure(one.id, error))
    found: list[Found] = []
    if good:
        try:
            ids = await _send(at, entry, [message for _, message in good])
        except SqsError as error:
            failed += [failure(one.id, error) for one, _ in good]
        else:
            pairs = zip(good, ids, strict=True)
            found = [{"Id": one.id, **_answer(entry, one, id_)} for (one, _), id_ in pairs]
    return {"Successful": found, "Failed": failed}


def failure(id_: str, error: SqsError) -> Found:
    """The error of an entry of a batch."""
    details = {"SenderFault": error.status < 500, "Code": error.code, "Message": error.text}
    return {"Id": id_, **details}


async def _send(at: SqsPlace, entry: QueueEntry, messages: list[Outgoing]) -> tuple[int, ...]:
    outcome = await at.caller.run(v.Send(entry.name, tuple(messages)))
    if not isinstance(outcome, Sent):
        raise SqsError("OverLimit", f"The queue or group is full: {outcome.size} messages.", 403)
    return outcome.ids


def _outgoing(at: SqsPlace, entry: QueueEntry, message: shapes.MessageShape) -> Outgoing:
    """The message that a queue keeps. Raises: SqsError."""
    kept = attrs.kept_of(entry)
    body = m.checked_body(message.message_body)
    attributes = m.checked_attributes(message.message_attributes)
    most = min(int(kept.get("MaximumMessageSize", MESSAGE_BYTES_MAX)), at.payload_bytes_max)
    if m.size_of(body, attributes) > most:
        text = f"Message must be shorter than {most} bytes."
        raise wrong(f"One or more parameters are invalid. Reason: {text}")
    delay = message.delay_seconds
    if delay is not None and not 0 <= delay <= DELAY_MAX:
        raise invalid("DelaySeconds", delay, "DelaySeconds must be >= 0 and <= 900.")
    key = _dedup_key(entry, kept, message)
    group = m.checked_id("MessageGroupId", message.message_group_id)
    if entry.settings.fifo and group is None:
        raise missing("MessageGroupId")
    if entry.settings.fifo and delay:
        raise invalid("DelaySeconds", delay, NOT_OF_THIS_TYPE)
    payload, content_type, headers = m.packed(body, attributes)
    if (trace := _trace_of(message)) is not None:
        headers[m.TRACE] = trace
    if key is not None:
        headers[m.DEDUP] = key
    return Outgoing(
        payload,
        content_type,
        channel=group or "",
        delay_ms=None if delay is None or entry.settings.fifo else delay * 1000,
        headers=headers or None,
        dedup_key=key,
        dedup_mode=None if key is None else "window",
    )


def _dedup_key(entry: QueueEntry, kept: Any, message: shapes.MessageShape) -> str | None:
    dedup_id = m.checked_id("MessageDeduplicationId", message.message_deduplication_id)
    if not entry.settings.fifo:
        if dedup_id is not None:
            raise invalid("MessageDeduplicationId", dedup_id, NOT_OF_THIS_TYPE)
        return None
    if dedup_id is None and kept.get("ContentBasedDeduplication") != "true":
        raise wrong(
            "The queue should either have ContentBasedDeduplication enabled or "
            "MessageDeduplicationId provided explicitly"
        )
    return dedup_id or sha256(message.message_body.encode()).hexdigest()


def _trace_of(message: shapes.MessageShape) -> str | None:
    """The trace header. Raises: SqsError for any other system attribute."""
    for name, one in message.message_system_attributes.items():
        if name != "AWSTraceHeader" or one.data_type != "String" or not one.string_value:
            raise wrong(f"Message system attribute name '{name}' is invalid.")
        return m.checked_body(one.string_value)
    return None


def _answer(entry: QueueEntry, message: shapes.MessageShape, id_: int) -> Found:
    found: Found = {
        "MessageId": message_uuid(id_, entry.name),
        "MD5OfMessageBody": m.md5_of(message.message_body),
    }
    if (digest := m.md5_of_attributes(message.message_attributes)) is not None:
        found["MD5OfMessageAttributes"] = digest
    if (digest := m.md5_of_attributes(message.message_system_attributes)) is not None:
        found["MD5OfMessageSystemAttributes"] = digest
    if entry.settings.fifo:
        found["SequenceNumber"] = m.sequence_number(id_)
    return found
