"""`queue`: queues and their settings; and `purge`. What cannot be undone asks first."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, get_args

import click

from turnabout.cli import _show
from turnabout.cli._app import NEGATIVE, App, negative
from turnabout.cli._declare import YES, argument, command, group, option
from turnabout.cli._json import items
from turnabout.cli._kinds import QUEUE
from turnabout.cli._settings import queue_facts, settings_options, split
from turnabout.words.entities import QueueEntry, State
from turnabout.words.outcomes import AlreadyExists, Created, Deleted, Purged
from turnabout.words.policy import Policy, QueueSettings
from turnabout.words.verbs import QueueGet

if TYPE_CHECKING:
    from turnabout import Queue, Turnabout

QUEUES: _show.Columns = (
    ("QUEUE", "name", _show.clean),
    ("DEAD-LETTER", "dead_letter", _show.clean),
    ("LEASE", "settings.lease_seconds", _show.duration),
    ("ATTEMPTS", "settings.max_attempts", _show.count),
    ("FIFO", "settings.fifo", _show.tick),
    ("PAUSED", "settings.paused", _show.tick),
    ("LIMITS", lambda entry: has_limits(entry.settings), _show.tick),
)
NAME = argument("name", QUEUE, metavar="QUEUE")


@group("queue", short_help="Queues: create, get, update, list, delete, pause, resume.")
def queue() -> None:
    """Queues and their settings. The first message to a queue makes it, with default settings."""


@queue.command(
    "create",
    "turnabout queue create emails",
    "turnabout queue create payments --fifo --lease 2m --max-attempts none",
    "turnabout queue create emails --max-concurrency 5 --if-missing",
    "turnabout queue create codes --ttl 10m --max-messages 100000 --on-exhausted drop",
    json=Created | AlreadyExists,
)
@NAME
@settings_options
@option("--fifo", "One message of a channel at a time, in order.", bool)
@option("--paused", "Hand out nothing until `turnabout queue resume`.", bool)
@option("--if-missing", "Exit code 0 if the queue exists already.", bool)
def create(app: App, name: str, fifo: bool, paused: bool, if_missing: bool, **values: Any) -> None:
    """Make QUEUE, and its dead-letter queue.

    The limits are the default of its channels, those with --queue- hold for all of them together.
    Exit code 1 if it exists already: its settings are then left as they are.
    """
    changes, limits = split(values)
    settings = changes | {"fifo": fifo, "paused": paused, "policy": Policy(**limits)}
    with app.queue(name, create=True) as handle:
        outcome = handle.create(**settings)
    text = f"Created {name}.\n{queue_facts(outcome.queue)}"
    if isinstance(outcome, AlreadyExists):
        text = f"{name} exists already; its settings were left as they are."
        if not if_missing:
            hint = f"Change them with: turnabout queue update {name} …"
            if app.as_json:
                app.say(outcome, "", tagged=True)
            app.refuse("already_exists", f"{text} {hint}", NEGATIVE)
    app.say(outcome, text, tagged=True)


@queue.command("get", "turnabout queue get emails", json=QueueEntry)
@NAME
def get(app: App, name: str) -> None:
    """Show the settings of QUEUE."""
    with app.open() as turnabout:
        _print(app, turnabout, name)


@queue.command(
    "update",
    "turnabout queue update emails --lease 5m --backoff 10s",
    "turnabout queue update emails --max-attempts none --rate none",
    "turnabout queue update emails --queue-max-concurrency 50 --queue-rate 100/s",
    "turnabout queue update emails --dedup-mode until_finished --events all",
    json=QueueEntry,
)
@NAME
@settings_options
def update(app: App, name: str, **values: Any) -> None:
    """Change settings of QUEUE while it is in use.

    Those not named stay; `none` lifts a limit. The limits are the default of every channel, those
    with --queue- hold for all of them together.
    """
    changes, limits = split(values)
    if not changes and not limits:
        raise click.UsageError("name a setting to change, for example --lease 5m")
    if limits:
        changes["policy"] = limits  # only these: what another sets meanwhile stays
    with app.open() as turnabout:
        turnabout.queue(name).update(**changes)
        _print(app, turnabout, name)


@queue.command(
    "list",
    "turnabout queue list",
    "turnabout queue list --json | jq -r '.items[].name'",
    json=items(QueueEntry),
)
def list_(app: App) -> None:
    """List all queues with their most telling settings."""
    with app.open() as turnabout:
        found = turnabout.queues()
    app.show(found, QUEUES, "No queues yet: `turnabout queue create QUEUE` makes one.")


@queue.command("delete", "turnabout queue delete old-emails", json=Deleted)
@NAME
@YES
def delete(app: App, name: str, yes: bool) -> None:
    """Remove QUEUE with its unfinished messages, settings and policies.

    Its dead-letter queue stays; delete it afterwards, if it is not wanted.
    """
    with app.queue(name) as handle:
        stats = handle.stats()
        live = stats.scheduled + stats.ready + stats.leased
        confirm(yes, f"Remove the queue {name} and its {_show.plural(live, 'message')}?")
        outcome = handle.delete()
    app.say(outcome, f"Removed {name} and {_show.plural(outcome.messages, 'message')}.")


@queue.command(
    "pause",
    "turnabout queue pause emails",
    "turnabout queue pause emails --reason 'the mail server moves, until noon'",
    json=QueueEntry,
)
@NAME
@option("--reason", "Why; `turnabout queue get` and `stats` show it.", metavar="TEXT")
def pause(app: App, name: str, reason: str | None) -> None:
    """Hand out no message of QUEUE until `resume`. Sends are still taken."""
    with app.open() as turnabout:
        turnabout.queue(name).pause(reason=reason)
        _print(
            app, turnabout, name, f"Paused {name}. Hand out again: turnabout queue resume {name}"
        )


@queue.command("resume", "turnabout queue resume emails", json=QueueEntry)
@NAME
def resume(app: App, name: str) -> None:
    """Hand out the messages of QUEUE again."""
    with app.open() as turnabout:
        turnabout.queue(name).resume()
        _print(app, turnabout, name, f"{name} hands out messages again.")


@command(
    "purge",
    "turnabout purge emails --channel customer-42",
    "turnabout purge emails-dead --yes",
    "turnabout purge emails --state leased",
    json=Purged,
)
@NAME
@option("--channel", "Only in this channel.")
@option("--state", "Only in this state.", get_args(State))
@YES
def purge(app: App, name: str, channel: str | None, state: State | None, yes: bool) -> None:
    """Cancel the unfinished messages of QUEUE.

    Leased ones only with `--state leased`: their workers then lose the lease.
    """
    which = "ready and scheduled" if state is None else state
    of = "" if channel is None else f" in channel {_show.channel(channel)}"
    with app.queue(name) as handle:
        confirm(yes, f"Cancel all {which} messages of {name}{of}?", handle)
        outcome = handle.purge(channel=channel, state=state)
    app.say(outcome, f"Cancelled {_show.plural(outcome.messages, 'message')} of {name}{of}.")


def confirm(yes: bool, question: str, queue: Queue | None = None) -> None:
    """Ask, on a terminal; elsewhere nobody can answer, so --yes is needed."""
    if queue is not None:
        queue.settings()  # a wrong name fails before a question is asked
    if yes:
        return
    if not _show.is_terminal(sys.stdin):
        raise click.UsageError(f"{question} It cannot be undone: repeat with --yes")
    if not click.confirm(question, err=True):
        _show.note("Nothing was changed.")
        negative()


def has_limits(settings: QueueSettings) -> bool:
    """Whether the queue limits its channels, or itself."""
    own = (settings.queue_max_concurrency, settings.queue_rate)
    return settings.policy != Policy() or own != (None, None)


def _print(app: App, turnabout: Turnabout, name: str, text: str | None = None) -> None:
    """The queue as it is now; for people, this text if there is one."""
    entry = turnabout.store.run(QueueGet(turnabout.queue(name).name))
    app.say(entry, text or queue_facts(entry))
