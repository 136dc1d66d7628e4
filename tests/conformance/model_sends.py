"""Sending in the model: which messages of a send are put in, and who stands for the others."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tests.conformance.model_rows import Message, Queue
from turnabout import ChannelFull, Outgoing, Sent
from turnabout.words import limits
from turnabout.words.outcomes import QueueFull

PUT_IN, SUPPRESSED, REPLACED = "put in", "suppressed", "replaced"


class Sends:
    """The part of the model that sends."""

    clock: Callable[[], int]
    queues: dict[str, Queue]
    given: set[int]

    def refusals(
        self, name: str, messages: Sequence[Outgoing]
    ) -> tuple[list[ChannelFull], QueueFull | None]:
        """The limits that these messages would pass; none: they are taken."""
        queue = self.queues[name]
        fates = self._fates(queue, messages)
        new = [m for m, fate in zip(messages, fates, strict=True) if fate == PUT_IN]
        full = []
        for channel, more in Counter(m.channel for m in new).items():
            most, size = queue.policy(channel).max_size, len(queue.of(channel))
            if most is not None and size + more > most:
                full.append(ChannelFull(channel, most, size))
        most, size = queue.settings.max_messages, len(queue.messages)
        if new and most is not None and size + len(new) > most:
            return full, QueueFull(most, size)
        return full, None

    def sent(self, name: str, messages: Sequence[Outgoing], outcome: Sent) -> Counter[str]:
        """These were taken with this answer; how many had which fate."""
        queue, fates = self.queues[name], self._fates(self.queues[name], messages)
        places = {f: tuple(i for i, fate in enumerate(fates) if fate == f) for f in set(fates)}
        told: dict[int, str] = {}
        assert outcome.duplicates == places.get(SUPPRESSED, ())
        assert outcome.replaced == places.get(REPLACED, ())
        for message, fate, number in zip(messages, fates, outcome.ids, strict=True):
            if message.dedup_key is not None:
                self._enter(queue, message, fate, number)
            if fate == PUT_IN:
                assert number > queue.last_id, "ids of a queue grow"
                assert number not in self.given, "no id is used twice"
                queue.last_id = number
                self.given.add(number)
                queue.messages[number] = Message(number, message.channel, 0, b"", 0, "ready", 0)
                queue.messages[number].sent_at = self.clock()
                queue.sent += 1
                told[number] = "created"
            if fate != SUPPRESSED:
                self._fill(queue, queue.messages[number], message)
                told.setdefault(number, "deferred")
        for number, kind in told.items():
            m = queue.messages[number]
            queue.tell(kind, m, None if m.at == limits.FOREVER_MS else m.at)
        return Counter(fates)

    def _fill(self, queue: Queue, m: Message, message: Outgoing) -> None:
        """Its content, due time and time to live: of a new message, and of one in its place."""
        delay, ttl = message.delay_ms, message.ttl_ms
        if message.due_at is not None:
            delay = max(0, message.due_at - self.clock())
        elif delay is None:
            delay = round(queue.settings.delay_seconds * 1000)
        if ttl is None and queue.settings.ttl_seconds is not None:
            ttl = round(queue.settings.ttl_seconds * 1000)
        m.priority, m.payload = message.priority, message.payload
        m.expires_at = None if ttl is None else self.clock() + ttl
        if m.at != limits.FOREVER_MS:  # one that waits for a person goes on doing so
            self._put_off(queue, m, delay)

    def _put_off(self, queue: Queue, m: Message, delay_ms: int) -> None:
        """Back after a delay. In a FIFO queue it is ready and holds its place."""
        m.status = "scheduled" if delay_ms > 0 and not queue.settings.fifo else "ready"
        m.at = self.clock() + delay_ms

    # --- dedup ---

    def _enter(self, queue: Queue, message: Outgoing, fate: str, number: int) -> None:
        """Check who stands for this one, and change the entry of its key."""
        space, mode, window = _terms(queue, message)
        entry = queue.entries.get(space)
        until = self.clock() + window if mode in ("window", "sliding") else None
        if fate == PUT_IN:
            queue.entries[space] = (number, until)
            return
        assert entry is not None
        assert number == entry[0], "the id of the message that survives"
        if mode == "sliding":
            queue.entries[space] = (number, until)

    def _fates(self, queue: Queue, messages: Sequence[Outgoing]) -> list[str]:
        """What becomes of each message of a send, if it is taken."""
        now, fates = self.clock(), list[str]()
        new: dict[Any, int | None] = {}  # entries made by this very send, whose messages wait
        for message in messages:
            if message.dedup_key is None:
                fates.append(PUT_IN)
                continue
            space, mode, window = _terms(queue, message)
            number, until = queue.entries.get(space, (None, None))
            m = queue.messages.get(number or 0)
            if m is not None and (m.has_passed(now) or m.origin is not None):
                m = None
            stage = "ended" if m is None else m.status if m.status == "leased" else "waiting"
            never_leased = m is not None and m.attempt == 0
            if space in new:
                stage, never_leased, until = "waiting", True, new[space]
            fate = {
                "window": SUPPRESSED if until is not None and now < until else PUT_IN,
                "sliding": SUPPRESSED if until is not None and now < until else PUT_IN,
                "until_started": SUPPRESSED if never_leased else PUT_IN,
                "until_finished": PUT_IN if stage == "ended" else SUPPRESSED,
                "latest": REPLACED if stage == "waiting" else PUT_IN,
                "rerun": SUPPRESSED if stage == "waiting" else PUT_IN,
            }[mode]
            if fate == PUT_IN or (space in new and mode == "sliding"):
                new[space] = now + window if mode in ("window", "sliding") else None
            fates.append(fate)
        return fates


def _terms(queue: Queue, message: Outgoing) -> tuple[tuple[str, str], str, int]:
    """The key's place, the mode and the window of a message with a key."""
    settings = queue.settings
    scope = message.dedup_scope or settings.dedup_scope
    window = message.dedup_window_ms or round(settings.dedup_window_seconds * 1000)
    place = "" if scope == "queue" else f"/{message.channel}"
    return (place, str(message.dedup_key)), message.dedup_mode or settings.dedup_mode, window
