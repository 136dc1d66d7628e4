"""Messages as SQS has them: bodies, attributes with their digests, ids and receipt handles.

Attributes are kept in one header, or, where they are too large for headers, with the body in an
envelope. A message that another program has sent has its headers as attributes.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import md5
from operator import itemgetter

import msgspec

from turnabout.sqs.errors import SqsError, bad_receipt, invalid, missing, wrong
from turnabout.sqs.shapes import AttributeValue
from turnabout.words.entities import Delivery, Receipt
from turnabout.words.errors import UsageError
from turnabout.words.payload import TEXT

ATTRIBUTES, TRACE, DEDUP = "sqs-attributes", "x-amzn-trace-id", "sqs-deduplication-id"
"""Headers: attributes as JSON, the trace of AWS X-Ray, the deduplication id."""
ENVELOPE = "application/vnd.turnabout.sqs+json"
"""The content type of a body with attributes that are too large for headers."""
HEADER_BYTES = 12 * 1024
ATTRIBUTES_MAX = 10
SYSTEM = (
    "SenderId", "SentTimestamp", "ApproximateReceiveCount", "ApproximateFirstReceiveTimestamp",
    "SequenceNumber", "MessageDeduplicationId", "MessageGroupId", "AWSTraceHeader",
    "DeadLetterQueueSourceArn",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9_-](?:[A-Za-z0-9_.-]{0,254}[A-Za-z0-9_-])?")
_TYPE = re.compile(r"(String|Number|Binary)(\..+)?", re.DOTALL)
_NUMBER = re.compile(r"[+-]?([0-9]{1,38}\.?[0-9]{0,38}|\.[0-9]{1,38})([eE][+-]?[0-9]{1,3})?")
_ID = re.compile(r"[A-Za-z0-9!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]{1,128}")
NOT_ALLOWED = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Attributes = Mapping[str, AttributeValue]
Kept = dict[str, tuple[str, str]]
"""Attributes as they are kept: types and values."""


class Envelope(msgspec.Struct):
    """A body and its attributes in one payload."""

    body: str
    attributes: Kept


def checked_body(text: str) -> str:
    """A message's body. Raises: SqsError."""
    if not text:
        raise missing("MessageBody")
    _check_characters(text, "the message body")
    return text


def checked_id(name: str, text: str | None) -> str | None:
    """A group or a deduplication id. Raises: SqsError."""
    if text is not None and not _ID.fullmatch(text):
        raise invalid(
            name, text,
            f"{name} can only include alphanumeric and punctuation characters. 1 to 128 in length.",
        )  # fmt: skip
    return text


def checked_attributes(attributes: Attributes) -> Attributes:
    """Attributes of a message to send. Raises: SqsError."""
    if len(attributes) > ATTRIBUTES_MAX:
        raise wrong(
            f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum [10]."
        )
    for name, one in attributes.items():
        if not _NAME.fullmatch(name) or ".." in name or re.match("(?i)(aws|amazon)\\.", name):
            raise wrong(f"Invalid message attribute name: {name[:200]}")
        kind = _TYPE.fullmatch(one.data_type or "")
        if not one.data_type:
            raise wrong(f"The message attribute '{name}' must contain non-empty attribute type.")
        if kind is None or len(one.data_type) > 256:
            raise wrong(f"The type of message attribute '{name}' is not Binary, Number or String.")
        value = one.binary_value if kind[1] == "Binary" else one.string_value
        if not value:
            raise wrong(f"The message attribute '{name}' must contain a non-empty {kind[1]} value.")
        if kind[1] == "Binary":
            _decoded(value, name)
        else:
            _check_characters(value, f"the message attribute '{name}'")
        if kind[1] == "Number" and not _NUMBER.fullmatch(value):
            raise wrong(f"Could not cast message attribute '{name}' value to number.")
    return attributes


def size_of(body: str, attributes: Attributes) -> int:
    """Bytes of a message, as its queue's limit counts them."""
    size = len(body.encode())
    for name, one in attributes.items():
        value = _value(one)
        size += len(name.encode()) + len((one.data_type or "").encode()) + len(value)
    return size


def md5_of(text: str) -> str:
    """The digest of a body."""
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def md5_of_attributes(attributes: Attributes) -> str | None:
    """The digest of attributes; None: there are none. Source: the developer guide, *Calculating the
    MD5 message digest for message attributes*.
    """
    if not attributes:
        return None
    found = md5(usedforsecurity=False)
    for name, one in sorted(attributes.items(), key=itemgetter(0)):
        kind = one.data_type or ""
        for part in (name.encode(), kind.encode()):
            found.update(len(part).to_bytes(4, "big") + part)
        value = _value(one)
        found.update(b"\2" if kind.startswith("Binary") else b"\1")
        found.update(len(value).to_bytes(4, "big") + value)
    return found.hexdigest()


