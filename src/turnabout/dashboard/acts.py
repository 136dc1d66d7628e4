"""The forms of the pages. Each tells in a sentence what was done, and how to undo it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from turnabout._async.queue import AsyncQueue
from turnabout._async.schedules import AsyncSchedules
from turnabout._async.shared import Shared
from turnabout.dashboard.pages import CHOICES, settings_rows
from turnabout.server.auth.authorized_store import AuthorizedStore
from turnabout.server.context import ServerContext
from turnabout.server.verbs import (
    SIGN,
    Namespace,
    NamespaceSet,
    TokenCreate,
    TokenRevoke,
    new_token,
    scopes,
    signing_secret,
    token_text,
)
from turnabout.words import outcomes as o
from turnabout.words import verbs as v
from turnabout.words.durations import seconds
from turnabout.words.errors import UsageError
from turnabout.words.limits import shown
from turnabout.words.policy import Policy, Rate

REDRIVES_MAX = 1_000
"""Redrives that a person may make of a message; the usual limit is for programs, which may loop."""
REASON = "paused in the dashboard"


@dataclass(slots=True)
class Act:
    """One form that was sent."""

    context: ServerContext
    caller: AuthorizedStore
    fields: Mapping[str, list[str]]

    def text(self, name: str, default: str = "") -> str:
        """A field's text."""
        return self.fields.get(name, [default])[0]

    def whole(self, name: str) -> int | None:
        """A field's number; None: it was left empty. Raises: UsageError."""
        return _whole(name, self.text(name))

    def ids(self) -> list[int]:
        """The chosen messages. Raises: UsageError if none is."""
        found = [int(one) for one in self.fields.get("id", []) if one.isdecimal() and len(one) < 19]
        if not found:
            raise UsageError("choose at least one message: the boxes are before the rows")
        return found

    @property
    def queue(self) -> AsyncQueue:
        """The queue of the page."""
        return AsyncQueue(Shared(self.caller), self.text("queue"))

    @property
    def channel(self) -> Any:
        """The channel of the row."""
        return self.queue.channel(self.text("channel"))

    @property
    def named(self) -> str:
        """The channel, as people read it."""
        return self.text("channel") or "(default)"

    def needs_name(self, name: str) -> None:
        """Raises: UsageError unless the person has typed the name of what will be gone."""
        if self.text("sure").strip() != name:
            raise UsageError(f"nothing was done: type {name} to say that you are sure")


Done = tuple[str, dict[str, str] | None]
"""A sentence, and the fields of the form that takes it back; None: nothing does."""


async def _change(act: Act, text: str, **changes: Any) -> Done:
    """Change a channel's policy; undone by setting the policy of before."""
    before = await act.channel.policy()
    await act.channel.change_policy(**changes)
    undo = {
        "do": "restore", "queue": act.text("queue"), "channel": act.text("channel"),
        "policy": msgspec.json.encode(before).decode(),
    }  # fmt: skip
    return text, undo


async def pause(act: Act) -> Done:
    """Pause a channel."""
    text = f"{act.named} is paused: nothing of it is handed out, what is sent waits."
    return await _change(act, text, paused=True, paused_until=None, pause_reason=REASON)


async def resume(act: Act) -> Done:
    """Resume a channel."""
    cleared = {"paused": False, "paused_until": None, "pause_reason": None}
    return await _change(act, f"{act.named} is handed out again.", **cleared)


async def limit(act: Act) -> Done:
    """Set a channel's weight and limits; an empty field removes one."""
    rate = act.text("rate").strip()
    changes: dict[str, Any] = {
        name: act.whole(name) for name in ("weight", "max_concurrency", "max_size")
    }
    if rate:
        count, _, period = rate.partition("/")
        number = _whole("rate", count)
        if number is None:
            raise UsageError(f"rate: {shown(rate)} is not a rate: write 10/1s, or 5/1m")
        changes["rate"] = Rate(number, _seconds("rate", period.strip() or "1s"))
    else:
        changes["rate"] = None
    summary = ", ".join(f"{name} {value}" for name, value in changes.items() if value is not None)
    return await _change(act, f"{act.named} has {summary or 'no limits'} now.", **changes)


