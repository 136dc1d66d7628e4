"""`queue`: queues and their settings; and `purge`. What cannot be undone asks first."""

from __future__ import annotations

import sys
from typing import Any, get_args

import click

from turnabout.cli import _show
from turnabout.cli._app import NOT_AS_WISHED, App, command, group, pass_app
from turnabout.cli._kinds import QUEUE
from turnabout.cli._policy import POLICY_FORM, settings_facts, settings_options, split
from turnabout.words.entities import QueueEntry, State
from turnabout.words.outcomes import AlreadyExists
from turnabout.words.policy import Policy, QueueSettings, as_dict

SHAPE = '{"queue", "dead_letter", "created_at", "settings"}'
SETTINGS_FORM = (
    '\n"settings": {"lease_seconds", "max_attempts", "backoff_seconds", "backoff_max_seconds",\n'
    '  "backoff_jitter", "delay_seconds", "fifo", "paused", "pause_reason", "on_exhausted",\n'
    '  "dead_letter", "ttl_seconds", "max_messages", "dedup_mode", "dedup_window_seconds",\n'
    '  "dedup_scope", "history_seconds", "history_failed_seconds", "history_payload", "events",\n'
    f'  "policy"}}\n{POLICY_FORM}'
)
YES = click.option("--yes", is_flag=True, help="Don't ask.")


@group(
    "queue",
    short_help="Queues: create, get, update, list, delete, pause, resume.",
    examples=[
        "turnabout queue create emails --lease 1m --max-attempts 10",
        "turnabout queue update emails --rate 50/s",
        "turnabout queue pause emails",
    ],
)
def queue() -> None:
    """Queues and their settings. The first message to a queue makes it, with default settings."""


@command(
    "create",
    short_help="Make a queue.",
    examples=[
        "turnabout queue create emails",
        "turnabout queue create payments --fifo --lease 2m --max-attempts none",
        "turnabout queue create emails --max-concurrency 5 --if-missing",
        "turnabout queue create codes --ttl 10m --max-messages 100000 --on-exhausted drop",
    ],
    json_form=f'{{"created": true | false, "queue": {SHAPE}}}' + SETTINGS_FORM,
)
@click.argument("name", type=QUEUE, metavar="QUEUE")
@settings_options
@click.option("--fifo", is_flag=True, help="One message of a channel at a time, in order.")
@click.option("--paused", is_flag=True, help="Hand out nothing until `turnabout queue resume`.")
@click.option("--if-missing", is_flag=True, help="It is no error if it is there already.")
@pass_app
def create(app: App, name: str, fifo: bool, paused: bool, if_missing: bool, **options: Any) -> None:
    """Make QUEUE, and its dead-letter queue. The limits are the default of its channels.

    Exit code 1 if it is there already: its settings are then left as they are.
    """
    changes, limits = split(options)
    settings = changes | {"fifo": fifo, "paused": paused, "policy": Policy(**limits)}
    with app.open(create=True) as turnabout:
        outcome = turnabout.queue(name).create(**settings)
    exists = isinstance(outcome, AlreadyExists)
    if app.as_json:
        app.document({"created": not exists, "queue": entry_json(outcome.queue)})
    elif not exists:
        _show.out(f"Created {name}.")
        _print_entry(outcome.queue)
    if exists and not if_missing:
        app.refuse(
            "already_exists",
            f"there is a queue {name} already; its settings were left as they are. Change them "
            f"with: turnabout queue update {name} …",
            NOT_AS_WISHED,
        )
    if exists and not app.as_json:
        _show.out(f"{name} is there already; its settings were left as they are.")


@command(
    "get",
    short_help="Show a queue's settings.",
    examples=["turnabout queue get emails"],
    json_form=SHAPE + SETTINGS_FORM,
)
@click.argument("name", type=QUEUE, metavar="QUEUE")
@pass_app
def get(app: App, name: str) -> None:
    """Show the settings of QUEUE."""
    with app.open() as turnabout:
        entry = _entry(turnabout, name)
    if app.as_json:
        app.document(entry_json(entry))
    else:
        _print_entry(entry)


@command(
    "update",
    short_help="Change settings of a live queue.",
    examples=[
        "turnabout queue update emails --lease 5m --backoff 10s",
        "turnabout queue update emails --max-attempts none --rate none",
        "turnabout queue update emails --dedup-mode until_finished --events all",
    ],
    json_form=SHAPE + SETTINGS_FORM,
)
@click.argument("name", type=QUEUE, metavar="QUEUE")
@settings_options
@pass_app
def update(app: App, name: str, **options: Any) -> None:
    """Change settings of QUEUE; those not named stay. `none` lifts a limit.

    The limits are the default of every channel in the queue.
    """
    changes, limits = split(options)
    if not changes and not limits:
        raise click.UsageError("name a setting to change, for example --lease 5m")
    with app.open() as turnabout:
        handle = turnabout.queue(name)
        if limits:
            changes["policy"] = limits  # only these: what another sets meanwhile stays
        handle.update(**changes)
        entry = _entry(turnabout, name)
    if app.as_json:
        app.document(entry_json(entry))
    else:
        _print_entry(entry)


@command(
    "list",
    short_help="List all queues.",
    examples=["turnabout queue list", "turnabout queue list --json | jq -r '.queues[].queue'"],
    json_form=f'{{"queues": [{SHAPE}]}}' + SETTINGS_FORM,
)
@pass_app
def list_(app: App) -> None:
    """List all queues with their most telling settings."""
    with app.open() as turnabout:
        entries = turnabout.queues()
    if app.as_json:
        app.document({"queues": [entry_json(entry) for entry in entries]})
        return
    if not entries:
        _show.note("No queues yet: `turnabout queue create QUEUE` makes one.")
        return
    heads = ("QUEUE", "DEAD-LETTER", "LEASE", "ATTEMPTS", "FIFO", "PAUSED", "LIMITS")
    _show.out(_show.table(heads, [_row(entry) for entry in entries], left=2))