def packed(body: str, attributes: Attributes) -> tuple[bytes, str, dict[str, str]]:
    """Payload, content type and headers that keep a body and its attributes."""
    if not attributes:
        return body.encode(), TEXT, {}
    kept = {name: _kept(one) for name, one in attributes.items()}
    text = json.dumps(kept, separators=(",", ":"), ensure_ascii=False)
    if len(text.encode()) <= HEADER_BYTES:
        return body.encode(), TEXT, {ATTRIBUTES: text}
    return msgspec.json.encode(Envelope(body, kept)), ENVELOPE, {}


def unpacked(message: Delivery) -> tuple[str, Attributes]:
    """The body and the attributes of a message. Any program may have sent it, so content that only
    looks like ours is shown as it is.
    """
    headers = message.headers
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, SqsError):
        if message.content_type == ENVELOPE:
            whole = msgspec.json.decode(message.payload, type=Envelope)
            return whole.body, _read(whole.attributes)
        if ATTRIBUTES in headers:
            kept = msgspec.json.decode(headers[ATTRIBUTES], type=Kept)
            return message.payload.decode(), _read(kept)
    try:
        body = message.payload.decode()
    except UnicodeDecodeError:
        body = b64encode(message.payload).decode()
    return body, {
        name: AttributeValue("String", text)
        for name, text in headers.items()
        if text and name not in (TRACE, DEDUP)
    }


def asked_for(attributes: Attributes, names: Iterable[str]) -> dict[str, AttributeValue]:
    """The attributes that a receiver wants: by their names, `All`, or a prefix such as `a.*`."""
    exact = {name for name in names if not name.endswith(".*")}
    starts = tuple(name[:-2] for name in names if name.endswith(".*"))
    if "All" in exact:
        starts = ("",)
    return {
        name: one
        for name, one in attributes.items()
        if name in exact or (starts and name.startswith(starts))
    }


def shown(one: AttributeValue) -> dict[str, str]:
    """An attribute in an answer."""
    kind = one.data_type or "String"
    if kind.startswith("Binary"):
        return {"BinaryValue": one.binary_value or "", "DataType": kind}
    return {"StringValue": one.string_value or "", "DataType": kind}


# --- ids and receipts --------------------------------------------------------------------------


def sequence_number(id_: int) -> str:
    """The sequence number of a message in a FIFO queue: 20 digits."""
    return f"{id_:020d}"


def handle_of(receipt: Receipt) -> str:
    """A receipt as a handle."""
    return urlsafe_b64encode(str(receipt).encode()).decode()


def receipt_of(handle: str) -> Receipt:
    """The receipt in a handle. Raises: SqsError."""
    try:
        return Receipt.parse(urlsafe_b64decode(handle.encode()).decode())
    except (UsageError, Base64Error, ValueError) as error:
        raise bad_receipt(handle) from error


def _kept(one: AttributeValue) -> tuple[str, str]:
    return one.data_type or "", one.binary_value or one.string_value or ""


def _read(kept: Kept) -> Attributes:
    """Attributes that were kept. Raises: SqsError if they cannot be ours."""
    return checked_attributes({
        name: AttributeValue(kind, binary_value=value)
        if kind.startswith("Binary")
        else AttributeValue(kind, value)
        for name, (kind, value) in kept.items()
    })  # fmt: skip


def _value(one: AttributeValue) -> bytes:
    if (one.data_type or "").startswith("Binary"):
        return b64decode(one.binary_value or "")
    return (one.string_value or "").encode()


def _decoded(value: str, name: str) -> bytes:
    try:
        return b64decode(value, validate=True)
    except (Base64Error, ValueError) as error:
        raise wrong(f"The message attribute '{name}' is not base64.") from error


def _check_characters(text: str, what: str) -> None:
    if found := NOT_ALLOWED.search(text):
        raise SqsError(
            "InvalidMessageContents",
            f"Invalid binary character '#x{ord(found[0]):X}' was found in {what}, the set of "
            "allowed characters is #x9 | #xA | #xD | [#x20 to #xD7FF] | [#xE000 to #xFFFD] | "
            "[#x10000 to #x10FFFF]",
        )
