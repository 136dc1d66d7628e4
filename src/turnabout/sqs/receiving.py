"""Actions that receive messages, and settle them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from turnabout.server.http.delivery_response import has_gone
from turnabout.server.uuids import message_uuid
from turnabout.sqs import attributes as attrs
from turnabout.sqs import message as m
from turnabout.sqs import shapes
from turnabout.sqs.errors import SqsError, bad_receipt, invalid
from turnabout.sqs.place import NamedReceive, SqsPlace, keep
from turnabout.sqs.protocol import batch_checked
from turnabout.sqs.sending import failure
from turnabout.words import verbs as v
from turnabout.words.entities import Delivery, QueueEntry, Receipt
from turnabout.words.outcomes import LeaseLost, Received

E = TypeVar("E", shapes.ReceiptShape, shapes.ChangeEntry)
Found = dict[str, Any]
Settle = Callable[[SqsPlace, QueueEntry, list[tuple[E, Receipt]]], Awaitable[list[SqsError | None]]]

MESSAGES_MAX = 10
VISIBILITY_MAX = 43_200
WAIT_MAX = 20
ATTEMPT_SECONDS, ATTEMPT_BYTES, ATTEMPTS_MAX = 300.0, 64 * 1024, 1_000


async def receive_message(at: SqsPlace, request: shapes.ReceiveMessage) -> tuple[Found, Received]:
    """Receive up to ten messages; the answer, and what was leased for it."""
    entry = await at.queue(request.queue_url, v.Receive)
    most, wait = request.max_number_of_messages, request.wait_time_seconds
    visibility = request.visibility_timeout
    if not 1 <= most <= MESSAGES_MAX:
        raise invalid("MaxNumberOfMessages", most, "Must be between 1 and 10, if provided.")
    if wait is not None and not 0 <= wait <= WAIT_MAX:
        raise invalid("WaitTimeSeconds", wait, "Must be >= 0 and <= 20, if provided.")
    if visibility is not None:
        _check_visibility(visibility)
    names = [*request.attribute_names, *request.message_system_attribute_names]
    for name in names:
        if name not in m.SYSTEM and name != "All":
            raise SqsError("InvalidAttributeName", f"Unknown Attribute {name}.")
    lease_ms = None if visibility is None else max(1, visibility * 1000)
    attempt = m.checked_id("ReceiveRequestAttemptId", request.receive_request_attempt_id)
    key = (at.caller.namespace, entry.name, attempt) if attempt and entry.settings.fifo else None
    known = None if key is None else at.memory.attempts.get(key)
    if known is not None and await _holds(at, entry, known, lease_ms):
        return known.answer, Received(())
    if wait is None:
        wait = int(attrs.kept_of(entry).get("ReceiveMessageWaitTimeSeconds", 0))
    verb = v.Receive(entry.name, most, lease_ms)
    received = await at.caller.receive(verb, float(wait), partial(has_gone, at.request))
    system = frozenset(m.SYSTEM if "All" in names else names)
    wanted = request.message_attribute_names
    messages = [_shown(at, entry, one, system, wanted) for one in received.deliveries]
    found: Found = {"Messages": messages} if messages else {}
    if key is not None and messages and received.size <= ATTEMPT_BYTES:
        receipts = tuple(one.receipt for one in received.deliveries)
        until = time.monotonic() + ATTEMPT_SECONDS
        keep(at.memory.attempts, key, NamedReceive(until, found, receipts), ATTEMPTS_MAX)
    return found, received


async def delete_message(at: SqsPlace, request: shapes.DeleteMessage) -> None:
    """Delete a message that was received."""
    await _one(at, request.queue_url, request, _delete)


async def delete_message_batch(at: SqsPlace, request: shapes.DeleteBatch) -> Found:
    """Delete messages."""
    return await _batch(at, request.queue_url, request.entries, _delete)


async def change_message_visibility(at: SqsPlace, request: shapes.ChangeVisibility) -> None:
    """Let a message be visible to others sooner, or later."""
    await _one(at, request.queue_url, request, _change)


async def change_message_visibility_batch(at: SqsPlace, request: shapes.ChangeBatch) -> Found:
    """Let messages be visible to others sooner, or later."""
    return await _batch(at, request.queue_url, request.entries, _change)


async def _one(at: SqsPlace, url: str, entry: E, settle: Settle[E]) -> None:
    queue = await at.queue(url, v.Ack)
    (error,) = await settle(at, queue, [(entry, m.receipt_of(entry.receipt_handle))])
    if error is not None:
        raise error


async def _batch(at: SqsPlace, url: str, entries: Sequence[E], settle: Settle[E]) -> Found:
    entry = await at.queue(url, v.Ack)
    good: list[tuple[E, Receipt]] = []
    failed: list[Found] = []
    for one in batch_checked(entries):
        try:
            good.append((one, m.receipt_of(one.receipt_handle)))
        except SqsError as error:
            failed.append(failure(one.id, error))
    errors = await settle(at, entry, good) if good else []
    found: list[Found] = []
    for (one, _), error in zip(good, errors, strict=True):
        if error is None:
            found.append({"Id": one.id})
        else:
            failed.append(failure(one.id, error))
    return {"Successful": found, "Failed": failed}


async def _delete(
    at: SqsPlace, entry: QueueEntry, entries: list[tuple[shapes.ReceiptShape, Receipt]]
) -> list[SqsError | None]:
    receipts = tuple(receipt for _, receipt in entries)
    outcomes = await at.caller.run(v.Ack(entry.name, receipts))
    errors: list[SqsError | None] = []
    for (one, receipt), outcome in zip(entries, outcomes, strict=True):
        error = None
        if isinstance(outcome, LeaseLost) and outcome.now != "gone":
            if entry.settings.fifo:
                error = invalid(
                    "ReceiptHandle", one.receipt_handle, "The receipt handle has expired."
                )
            elif outcome.now != "leased":
                await _delete_waiting(at, entry, receipt)
        errors.append(error)
    return errors


async def _delete_waiting(at: SqsPlace, entry: QueueEntry, receipt: Receipt) -> None:
    """Delete a message whose lease ran out and that nobody has received since: its receiver has
    handled it, only late.
    """
    insider = at.caller.insider()
    for found in await insider.run(v.Peek(entry.name, 1, after_id=receipt.id - 1)):
        if found.id == receipt.id and found.attempt == receipt.attempt:
            await insider.run(v.Cancel(entry.name, (receipt.id,)))


async def _change(
    at: SqsPlace, entry: QueueEntry, entries: list[tuple[shapes.ChangeEntry, Receipt]]
) -> list[SqsError | None]:
    errors: list[SqsError | None] = [None] * len(entries)
    by_time: dict[int, list[int]] = {}
    for place, (one, _) in enumerate(entries):
        try:
            _check_visibility(one.visibility_timeout)
        except SqsError as error:
            errors[place] = error
        else:
            by_time.setdefault(one.visibility_timeout, []).append(place)
    for seconds, places in by_time.items():
        receipts = tuple(entries[place][1] for place in places)
        verb = v.Extend(entry.name, receipts, seconds * 1000, exact=True)
        for place, outcome in zip(places, await at.caller.run(verb), strict=True):
            if isinstance(outcome, LeaseLost):
                errors[place] = _not_in_flight(entries[place][0].receipt_handle, outcome)
    return errors


def _not_in_flight(handle: str, outcome: LeaseLost) -> SqsError:
    if outcome.now == "gone":
        reason = "Message does not exist or is not available for visibility timeout change."
        return invalid("ReceiptHandle", handle, reason)
    if outcome.now == "leased":
        return bad_receipt(handle, "The message was received again.")
    return SqsError("MessageNotInflight", "The specified message isn't in flight.")


def _check_visibility(seconds: int) -> None:
    if not 0 <= seconds <= VISIBILITY_MAX:
        raise invalid("VisibilityTimeout", seconds, "Must be between 0 and 43200, if provided.")


async def _holds(
    at: SqsPlace, entry: QueueEntry, attempt: NamedReceive, lease_ms: int | None
) -> bool:
    """Whether a receive still holds all of its messages: then for as long again."""
    if time.monotonic() > attempt.until:
        return False
    outcomes = await at.caller.run(v.Extend(entry.name, attempt.receipts, lease_ms))
    return not any(isinstance(one, LeaseLost) for one in outcomes)


def _shown(
    at: SqsPlace,
    entry: QueueEntry,
    message: Delivery,
    system: frozenset[str],
    wanted: Iterable[str],
) -> Found:
    """A message as its receiver gets it."""
    body, attributes = m.unpacked(message)
    origin = message.origin
    sent_to = entry.name if origin is None else origin.queue
    found: Found = {
        "MessageId": message_uuid(message.id, sent_to),
        "ReceiptHandle": m.handle_of(message.receipt),
        "MD5OfBody": m.md5_of(body),
        "Body": body,
    }
    requested = m.asked_for(attributes, wanted)
    if requested:
        found["MessageAttributes"] = {name: m.shown(one) for name, one in requested.items()}
        found["MD5OfMessageAttributes"] = m.md5_of_attributes(requested)
    if system:
        values = _system_of(at, entry, message)
        found["Attributes"] = {name: text for name, text in values.items() if name in system}
    return found


def _system_of(at: SqsPlace, entry: QueueEntry, message: Delivery) -> dict[str, str]:
    token, headers = at.caller.token, message.headers
    values = {
        "SenderId": at.account if token is None else token.id,
        "SentTimestamp": str(message.sent_at),
        "ApproximateReceiveCount": str(message.attempt),
        "ApproximateFirstReceiveTimestamp": str(_first_receive(at, entry.name, message)),
    }
    if entry.settings.fifo:
        values["SequenceNumber"] = m.sequence_number(message.id)
        values["MessageDeduplicationId"] = headers.get(m.DEDUP, str(message.id))
    if message.channel:
        values["MessageGroupId"] = message.channel
    if m.TRACE in headers:
        values["AWSTraceHeader"] = headers[m.TRACE]
    if message.origin is not None and message.origin.queue != entry.name:
        values["DeadLetterQueueSourceArn"] = at.arn(message.origin.queue)
    return values


def _first_receive(at: SqsPlace, queue: str, message: Delivery) -> int:
    """The time of a message's first receive, as far as this process has seen it."""
    key = at.caller.namespace, queue, message.id
    now = message.lease_until - message.lease_ms
    if message.attempt == 1:
        keep(at.memory.first, key, now)
    return at.memory.first.get(key, now)
