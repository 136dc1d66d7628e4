"""The options of `format("turnabout")`: which there are, and reading them with care.

Spark gives options as text, their names in any case. What is not known is refused, with the nearest
name, as an option that is silently ignored is a bug that nobody sees. Values of `url` and `token`
stand in no error.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from turnabout.words import durations, limits
from turnabout.words.errors import UsageError
from turnabout.words.value import Value

LEASE: Final = "lease"
LOG: Final = "log"
HISTORY: Final = "history"
DEAD: Final = "dead"
SINK: Final = "sink"
MODES: Final = (LEASE, LOG, HISTORY, DEAD)
EVERYWHERE: Final = frozenset({*MODES, SINK})

SECRETS: Final = frozenset({"url", "token"})
PARTITIONS_MAX: Final = 1_000


class Option(Value):
    """An option: its name as it is documented, its default, and where it applies (modes of the
    source, and `sink`).
    """

    name: str
    default: str | None = None
    of: frozenset[str] = EVERYWHERE


_STREAMS = frozenset({LEASE, LOG})
_READS = frozenset(MODES)

OPTIONS: Final[tuple[Option, ...]] = (
    Option("url", "env:TURNABOUT_URL"),
    Option("namespace"),
    Option("token"),
    Option("mode", LOG, _READS),
    Option("subscribe", None, _READS),
    Option("subscribePattern", None, _READS),
    Option("subscription", None, frozenset({LEASE})),
    Option("startingOffsets", "earliest", frozenset({LOG})),
    Option("endingOffsets", "latest", frozenset({LOG})),
    Option("startingTimestamp", None, frozenset({LOG, HISTORY})),
    Option("endingTimestamp", None, frozenset({LOG, HISTORY})),
    Option("maxOffsetsPerTrigger", "20000", _STREAMS),
    Option("minOffsetsPerTrigger", None, frozenset({LOG})),
    Option("maxBytesPerTrigger", None, frozenset({LEASE})),
    Option("maxTriggerDelay", "15m", frozenset({LOG})),
    Option("numPartitions", None, _READS),
    Option("leaseSeconds", "300", frozenset({LEASE})),
    Option("maxBatchSeconds", "3600", frozenset({LEASE})),
    Option("maxBatchFailures", "3", frozenset({LEASE})),
    Option("preserveKeyOrder", "false", frozenset({LEASE})),
    Option("failOnLeaseLost", "false", frozenset({LEASE})),
    Option("failOnDataLoss", "true", _STREAMS),
    Option("includeHeaders", "false", _READS),
    Option("includeValue", "true", _READS),
    Option("sinkId", None, frozenset({SINK})),
    Option("runId", None, frozenset({SINK})),
    Option("queue", None, frozenset({SINK})),
    Option("onInvalidRow", "fail", frozenset({SINK})),
    Option("maxPayloadBytes", str(limits.PAYLOAD_BYTES_MAX), frozenset({SINK})),
)
"""All options, in the order of docs/spark-options.md."""

LIMITS: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger")
"""Limits of a stream's batch."""

SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname"})
"""Spark hands its own options of a stream to the sink, too."""

_ASYNC: Final = "asyncprogresstracking"


def options_of(role: str) -> tuple[Option, ...]:
    """Select the options of a mode of the source, or of `sink`."""
    return tuple(option for option in OPTIONS if role in option.of)


