"""Attributes of a queue as SQS has them, and the settings of ours that do what they say.

The attributes that a client has set are kept in a label of the queue, beside its tags; what they
mean is kept in its settings. A queue that another program has made has them from its settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from turnabout.sqs.errors import SqsError, invalid
from turnabout.words.entities import QueueEntry, QueueStats

LABEL = "aws:sqs"
"""The label with the attributes. Tags are the other labels; SQS keeps `aws:` for itself."""
FIFO = ".fifo"
RUN = 10
"""Messages of a group that one receive of a FIFO queue may take."""
DEDUP_SECONDS = 300.0
TAGS_MAX, TAG_KEY_MAX, TAG_VALUE_MAX = 50, 128, 256
WHOLE = {
    "VisibilityTimeout": (0, 43_200, 30),
    "DelaySeconds": (0, 900, 0),
    "MaximumMessageSize": (1_024, 1_048_576, 1_048_576),
    "MessageRetentionPeriod": (60, 1_209_600, 345_600),
    "ReceiveMessageWaitTimeSeconds": (0, 20, 0),
    "KmsDataKeyReusePeriodSeconds": (60, 86_400, 300),
}
"""Least, most, default."""
CHOICES = {
    "ContentBasedDeduplication": ("true", "false"),
    "DeduplicationScope": ("messageGroup", "queue"),
    "FifoQueue": ("true", "false"),
    "FifoThroughputLimit": ("perQueue", "perMessageGroupId"),
    "SqsManagedSseEnabled": ("true", "false"),
}
FIFO_ONLY = frozenset({"ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"})
TEXTS = ("KmsMasterKeyId", "Policy", "RedriveAllowPolicy", "RedrivePolicy")
KNOWN = frozenset([*WHOLE, *CHOICES, *TEXTS])
COUNTS = {
    "ApproximateNumberOfMessages": "ready",
    "ApproximateNumberOfMessagesNotVisible": "leased",
    "ApproximateNumberOfMessagesDelayed": "scheduled",
}
_ARN = re.compile(r"arn:aws[a-z-]*:sqs:([a-z0-9-]*):([0-9]*):([A-Za-z0-9_.-]{1,80})")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo")


def checked_name(name: str, *, fifo: bool) -> str:
    """The name of a queue to make. Raises: SqsError."""
    if not _NAME.fullmatch(name):
        reason = "Can only include alphanumeric characters, hyphens, or underscores, 1 to 80."
    elif name[0] in "-_":
        reason = "This server's names begin with a letter or a digit."
    elif name.endswith(FIFO) != fifo:
        reason = "The name of a FIFO queue must end with the .fifo suffix, and no other may."
    else:
        return name
    raise invalid("QueueName", name, reason)


def name_in_arn(arn: str, parameter: str) -> str:
    """The queue that an ARN names. Raises: SqsError."""
    found = _ARN.fullmatch(arn)
    if found is None:
        raise invalid(parameter, arn, "It is not the ARN of a queue.")
    return found[3]


def kept_of(entry: QueueEntry) -> Mapping[str, str]:
    """The attributes that clients of SQS have set."""
    return _read((entry.settings.labels or {}).get(LABEL, "{}"))


def is_made_here(entry: QueueEntry) -> bool:
    """Whether a client of SQS has made the queue."""
    return LABEL in (entry.settings.labels or {})


def tags_of(entry: QueueEntry) -> dict[str, str]:
    """The tags of a queue."""
    return {name: text for name, text in (entry.settings.labels or {}).items() if name != LABEL}


def labels(attributes: Mapping[str, str], tags: Mapping[str, str]) -> dict[str, str]:
    """Labels that keep attributes and tags."""
    return {**tags, LABEL: json.dumps(attributes, separators=(",", ":"), ensure_ascii=False)}


def check_tags(tags: Mapping[str, str]) -> None:
    """Raises: SqsError."""
    if len(tags) > TAGS_MAX:
        raise invalid("Tags", len(tags), f"A queue has at most {TAGS_MAX} tags.")
    for key, value in tags.items():
        if not 1 <= len(key) <= TAG_KEY_MAX or key.lower().startswith("aws:"):
            raise invalid("Tags", key, "A tag's key has 1 to 128 characters, and not aws: before.")
        if len(value) > TAG_VALUE_MAX:
            raise invalid("Tags", key, "A tag's value has at most 256 characters.")


def checked(attributes: Mapping[str, str], *, fifo: bool) -> dict[str, str]:
    """Attributes to set, each with a value that it may have; empty texts take one back.

    Raises: SqsError.
    """
    for name, value in attributes.items():
        if name not in KNOWN or (name in FIFO_ONLY and not fifo):
            raise SqsError("InvalidAttributeName", f"Unknown Attribute {name}.")
        if name in WHOLE:
            least, most, _ = WHOLE[name]
            if not re.fullmatch("[0-9]{1,9}", value) or not least <= int(value) <= most:
                raise _wrong(name)
        elif name in CHOICES and value not in CHOICES[name]:
            raise _wrong(name)
        elif name in ("Policy", "RedrivePolicy", "RedriveAllowPolicy") and value:
            _json_object(name, value)
    return {name: value for name, value in attributes.items() if name != "FifoQueue"}


def settings_of_new(attributes: Mapping[str, str], *, fifo: bool) -> dict[str, Any]:
    """The settings of a queue to make. Raises: SqsError."""
    usual = {name: str(WHOLE[name][2]) for name in ("VisibilityTimeout", "MessageRetentionPeriod")}
    return {
        "fifo": fifo, "fifo_run": RUN if fifo else 1, "backoff_seconds": 0.0,
        "dedup_window_seconds": DEDUP_SECONDS, "max_attempts": None,
        **settings_of({**usual, **attributes}),
    }  # fmt: skip


def settings_of(attributes: Mapping[str, str]) -> dict[str, Any]:
    """The settings that do what these attributes say, and no others. Raises: SqsError."""
    found: dict[str, Any] = {}
    for name, text in attributes.items():
        match name:
            case "VisibilityTimeout":
                found["lease_seconds"] = max(int(text), 0.001)
            case "DelaySeconds":
                found["delay_seconds"] = float(text)
            case "MessageRetentionPeriod":
                found["ttl_seconds"] = float(text)
            case "DeduplicationScope":
                found["dedup_scope"] = "channel" if text == "messageGroup" else "queue"
            case "RedrivePolicy":
                target, most = redrive_of(attributes) or (None, None)
                found |= {"dead_letter": target, "max_attempts": most}
            case _:
                pass
    return found


def redrive_of(attributes: Mapping[str, str]) -> tuple[str, int] | None:
    """The dead-letter queue and the most receives of a redrive policy. Raises: SqsError."""
    text = attributes.get("RedrivePolicy")
    if not text:
        return None
    policy = _json_object("RedrivePolicy", text)
    arn, most = policy.get("deadLetterTargetArn"), str(policy.get("maxReceiveCount", ""))
    if not isinstance(arn, str) or not arn or not most:
        reason = "deadLetterTargetArn and maxReceiveCount are mandatory."
        raise invalid("RedrivePolicy", text, reason)
    if not re.fullmatch("[0-9]{1,4}", most) or not 1 <= int(most) <= 1_000:
        raise invalid("RedrivePolicy", text, "maxReceiveCount must be between 1 and 1000.")
    return name_in_arn(arn, "RedrivePolicy"), int(most)


def may_take_dead(target: QueueEntry, source: str) -> bool:
    """Whether a queue lets that one send its dead letters to it."""
    text = kept_of(target).get("RedriveAllowPolicy")
    policy = _json_object("RedriveAllowPolicy", text) if text else {}
    match policy.get("redrivePermission"):
        case "denyAll":
            return False
        case "byQueue":
            arns = [*map(str, policy.get("sourceQueueArns", ()))]
            return any(arn.endswith(f":{source}") for arn in arns)
        case _:
            return True


def own_attributes(entry: QueueEntry, arn_of: Callable[[str], str]) -> dict[str, str]:
    """All attributes of a queue but its counts."""
    settings, kept = entry.settings, kept_of(entry)
    found = {name: str(usual) for name, (_, _, usual) in WHOLE.items() if name[:3] != "Kms"}
    if settings.fifo:
        found |= {
            "FifoQueue": "true", "ContentBasedDeduplication": "false",
            "DeduplicationScope": "queue", "FifoThroughputLimit": "perQueue",
        }  # fmt: skip
    found |= {"SqsManagedSseEnabled": "false", **{n: text for n, text in kept.items() if text}}
    # Other programs may have changed these: the settings are what holds.
    found["VisibilityTimeout"] = str(round(settings.lease_seconds))
    found["DelaySeconds"] = str(round(settings.delay_seconds))
    if settings.ttl_seconds is not None:
        found["MessageRetentionPeriod"] = str(round(settings.ttl_seconds))
    if settings.max_attempts is None:
        found.pop("RedrivePolicy", None)
    elif "RedrivePolicy" not in found and entry.dead_letter is not None:
        target = arn_of(entry.dead_letter)
        policy = {"deadLetterTargetArn": target, "maxReceiveCount": settings.max_attempts}
        found["RedrivePolicy"] = json.dumps(policy)
    found["QueueArn"] = arn_of(entry.name)
    found["CreatedTimestamp"] = str(entry.created_at // 1000)
    found["LastModifiedTimestamp"] = str(entry.modified_at // 1000)
    return found


def counts(stats: QueueStats) -> dict[str, str]:
    """The attributes that count messages; exact here."""
    return {name: str(getattr(stats, what)) for name, what in COUNTS.items()}


READABLE = KNOWN | {*COUNTS, "QueueArn", "CreatedTimestamp", "LastModifiedTimestamp", "All"}


def check_names(names: Iterable[str]) -> frozenset[str]:
    """Names of attributes to read. Raises: SqsError."""
    for name in names:
        if name not in READABLE:
            raise SqsError("InvalidAttributeName", f"Unknown Attribute {name}.")
    return frozenset(names)


@lru_cache(maxsize=1_000)  # each message that is sent looks here
def _read(label: str) -> Mapping[str, str]:
    return json.loads(label)


def _json_object(name: str, text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
        raise _wrong(name) from error


def _wrong(name: str) -> SqsError:
    return SqsError("InvalidAttributeValue", f"Invalid value for the parameter {name}.")
