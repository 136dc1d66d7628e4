"""Every limit on names, sizes and numbers, said once, with the check that refuses the rest.

A check returns the value in the form that stores keep (bytes, integer milliseconds) or raises
`UsageError` with what was wrong and what is allowed. Wrong types are refused, never converted.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from turnabout.words.errors import UsageError

NAME_CHARS_MAX = 80
CHANNEL_BYTES_MAX = 255
PAYLOAD_BYTES_MAX = 1024 * 1024
"""Unless `connect(max_payload_bytes=…)` says otherwise."""
PAYLOAD_BYTES_HARD_MAX = 256 * 1024 * 1024
STATE_BYTES_MAX = 1024 * 1024
HEADERS_MAX = 64
HEADERS_BYTES_MAX = 16 * 1024
CONTENT_TYPE_CHARS_MAX = 255
ERROR_CHARS_MAX = 16 * 1024
ERRORS_MAX = 10
"""Errors kept of a message's failed attempts: the first, and the last ones."""
RESULT_BYTES_MAX = 1024 * 1024
DEDUP_KEY_BYTES_MAX = 255
REASON_CHARS_MAX = 1024
LABELS_BYTES_MAX = 16 * 1024
LABEL_NAME_CHARS_MAX = 255
NOTE_CHARS_MAX = 1024
WORKER_BYTES_MAX = 255
OWNER_CHARS_MAX = 255
POSITION_BYTES_MAX = 1_000_000
"""A place in the log; on SQLite it names each queue."""
SEND_MESSAGES_MAX = 10_000
IDS_MAX = 10_000
REDRIVE_IDS_MAX = 1_000
"""Ids in a redrive's filter: they are stored with it, and listed with it."""
RECEIVE_MESSAGES_MAX = 1_000
PEEK_MESSAGES_MAX = 1_000
PRIORITY_MIN, PRIORITY_MAX = -32_768, 32_767
INTEGER_MAX = 2**31 - 1
ID_MAX = 2**63 - 1
LEASE_SECONDS_MAX = 7 * 86_400
LEASE_MS_MAX = LEASE_SECONDS_MAX * 1000
DELAY_SECONDS_MAX = 366 * 86_400
WAIT_SECONDS_MAX = 3600
JSON_DEPTH_MAX = 64
DEAD_SUFFIX = "-dead"
STATES = ("scheduled", "ready", "leased")
FOREVER_MS = 9_000_000_000_000_000
"""Due never: until a person says otherwise. Above every instant, exact in a double."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def queue_name(name: object) -> str:
    """A plain name, or `namespace/name`: a queue of a server's tenant, as the database keeps it."""
    if isinstance(name, str) and "/" in name:
        namespace, _, rest = name.partition("/")
        plain_name(namespace)
        plain_name(rest)
        return name
    return plain_name(name)


def plain_name(name: object, what: str = "queue") -> str:
    """Letters, digits, `_`, `.`, `-`; 1 to 64 of them, not counting a final `-dead`."""
    if not isinstance(name, str):
        raise UsageError(f"a {what}'s name is a str, not {type(name).__name__}")
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{shown(name)} is not a valid {what} name: use letters, digits, '_', '.' and '-', "
            "and start with a letter or digit"
        )
    if len(name.removesuffix(DEAD_SUFFIX)) > NAME_CHARS_MAX:
        raise UsageError(
            f"a {what}'s name has at most {NAME_CHARS_MAX} characters, not {len(name)}"
        )
    return name


def names(value: object, what: str, most: int) -> tuple[str, ...]:
    """A tuple of at most `most` names, without repeats."""
    if not isinstance(value, tuple):
        raise UsageError(f"{what} are a tuple of str, not {type(value).__name__}")
    texts = cast("tuple[str, ...]", value)
    whole(len(texts), what, 0, most)
    for name in texts:
        queue_name(name)
    if len(set(texts)) < len(texts):
        raise UsageError(f"{what} holds the same name twice: name each once")
    return texts