class Options:
    """Options that were given, and the defaults of the rest.

    `known` are the ones that there are; anything else is a UsageError that names the nearest.
    """

    def __init__(self, texts: Mapping[str, str], known: Iterable[Option]) -> None:
        self._known = {option.name.lower(): option for option in known}
        self._texts: dict[str, str] = {}
        for name, text in texts.items():
            self._take(str(name), str(text))

    def __iter__(self) -> Iterator[str]:
        """Names of those that were given, as they are documented."""
        return (self._known[key].name for key in self._texts)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._texts

    def __repr__(self) -> str:
        shown = (
            f"{name}={'…' if name in SECRETS else self._texts[name.lower()]!r}" for name in self
        )
        return f"Options({', '.join(shown)})"

    def text(self, name: str) -> str | None:
        """Return an option's value, or its default. An empty value counts as none."""
        return self._texts.get(name.lower()) or self._known[name.lower()].default

    def need(self, name: str, why: str) -> str:
        """The same, of an option that has to be given."""
        text = self.text(name)
        if text is None:
            raise UsageError(f'.option("{name}", …) is needed: {why}')
        return text

    def choice(self, name: str, choices: Iterable[str]) -> str:
        """One of some words, in any case."""
        text = (self.text(name) or "").lower()
        if text not in choices:
            raise UsageError(f"{name} is one of {', '.join(choices)}, not {self._shown(name)}")
        return text

    def flag(self, name: str) -> bool:
        """`true` or `false`, in any case."""
        return self.choice(name, ("true", "false")) == "true"

    def whole(self, name: str, least: int, most: int) -> int:
        """A whole number in a range."""
        text = self.text(name) or ""
        try:
            number = int(text)
        except ValueError:
            raise UsageError(f"{name} is a whole number, not {self._shown(name)}") from None
        return limits.whole(number, name, least, most)

    def optional_whole(self, name: str, least: int, most: int) -> int | None:
        """The same; None if it was not given and has no default."""
        return None if self.text(name) is None else self.whole(name, least, most)

    def seconds(self, name: str, least: float, most: float) -> float:
        """Seconds: a number, or one with a unit of `ms s m h d`."""
        try:
            seconds = durations.seconds(self.text(name) or "")
        except ValueError:
            raise UsageError(
                f"{name} is a number of seconds, or one with a unit as in 15m (ms, s, m, h, d), "
                f"not {self._shown(name)}"
            ) from None
        if not least <= seconds <= most:
            raise UsageError(f"{name} is {least:g} to {most:,.0f} seconds, not {self._shown(name)}")
        return seconds

    def instant(self, name: str) -> int | None:
        """Milliseconds since 1970, given so or in ISO 8601; without an offset it is UTC."""
        text = self.text(name)
        if text is None:
            return None
        if re.fullmatch(r"-?\d{1,16}", text):
            return int(text)
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            raise UsageError(
                f"{name} is an instant such as 2026-11-21T12:00:00+00:00, or milliseconds since "
                f"1970, not {self._shown(name)}"
            ) from None
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        return round(when.timestamp() * 1000)

    def names(self, name: str) -> tuple[str, ...] | None:
        """Names with commas between them, each once."""
        text = self.text(name)
        if text is None:
            return None
        found = tuple(dict.fromkeys(filter(None, (one.strip() for one in text.split(",")))))
        if not found:
            raise UsageError(f"{name} names no queues: write them as in emails,reports")
        return found

    def pattern(self, name: str) -> str | None:
        """A regular expression, as Python has them."""
        text = self.text(name)
        if text is None:
            return None
        try:
            re.compile(text)
        except re.error as error:
            raise UsageError(f"{name} is not a regular expression: {error}") from None
        return text

    def _take(self, name: str, text: str) -> None:
        key = name.lower()
        if key in self._known:
            self._texts[key] = text
        elif key.startswith(_ASYNC):
            if key != f"{_ASYNC}enabled" or text.lower() == "true":
                raise UsageError(
                    "asyncProgressTrackingEnabled cannot be used: a batch is acknowledged once "
                    "Spark's commit log holds it, and with that option nobody knows when it does"
                )
        elif key not in SPARKS_OWN or "mode" in self._known:
            raise UsageError(self._unknown(name))

    def _unknown(self, name: str) -> str:
        """The fault of a name, and what was meant, perhaps."""
        for option in OPTIONS:
            if option.name.lower() == name.lower():
                return f"{option.name} is an option of {_roles(option)}; it has no meaning here"
        names = {option.name.lower(): option.name for option in self._known.values()}
        near = difflib.get_close_matches(name.lower(), names, n=1)
        hint = (
            f"did you mean {names[near[0]]}?" if near else f"there are {', '.join(names.values())}"
        )
        return f"there is no option {limits.shown(name)}: {hint}"

    def _shown(self, name: str) -> str:
        return "what was given" if name in SECRETS else limits.shown(self.text(name))


def _roles(option: Option) -> str:
    modes = [f"mode={mode}" for mode in MODES if mode in option.of]
    return ", ".join([*modes, *(["the sink"] if SINK in option.of else [])])