def _row(entry: QueueEntry) -> list[str]:
    settings = entry.settings
    attempts = settings.max_attempts
    return [
        _show.clean(entry.name),
        entry.dead_letter or "–",
        _show.duration(settings.lease_seconds),
        "any" if attempts is None else _show.count(attempts),
        "yes" if settings.fifo else "",
        "paused" if settings.paused else "",
        "" if settings.policy == Policy() else "yes",
    ]


@command(
    "delete",
    short_help="Remove a queue with its messages.",
    examples=["turnabout queue delete old-emails", "turnabout queue delete old-emails --yes"],
    json_form='{"queue", "messages"}   messages: unfinished ones that went with it',
)
@click.argument("name", type=QUEUE, metavar="QUEUE")
@YES
@pass_app
def delete(app: App, name: str, yes: bool) -> None:
    """Remove QUEUE with its unfinished messages, settings and policies.

    Its dead-letter queue stays; delete it afterwards, if it is not wanted.
    """
    with app.open() as turnabout:
        handle = turnabout.queue(name)
        stats = handle.stats()
        live = stats.scheduled + stats.ready + stats.leased
        confirm(yes, f"Remove the queue {name} and its {_show.plural(live, 'message')}?")
        outcome = handle.delete()
    app.outcome(
        {"queue": name, "messages": outcome.messages},
        f"Removed {name} and {_show.plural(outcome.messages, 'message')}.",
    )


@command(
    "pause",
    short_help="Hand out nothing until resume.",
    examples=[
        "turnabout queue pause emails",
        "turnabout queue pause emails --reason 'the mail server moves, until noon'",
    ],
    json_form='{"queue", "paused": true, "reason"}',
)
@click.argument("name", type=QUEUE, metavar="QUEUE")
@click.option("--reason", metavar="TEXT", help="Why; `turnabout queue get` and `stats` show it.")
@pass_app
def pause(app: App, name: str, reason: str | None) -> None:
    """Hand out no message of QUEUE until `resume`. Sends are still taken."""
    with app.open() as turnabout:
        turnabout.queue(name).pause(reason=reason)
    again = f"Paused {name}. Hand out again: turnabout queue resume {name}"
    app.outcome({"queue": name, "paused": True, "reason": reason}, again)


@command(
    "resume",
    short_help="Hand out messages again.",
    examples=["turnabout queue resume emails"],
    json_form='{"queue", "paused": false}',
)
@click.argument("name", type=QUEUE, metavar="QUEUE")
@pass_app
def resume(app: App, name: str) -> None:
    """Hand out the messages of QUEUE again."""
    with app.open() as turnabout:
        turnabout.queue(name).resume()
    app.outcome({"queue": name, "paused": False}, f"{name} hands out messages again.")


@command(
    "purge",
    short_help="Cancel unfinished messages.",
    examples=[
        "turnabout purge emails --channel customer-42",
        "turnabout purge emails-dead --yes",
        "turnabout purge emails --state leased",
    ],
    json_form='{"queue", "messages"}',
)
@click.argument("name", type=QUEUE, metavar="QUEUE")
@click.option("--channel", help="Only of this channel.")
@click.option("--state", type=click.Choice(get_args(State)), help="Only of this state.")
@YES
@pass_app
def purge(app: App, name: str, channel: str | None, state: State | None, yes: bool) -> None:
    """Cancel the unfinished messages of QUEUE.

    Leased ones only with `--state leased`: their workers then lose the lease.
    """
    which = "ready and scheduled" if state is None else state
    of = "" if channel is None else f" in channel {_show.channel(channel)}"
    with app.open() as turnabout:
        handle = turnabout.queue(name)
        handle.settings()  # a wrong name is told before a question is asked
        confirm(yes, f"Cancel all {which} messages of {name}{of}?")
        outcome = handle.purge(channel=channel, state=state)
    app.outcome(
        {"queue": name, "messages": outcome.messages},
        f"Cancelled {_show.plural(outcome.messages, 'message')} of {name}{of}.",
    )


def confirm(yes: bool, question: str) -> None:
    """Ask, on a terminal; elsewhere nobody can answer, so --yes is needed."""
    if yes:
        return
    if not _show.is_terminal(sys.stdin):
        raise click.UsageError(f"{question} It cannot be undone: repeat with --yes")
    if not click.confirm(question, err=True):
        _show.note("Nothing was changed.")
        raise click.exceptions.Exit(NOT_AS_WISHED)


def _entry(turnabout: Any, name: str) -> QueueEntry:
    from turnabout.words.verbs import QueueGet

    return turnabout.store.run(QueueGet(turnabout.queue(name).name))


def _print_entry(entry: QueueEntry) -> None:
    _show.out(_show.facts(settings_facts(entry.settings, entry.dead_letter)))


def entry_json(entry: QueueEntry) -> dict[str, Any]:
    """A queue as `--json` prints it."""
    settings: QueueSettings = entry.settings
    return {
        "queue": entry.name,
        "dead_letter": entry.dead_letter,
        "created_at": entry.created_at,
        "settings": as_dict(settings),
    }


queue.add_section("Commands", create, get, update, list_, delete, pause, resume)