def channel_name(name: object) -> str:
    """Any text without NUL and lone surrogates, at most 255 bytes in UTF-8; `""` is the default."""
    if type(name) is str and name.isascii() and len(name) <= CHANNEL_BYTES_MAX and "\0" not in name:
        return name  # as most are: thousands are looked at a second
    encoded = utf8(name, "a channel's name")
    if len(encoded) > CHANNEL_BYTES_MAX:
        raise UsageError(
            f"a channel's name has at most {CHANNEL_BYTES_MAX} bytes in UTF-8, not {len(encoded)}"
        )
    assert isinstance(name, str)
    return name


def optional_channel(name: object) -> str | None:
    """A channel name, or None for any channel."""
    return None if name is None else channel_name(name)


def utf8(text: object, what: str) -> bytes:
    """The text in UTF-8; NUL and lone surrogates are refused, as no database keeps both."""
    if not isinstance(text, str):
        raise UsageError(f"{what} is a str, not {type(text).__name__}")
    if "\x00" in text:
        raise UsageError(f"{what} holds a NUL character, which databases cannot keep in text")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{what} holds a lone surrogate, which is not valid Unicode") from error


def payload(data: object, most: int = PAYLOAD_BYTES_MAX) -> bytes:
    """The bytes of a payload, not more than `most` of them."""
    if not isinstance(data, bytes):
        raise UsageError(
            f"a message's payload is bytes here, not {type(data).__name__}: turnabout.message(…) "
            "makes bytes of text and of what JSON can say"
        )
    if len(data) > most:
        raise UsageError(
            f"the payload has {len(data):,} bytes, over the limit of {most:,}: "
            "store it elsewhere and send its address"
        )
    return data


def state(data: object) -> bytes:
    """Saved state: bytes, not more than a mebibyte."""
    return _at_most(data, "state", STATE_BYTES_MAX)


def result(data: object) -> bytes:
    """The result of an ack: bytes, not more than a mebibyte."""
    return _at_most(data, "a result's data", RESULT_BYTES_MAX)


def _at_most(data: object, what: str, most: int) -> bytes:
    if not isinstance(data, bytes):
        raise UsageError(f"{what} is bytes here, not {type(data).__name__}")
    if len(data) > most:
        raise UsageError(f"{what} has {len(data):,} bytes, over the limit of {most:,}")
    return data


def content_type(text: object) -> str:
    """Printable text of 1 to 255 characters, such as `application/json`."""
    utf8(text, "a content type")
    assert isinstance(text, str)
    if not text or len(text) > CONTENT_TYPE_CHARS_MAX or not text.isprintable():
        raise UsageError(
            f"a content type has 1 to {CONTENT_TYPE_CHARS_MAX} printable characters, "
            f"not {shown(text)}"
        )
    return text


def headers(mapping: object) -> dict[str, str]:
    """Up to 64 text headers, 16 KiB together, names not empty."""
    if not isinstance(mapping, Mapping):
        raise UsageError(f"headers are a mapping of str to str, not {type(mapping).__name__}")
    texts = cast("Mapping[str, str]", mapping)
    if len(texts) > HEADERS_MAX:  # before each of a million is looked at
        raise UsageError(f"a message has at most {HEADERS_MAX} headers, not {len(texts):,}")
    clean: dict[str, str] = {}
    total = 0
    for name, value in texts.items():
        total += len(utf8(name, "a header's name")) + len(utf8(value, "a header's value"))
        if not name:
            raise UsageError("a header's name is not empty")
        clean[name] = value
    if total > HEADERS_BYTES_MAX:
        raise UsageError(
            f"a message's headers have at most {HEADERS_BYTES_MAX:,} bytes together, not {total:,}"
        )
    return clean


def error_text(text: object) -> str:
    """The text of a failure. Over the limit, its middle is cut: a traceback's ends tell most."""
    if not isinstance(text, str):
        raise UsageError(f"error is a str, not {type(text).__name__}")
    clean = text.replace("\x00", "\\x00").encode(errors="backslashreplace").decode()
    if len(clean) <= ERROR_CHARS_MAX:
        return clean
    half = ERROR_CHARS_MAX // 2 - 40
    return f"{clean[:half]}\n… {len(clean) - 2 * half:,} characters cut …\n{clean[-half:]}"