async def restore(act: Act) -> Done:
    """Set a channel's policy as it was before."""
    try:
        policy = msgspec.json.decode(act.text("policy"), type=Policy)
    except msgspec.MsgspecError as error:
        raise UsageError("the policy of before cannot be read") from error
    await act.channel.set_policy(policy)
    return f"{act.named} is as it was before.", None


async def purge(act: Act) -> Done:
    """Cancel what waits in a channel."""
    act.needs_name(act.named)
    purged = await act.queue.purge(channel=act.text("channel"))
    return f"{purged.messages:,} messages of {act.named} were cancelled.", None


async def purge_queue(act: Act) -> Done:
    """Cancel what waits in a queue."""
    act.needs_name(act.queue.name)
    purged = await act.queue.purge()
    return f"{purged.messages:,} messages of {act.queue.name} were cancelled.", None


async def pause_queue(act: Act) -> Done:
    """Pause a queue."""
    await act.queue.pause(reason=REASON)
    undo = {"do": "resume_queue", "queue": act.queue.name}
    return f"{act.queue.name} is paused: receivers get nothing, what is sent waits.", undo


async def resume_queue(act: Act) -> Done:
    """Resume a queue."""
    await act.queue.resume()
    return f"{act.queue.name} is handed out again.", None


async def retry(act: Act) -> Done:
    """Have messages done again: at once if they wait for it."""
    outcomes = await act.queue.retry(act.ids())
    return f"{_many(outcomes, o.Retried)} made ready for another attempt.", None


async def cancel(act: Act) -> Done:
    """End messages; workers that have them are asked to."""
    outcomes = await act.queue.cancel(act.ids())
    leased = sum(isinstance(one, o.CancelRequested) for one in outcomes)
    more = f" {leased} are being worked on: their workers are asked to stop." if leased else ""
    return f"{_many(outcomes, o.Cancelled)} cancelled.{more}", None


async def send_back(act: Act) -> Done:
    """Send dead letters back to the queues where they died: those chosen, or all that match."""
    ids = act.ids() if act.text("which") == "ids" else None
    begun = await act.queue.redrive_start(
        ids=ids,
        error=act.text("error") or None if ids is None else None,
        channel=act.text("channel") or None if ids is None else None,
        max_redrives=REDRIVES_MAX,
    )
    step = await act.caller.run(v.RedriveStep(begun.id))
    if step.state == "running":
        return f"{step.moved:,} messages were sent back so far; the rest follows.", None
    left = f"; {step.skipped:,} could not be" if step.skipped else ""
    return f"{_plural(step.moved)} sent back{left}.", None


async def stop_redrive(act: Act) -> Done:
    """Stop a redrive."""
    stopped = await act.caller.run(v.RedriveCancel(act.whole("redrive") or 0))
    return f"Stopped: {stopped.moved:,} messages were moved before.", None


async def schedule(act: Act) -> Done:
    """Pause, resume, run or delete a schedule."""
    name, what = act.text("name"), act.text("what")
    schedules = AsyncSchedules(Shared(act.caller))
    if what == "pause":
        await schedules.pause(name)
        return f"{name} is paused.", {"do": "schedule", "name": name, "what": "resume"}
    if what == "resume":
        await schedules.resume(name)
        return f"{name} runs again.", {"do": "schedule", "name": name, "what": "pause"}
    if what == "run":
        entry = await schedules.get(name)
        if entry is None:
            raise UsageError(f"there is no schedule {shown(name)}")
        outcome = await act.caller.run(v.Send(entry.schedule.queue, (entry.schedule.message,)))
        if not isinstance(outcome, o.Sent):
            raise UsageError(f"its message was refused: {outcome}")
        return f"{name} has sent message {outcome.ids[0]} to {entry.schedule.queue}.", None
    act.needs_name(name)
    await schedules.delete(name)
    return f"{name} is deleted.", None


