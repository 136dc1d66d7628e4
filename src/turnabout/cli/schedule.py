"""`schedule`: messages that are sent at given times."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from turnabout.cli import _show
from turnabout.cli._app import NOT_AS_WISHED, App, command, group, pass_app
from turnabout.cli._interrupt import Unbroken, stop_like_interrupt
from turnabout.cli._kinds import DURATION, HEADER, QUEUE
from turnabout.cli._records import Shape
from turnabout.words.errors import TurnaboutError, Unavailable, Uncertain, UsageError
from turnabout.words.policy import DEDUP_MODES
from turnabout.words.schedules import (
    Fold,
    Gap,
    Missed,
    Overlap,
    Schedule,
    ScheduledMessage,
    ScheduleEntry,
)

if TYPE_CHECKING:
    from turnabout import Turnabout

F = TypeVar("F", bound=Callable[..., Any])

LOOK_SECONDS = 1.0
COMPLAINT_SECONDS = 60.0
SHAPE = (
    '{"schedule", "queue", "cron", "every_seconds", "at", "zone", "anchor", "missed", "overlap",\n'
    '  "gap", "fold", "paused", "next_at", "last_at", "last_id", "sent", "message"}\n'
    '"message": {"channel", "priority", "content_type", "payload_bytes"}\n'
    "times are milliseconds since 1970 by the database's clock"
)
TRY = "try"
"""The name, and the queue, of a schedule that is only looked at."""


@group(
    "schedule",
    short_help="Messages sent at given times: set, list, show, next, pause, resume, delete, run.",
    examples=[
        "turnabout schedule set nightly reports daily --cron '30 2 * * *' --zone Europe/Berlin",
        "turnabout schedule set pulse checks ping --every 5m",
        "turnabout schedule next nightly",
        "turnabout schedule run",
    ],
)
def schedule() -> None:
    """Messages that are sent at given times: by cron, at an interval, or once.

    Workers, and programs that receive, send what is due: once for each due time, however many they
    are. Where there are none, `turnabout schedule run` does it.
    """


def when_options(function: F) -> F:
    """The options that say when."""
    for option in reversed(
        (
            click.option("--cron", help="Five fields: '30 9 * * MON-FRI'."),
            click.option("--every", type=DURATION, help="At an interval (90s, 5m, 1d)."),
            click.option("--at", metavar="TIME", help="Once: 2027-01-31T09:00, in the zone."),
            click.option("--zone", default="UTC", show_default=True,
                         help="The time zone of --cron, and of the times given here."),
            click.option("--anchor", metavar="TIME", help="Where --every counts from."),
            click.option("--gap", type=click.Choice(get_args(Gap)), default="after",
                         show_default=True, help="A time that clocks are put forward over."),
            click.option("--fold", type=click.Choice(get_args(Fold)), default="first",
                         show_default=True, help="A time that comes twice."),
        )
    ):  # fmt: skip
        function = option(function)
    return function


@command(
    "set",
    short_help="Make or replace a schedule.",
    examples=[
        "turnabout schedule set nightly reports daily --cron '30 2 * * *' --zone Europe/Berlin",
        "turnabout schedule set sync shops '{\"all\": true}' --every 1h --overlap skip",
        "turnabout schedule set pulse checks ping --every 5m --missed skip",
        "turnabout schedule set launch mails go --at 2027-01-31T09:00 --zone America/New_York",
    ],
    json_form=SHAPE,
)
@click.argument("name")
@click.argument("queue", type=QUEUE)
@click.argument("payload")
@when_options
@click.option(
    "--missed",
    type=click.Choice(get_args(Missed)),
    default="once",
    show_default=True,
    help="Due times that passed while nobody was there.",
)
@click.option(
    "--overlap",
    type=click.Choice(get_args(Overlap)),
    default="allow",
    show_default=True,
    help="While the message before is unfinished.",
)
@click.option("--channel", default="", help="The channel; unless given, the default one.")
@click.option("--priority", type=int, default=0, help="Smaller numbers first, in a channel.")
@click.option("--delay", type=DURATION, help="Deliver so long after the due time.")
@click.option("--ttl", type=DURATION, help="Expire if still waiting after this time.")
@click.option("--header", "headers", type=HEADER, multiple=True, help="May be repeated.")
@click.option("--dedup-key", help="Suppress a message while one with this key stands for it.")
@click.option("--dedup-mode", type=click.Choice(DEDUP_MODES), help="How long it does.")
@click.option("--json-payload", "as_json", is_flag=True, help="It must be JSON.")
@click.option("--text", "as_text", is_flag=True, help="It is text, even if it looks like JSON.")
@pass_app
def set_(app: App, name: str, queue: str, payload: str, **options: Any) -> None:
    """Send PAYLOAD to QUEUE at given times, under this NAME.

    Setting it again changes what is different. Due times that were missed are not forgotten, and
    none is sent twice. A text that is a JSON object or list is sent as JSON.
    """
    as_json, as_text = options.pop("as_json"), options.pop("as_text")
    if as_json and as_text:
        raise click.UsageError("--json-payload and --text exclude each other")
    key, mode = options["dedup_key"], options["dedup_mode"]
    shape = Shape(
        options["channel"],
        priority=options["priority"],
        delay_seconds=options["delay"],
        headers=dict(options["headers"]) or None,
        ttl_seconds=options["ttl"],
        dedup={"dedup_key": key, "dedup_mode": mode},
        kind="json" if as_json else "text" if as_text else "auto",
    )
    message = shape.from_text(payload.encode(errors="surrogateescape"))
    with app.open(create=True) as turnabout:
        entry = turnabout.schedules.set(
            name,
            queue,
            message,
            **_when(options),
            missed=options["missed"],
            overlap=options["overlap"],
        )
    app.outcome(_as_dict(entry), f"{name} is set: {_coming(entry)}.")


@command(
    "list",
    short_help="List schedules.",
    examples=["turnabout schedule list", "turnabout schedule list --queue reports"],
    json_form='{"schedules": [one for each]}, and of each:\n' + SHAPE,
)
@click.option("--queue", type=QUEUE, help="Those that send to this queue.")
@pass_app
def list_(app: App, queue: str | None) -> None:
    """List all schedules with their next due times."""
    with app.open() as turnabout:
        found = turnabout.schedules.list(queue=queue)
    if app.as_json:
        app.document({"schedules": [_as_dict(entry) for entry in found]})
        return
    if not found:
        _show.note("There is no schedule.")
        return
    heads = ("SCHEDULE", "QUEUE", "WHEN", "NEXT", "SENT")
    rows = [
        (
            e.schedule.name,
            e.schedule.queue,
            _show.clean(_told(e.schedule)),
            "paused" if e.schedule.paused else _brief(e),
            _show.count(e.sent),
        )
        for e in found
    ]
    _show.out(_show.table(heads, rows, left=4))


@command(
    "show",
    short_help="Show a schedule.",
    examples=["turnabout schedule show nightly"],
    json_form=SHAPE,
)
@click.argument("name")
@pass_app
def show(app: App, name: str) -> None:
    """Show the schedule of that NAME."""
    with app.open() as turnabout:
        entry = _found(turnabout, name)
    one, message = entry.schedule, entry.schedule.message
    pairs = [
        ("queue", one.queue),
        ("channel", _show.channel(message.channel)),
        ("when", _show.clean(_told(one))),
        ("missed", one.missed),
        ("overlap", one.overlap),
        *([("gap", one.gap), ("fold", one.fold)] if one.cron is not None else []),
        ("paused", "yes" if one.paused else "no"),
        ("next", _coming(entry)),
        ("last", "–" if entry.last_at is None else _moment(entry.last_at, one.zone)),
        ("last message", "–" if entry.last_id is None else str(entry.last_id)),
        ("sent", _show.count(entry.sent)),
        ("payload", _show.payload(message.payload, 200)),
    ]
    app.outcome(_as_dict(entry), _show.facts(pairs))


@command(
    "next",
    short_help="Show the coming due times.",
    examples=[
        "turnabout schedule next nightly -n 5",
        "turnabout schedule next --cron '30 2 * * *' --zone Europe/Berlin",
    ],
    json_form='{"schedule", "zone", "due_at": [milliseconds since 1970]}',
)
@click.argument("name", required=False)
@when_options
@click.option(
    "-n",
    "--count",
    type=click.IntRange(1, 1_000),
    default=10,
    show_default=True,
    help="How many.",
)
@pass_app
def next_(app: App, name: str | None, count: int, **options: Any) -> None:
    """Show the coming due times of the schedule NAME, as a clock in its time zone shows them.

    Without a NAME, those of a schedule that is not set: to try what --cron says.
    """
    if name is None:
        zone, found = options["zone"], _imagined(options, count)
    else:
        if any(options[key] is not None for key in ("cron", "every", "at", "anchor")):
            raise click.UsageError("give a NAME or say when, not both")
        with app.open() as turnabout:
            zone = _found(turnabout, name).schedule.zone
            found = turnabout.schedules.next(name, count)
    if app.as_json:
        app.document({"schedule": name, "zone": zone, "due_at": found})
        return
    if not found:
        _show.note("It has nothing more to send.")
    for at in found:
        _show.out(f"{_moment(at, zone)}  {_show.dim(_show.when(at))}")


@command(
    "pause",
    short_help="Send nothing for a while.",
    examples=["turnabout schedule pause nightly"],
    json_form=SHAPE,
)
@click.argument("name")
@pass_app
def pause(app: App, name: str) -> None:
    """Send nothing until `resume`. Due times that pass meanwhile count as missed."""
    with app.open() as turnabout:
        entry = turnabout.schedules.pause(name)
    app.outcome(_as_dict(entry), f"{name} is paused.")


@command(
    "resume",
    short_help="Send again after a pause.",
    examples=["turnabout schedule resume nightly"],
    json_form=SHAPE,
)
@click.argument("name")
@pass_app
def resume(app: App, name: str) -> None:
    """Send again. What `missed` says holds for the due times since the pause."""
    with app.open() as turnabout:
        entry = turnabout.schedules.resume(name)
    app.outcome(_as_dict(entry), f"{name} goes on: {_coming(entry)}.")


@command(
    "delete",
    short_help="Remove a schedule.",
    examples=["turnabout schedule delete nightly"],
    json_form='{"schedule", "deleted"}',
)
@click.argument("name")
@pass_app
def delete(app: App, name: str) -> None:
    """Remove the schedule. Messages that it has sent stay."""
    with app.open() as turnabout:
        deleted = turnabout.schedules.delete(name)
    text = f"Deleted {name}." if deleted else f"There is no schedule {_show.clean(name)}."
    app.outcome({"schedule": name, "deleted": deleted}, text)
    if not deleted:
        raise click.exceptions.Exit(NOT_AS_WISHED)


@command(
    "run",
    short_help="Send what is due, for as long as it runs.",
    examples=["turnabout schedule run", "turnabout schedule run --once"],
    json_form='one line for each message: {"schedule", "queue", "due_at", "id"}',
)
@click.option("--once", is_flag=True, help="Send what is due now, and end.")
@pass_app
def run(app: App, once: bool) -> None:
    """Look every second what is due, and send it. For places where no worker runs.

    Any number may run, here and elsewhere: a due time is sent once.
    """
    stop_like_interrupt()
    with app.open() as turnabout:
        if once:
            _print(app, turnabout.schedules.fire_due())
            return
        _show.note("Sending what is due; Ctrl-C ends.")
        complain = _Complaints(app)
        while True:
            try:
                with Unbroken():
                    _print(app, turnabout.schedules.fire_due(on_error=complain))
            except (Unavailable, Uncertain) as error:
                complain(error)
            time.sleep(LOOK_SECONDS)


class _Complaints:
    """Errors that come again each second, told once a minute."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._told: dict[str, float] = {}

    def __call__(self, error: TurnaboutError) -> None:
        now = time.monotonic()
        if now >= self._told.get(str(error), 0.0):
            self._told = {t: at for t, at in self._told.items() if at > now}
            self._told[str(error)] = now + COMPLAINT_SECONDS
            self._app.complain(error.code, str(error), retryable=error.retryable)