def worker_text(text: object, what: str = "worker", most: int = WORKER_BYTES_MAX) -> str:
    """The name of a worker, or what it says of itself."""
    if not 0 < len(utf8(text, what)) <= most:
        raise UsageError(f"{what} has 1 to {most} bytes")
    assert isinstance(text, str)
    return text


def progress(value: object) -> None:
    """Check for None or a share from 0 to 1."""
    if value is None:
        return
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= 1:
        raise UsageError(f"a note's progress is a number from 0 to 1, not {shown(value)}")


def whole(value: object, what: str, least: int, most: int) -> int:
    """An int in a range; a bool or a float is refused."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"{what} is an int, not {type(value).__name__}")
    if not least <= value <= most:
        raise UsageError(f"{what} is {least:,} to {most:,}, not {shown(value)}")
    return value


def optional_whole(value: object, what: str, least: int, most: int) -> int | None:
    """Check for None or an int in a range."""
    return None if value is None else whole(value, what, least, most)


def messages_in_one_send(count: int) -> None:
    """Check the number of messages in a send: it is one transaction."""
    if count > SEND_MESSAGES_MAX:
        raise UsageError(
            f"one send takes at most {SEND_MESSAGES_MAX:,} messages, not {count:,}: send in parts"
        )


def one_each(results: Sequence[object], receipts: Sequence[object]) -> None:
    """Check for as many results as receipts."""
    if isinstance(results, (str, bytes)) or len(results) != len(receipts):
        raise UsageError("results is a list with one value for each receipt; None for no result")


def duration_ms(value: object, what: str) -> int:
    """Whole milliseconds, as entities carry them."""
    return whole(value, what, 0, DELAY_SECONDS_MAX * 1000)


def state_name(value: object) -> str | None:
    """Check for None or a state of an unfinished message."""
    if value is None or value in STATES:
        return value
    raise UsageError(f"a state is one of {', '.join(STATES)}, not {shown(value)}")


def flag(value: object, what: str) -> bool:
    """A bool; nothing else counts as true or false."""
    if not isinstance(value, bool):
        raise UsageError(f"{what} is True or False, not {shown(value)}")
    return value


def milliseconds(seconds: object, what: str, most: float, *, least: float = 0.0) -> int:
    """Seconds (int or float) as whole milliseconds, rounded up so that nothing comes early."""
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
        raise UsageError(f"{what} is a number of seconds, not {type(seconds).__name__}")
    if not least <= seconds <= most:  # false for NaN as well
        raise UsageError(f"{what} is {least:g} to {most:,.0f} seconds, not {shown(seconds)}")
    return math.ceil(round(seconds * 1000, 6))


def instant(value: object, what: str) -> int:
    """Milliseconds since 1970, given as such or as a datetime with a time zone, rounded up."""
    if not isinstance(value, int):
        from datetime import UTC, datetime, timedelta  # slow to load

        if isinstance(value, datetime):
            if value.utcoffset() is None:
                raise UsageError(
                    f"{what} is a datetime with a time zone, such as "
                    "datetime(2027, 1, 31, 9, 0, tzinfo=ZoneInfo('Europe/Berlin'))"
                )
            value = -((datetime(1970, 1, 1, tzinfo=UTC) - value) // timedelta(milliseconds=1))
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(
            f"{what} is a datetime or milliseconds since 1970, not {type(value).__name__}"
        )
    if value < 0:
        raise UsageError(f"{what} is an instant after 1970")
    return whole(value, what, 0, FOREVER_MS)


def lease_ms(seconds: object, *, least: float = 0.001) -> int:
    """Milliseconds of a lease: a millisecond to seven days."""
    return milliseconds(seconds, "lease_seconds", LEASE_SECONDS_MAX, least=least)


def delay_ms(seconds: object) -> int:
    """Milliseconds of a delay: none to 366 days."""
    return milliseconds(seconds, "delay_seconds", DELAY_SECONDS_MAX)


def ttl_ms(seconds: object) -> int:
    """Milliseconds of a time to live: a millisecond to 366 days."""
    return milliseconds(seconds, "ttl_seconds", DELAY_SECONDS_MAX, least=0.001)


def window_ms(seconds: object) -> int:
    """Milliseconds of a dedup window: a millisecond to 366 days."""
    return milliseconds(seconds, "dedup_window_seconds", DELAY_SECONDS_MAX, least=0.001)


def dedup_key(key: object) -> str:
    """Text of 1 to 255 bytes in UTF-8."""
    encoded = utf8(key, "a dedup key")
    if not 1 <= len(encoded) <= DEDUP_KEY_BYTES_MAX:
        raise UsageError(
            f"a dedup key has 1 to {DEDUP_KEY_BYTES_MAX} bytes in UTF-8, not {len(encoded)}"
        )
    assert isinstance(key, str)
    return key


def choice(value: object, what: str, choices: Sequence[str]) -> str:
    """One of some words."""
    if not isinstance(value, str) or value not in choices:
        raise UsageError(f"{what} is one of {', '.join(choices)}, not {shown(value)}")
    return value


def reason(text: object) -> str | None:
    """Check the reason of a pause: None, or up to 1,024 characters."""
    if text is None:
        return None
    utf8(text, "a reason")
    assert isinstance(text, str)
    if len(text) > REASON_CHARS_MAX:
        raise UsageError(f"a reason has at most {REASON_CHARS_MAX:,} characters, not {len(text):,}")
    return text


def labels(mapping: object) -> str | None:
    """Labels as the JSON that is kept, of at most 16 KiB: texts by names of 1 to 255 characters.
    None: there are none.
    """
    if not isinstance(mapping, Mapping):
        raise UsageError(f"labels are a mapping of str to str, not {type(mapping).__name__}")
    texts = cast("Mapping[str, str]", mapping)
    for name, text in texts.items():
        utf8(text, "a label")
        if not (utf8(name, "a label's name") and len(name) <= LABEL_NAME_CHARS_MAX):
            raise UsageError(
                f"a label's name has 1 to {LABEL_NAME_CHARS_MAX} characters, not {len(name):,}"
            )
    kept = json.dumps(dict(texts), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    if (size := len(kept.encode())) > LABELS_BYTES_MAX:
        raise UsageError(
            f"a queue's labels have at most {LABELS_BYTES_MAX:,} bytes in JSON, not {size:,}"
        )
    return kept if texts else None


def owner(text: object) -> str:
    """Check a subscription's owner, shown to people: 1 to 255 characters."""
    utf8(text, "an owner")
    assert isinstance(text, str)
    if not 1 <= len(text) <= OWNER_CHARS_MAX:
        raise UsageError(f"an owner has 1 to {OWNER_CHARS_MAX} characters, not {len(text):,}")
    return text


def position(text: object, what: str) -> str:
    """A place in the log, as text; whether it is one, its store can say."""
    if len(utf8(text, what)) > POSITION_BYTES_MAX:
        raise UsageError(f"{what} is not a position: it has over {POSITION_BYTES_MAX:,} bytes")
    assert isinstance(text, str)
    return text


def message_ids(value: object, most: int = IDS_MAX) -> tuple[int, ...]:
    """Ids of messages, at most 10,000 unless told otherwise."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise UsageError(f"ids are a list of int, not {type(value).__name__}")
    ids = tuple(cast("Iterable[int]", value))
    whole(len(ids), "ids in one call", 0, most)
    for one in ids:
        whole(one, "an id", 1, ID_MAX)
    return ids


def shown(value: object) -> str:
    """A value for an error's text, cut short: the text must never carry a whole payload."""
    try:
        text = repr(value)
    except ValueError:  # an int of more than 4,300 digits
        return "a huge number"
    return text if len(text) <= 80 else f"{text[:77]}…"