async def configure(act: Act) -> Done:
    """Change the settings of a queue that differ from what they are."""
    entry = await act.caller.run(v.QueueGet(act.queue.name))
    changes = {
        name: value
        for name, old in settings_rows(entry.settings).items()
        if name in act.fields and name != "labels" and (value := _setting(act, name, old)) != old
    }
    if not changes:
        return "Nothing was different.", None
    await act.queue.update(**changes)
    return f"Set: {', '.join(f'{name} {value}' for name, value in changes.items())}.", None


def _setting(act: Act, name: str, old: Any) -> Any:
    """A setting as a form has it. Raises: UsageError."""
    text = act.text(name).strip()
    if name in CHOICES:
        return text
    if isinstance(old, bool):
        return text == "yes"
    if not text:
        return None
    if name in ("pause_reason", "dead_letter"):
        return text
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        number = _seconds(name, text)
    return int(number) if number.is_integer() else number


def _whole(name: str, text: str) -> int | None:
    """A whole number; None: there is none. Raises: UsageError."""
    text = text.strip().replace(",", "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise UsageError(f"{name}: {shown(text)} is not a whole number")
    return int(text)


def _seconds(name: str, text: str) -> float:
    """A duration such as 2m. Raises: UsageError."""
    try:
        return seconds(text)
    except ValueError as error:
        raise UsageError(f"{name}: {shown(text)} is neither a number nor a time like 2m") from error


async def make_token(act: Act) -> Done:
    """Make a token; its text is shown once."""
    id_, secret, digest = new_token()
    days = act.whole("days")
    lifetime = None if days is None else days * 86_400_000
    token_scopes = scopes(act.text("scopes").replace(",", " ").split())
    verb = TokenCreate(
        id_, digest, act.text("namespace").strip(), act.text("label"), token_scopes, lifetime
    )
    await act.context.store.run(verb)
    text = f"The token, which is shown this once: {token_text(id_, secret)}"
    if any(scope.verbs == SIGN for scope in token_scopes):
        text += f"; for clients of SQS, key id {id_}, secret {signing_secret(digest)}"
    return text, None


async def revoke_token(act: Act) -> Done:
    """End a token."""
    revoked = await act.context.store.run(TokenRevoke(act.text("token")))
    name = revoked.label or revoked.id if revoked else act.text("token")
    return f"{name} is revoked: servers refuse it within five seconds.", None


async def set_namespace(act: Act) -> Done:
    """Make a namespace, or set its quotas; an empty field removes one."""
    quotas = {name: act.whole(name) for name in Namespace.__struct_fields__[1:-1]}
    name = act.text("namespace").strip()
    await act.context.store.run(NamespaceSet(Namespace(name, **quotas)))
    return f"The quotas of {name or '(no namespace)'} are set.", None


def _many(outcomes: Any, kind: type) -> str:
    """The number of messages that it went well with, and of others."""
    well = sum(isinstance(one, kind) for one in outcomes)
    most = len(outcomes)
    return _plural(well) if well == most else f"{well:,} of {most:,} messages were"


def _plural(count: int) -> str:
    return "1 message was" if count == 1 else f"{count:,} messages were"


ACTS: Mapping[str, Callable[[Act], Awaitable[Done]]] = {
    act.__name__: act
    for act in (
        pause, resume, limit, restore, purge, purge_queue, pause_queue, resume_queue, retry, cancel,
        send_back, stop_redrive, schedule, configure,
    )
}  # fmt: skip
OPERATORS: Mapping[str, Callable[[Act], Awaitable[Done]]] = {
    act.__name__: act for act in (make_token, revoke_token, set_namespace)
}
"""Forms for operators alone."""