def _print(app: App, sent: Sequence[ScheduledMessage]) -> None:
    for one in sent:
        value = {"schedule": one.schedule, "queue": one.queue, "due_at": one.due_at, "id": one.id}
        app.outcome(value, f"{one.schedule}: sent {one.id} to {one.queue}.")
    if sent:
        _show.flush()


def _found(turnabout: Turnabout, name: str) -> ScheduleEntry:
    entry = turnabout.schedules.get(name)
    if entry is None:
        raise UsageError(f"there is no schedule {name!r}: see `turnabout schedule list`")
    return entry


def _when(options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `set` that say when."""
    zone = options["zone"]
    counts = options["every"] is not None and options["anchor"] is not None
    return {
        "cron": options["cron"],
        "every_seconds": options["every"],
        "at": None if options["at"] is None else _time(options["at"], zone),
        "zone": "UTC" if counts else zone,  # then it is that of the anchor's clocks, and no more
        "anchor": 0 if options["anchor"] is None else _time(options["anchor"], zone),
        "gap": options["gap"],
        "fold": options["fold"],
    }


def _imagined(options: dict[str, Any], count: int) -> tuple[int, ...]:
    """The coming due times of a schedule that nobody has set."""
    from turnabout.timing import first_due, instant, upcoming
    from turnabout.words.entities import Outgoing
    from turnabout.words.schedules import every_ms

    when = _when(options)
    every, at = when.pop("every_seconds"), when.pop("at")
    when["every_ms"] = None if every is None else every_ms(every)
    when["at"] = None if at is None else instant(at, "at")
    when["anchor"] = instant(when["anchor"], "anchor")
    one, now = Schedule(TRY, TRY, Outgoing(b""), **when), round(time.time() * 1000)
    first_due(one, now, None)  # refuses what is never due
    return tuple(islice(upcoming(one, now), count))


def _time(text: str, zone: str) -> datetime:
    """A time as people write it; unless it says otherwise, by the clocks of that zone."""
    from turnabout.timing import zone_of

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no time: write 2027-01-31T09:00") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=zone_of(zone))


def _told(one: Schedule) -> str:
    """When it is due, in words."""
    if one.cron is not None:
        return f"{one.cron} ({one.zone})"
    if one.every_ms is not None:
        return f"every {_show.duration(one.every_ms / 1000)}"
    assert one.at is not None
    return f"once, at {_moment(one.at, one.zone)}"


def _moment(at: int, zone: str) -> str:
    from turnabout.timing import local

    moment = local(at, zone)
    offset = moment.strftime("%z")
    return f"{moment:%a %Y-%m-%d %H:%M:%S} {offset[:3]}:{offset[3:5]} {zone}"


def _coming(entry: ScheduleEntry) -> str:
    if entry.next_at is None:
        return "nothing more to send"
    return f"next {_moment(entry.next_at, entry.schedule.zone)} ({_brief(entry)})"


def _brief(entry: ScheduleEntry) -> str:
    if entry.next_at is None:
        return "–"
    return _show.when(entry.next_at, entry.now / 1000)


def _as_dict(entry: ScheduleEntry) -> dict[str, Any]:
    one, message = entry.schedule, entry.schedule.message
    return {
        "schedule": one.name,
        "queue": one.queue,
        "cron": one.cron,
        "every_seconds": None if one.every_ms is None else one.every_ms / 1000,
        "at": one.at,
        "zone": one.zone,
        "anchor": one.anchor,
        "missed": one.missed,
        "overlap": one.overlap,
        "gap": one.gap,
        "fold": one.fold,
        "paused": one.paused,
        "next_at": entry.next_at,
        "last_at": entry.last_at,
        "last_id": entry.last_id,
        "sent": entry.sent,
        "message": {
            "channel": message.channel,
            "priority": message.priority,
            "content_type": message.content_type,
            "payload_bytes": len(message.payload),
        },
    }


schedule.add_section("Commands", set_, list_, show, next_, pause, resume, delete, run)
