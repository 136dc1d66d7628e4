"""`schedule`: messages that are sent at given times."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, get_args

import click

from turnabout.cli import _show
from turnabout.cli._app import App, negative
from turnabout.cli._declare import argument, group, limit, option, options
from turnabout.cli._interrupt import stop_like_interrupt, unbroken
from turnabout.cli._json import items, lines
from turnabout.cli._kinds import DURATION, QUEUE
from turnabout.cli.send import bytes_of, message_options, shape_of
from turnabout.words.entities import Outgoing
from turnabout.words.errors import TurnaboutError, Unavailable, Uncertain, UsageError
from turnabout.words.schedules import (
    Fold,
    Gap,
    Missed,
    Overlap,
    Schedule,
    ScheduledMessage,
    ScheduleEntry,
    schedule_of,
)
from turnabout.words.value import Value

if TYPE_CHECKING:
    from turnabout import Turnabout

LOOK_SECONDS = 1.0
COMPLAINT_SECONDS = 60.0
TRY = "try"
"""The name, and the queue, of a schedule that is only looked at."""
NAME = argument("name")
WHEN = ("cron", "every_seconds", "at", "zone", "anchor", "gap", "fold")
when_options = options(
    option("--cron", "Five fields: '30 9 * * MON-FRI'."),
    option("--every every_seconds", "At an interval (90s, 5m, 1d).", DURATION),
    option("--at", "Once: 2027-01-31T09:00, in the zone.", metavar="TIME"),
    option("--zone", "The time zone of --cron, and of the times given here.", default="UTC"),
    option("--anchor", "Where --every counts from.", metavar="TIME"),
    option("--gap", "A time that clocks are put forward over.", get_args(Gap), "after"),
    option("--fold", "A time that comes twice.", get_args(Fold), "first"),
)


class Coming(Value):
    """The coming due times of a schedule."""

    schedule: str | None
    zone: str
    due_at: tuple[int, ...]


@group("schedule", short_help="Messages sent at given times: set, list, show, next, run, …")
def schedule() -> None:
    """Messages that are sent at given times: by cron, at an interval, or once.

    Workers, and programs that receive, send what is due: once for each due time, however many they
    are. Where there are none, `turnabout schedule run` does it.
    """


@schedule.command(
    "set",
    "turnabout schedule set nightly reports daily --cron '30 2 * * *' --zone Europe/Berlin",
    "turnabout schedule set sync shops '{\"all\": true}' --every 1h --overlap skip",
    "turnabout schedule set pulse checks ping --every 5m --missed skip",
    "turnabout schedule set launch mails go --at 2027-01-31T09:00 --zone America/New_York",
    json=ScheduleEntry,
)
@NAME
@argument("queue", QUEUE)
@argument("payload")
@when_options
@option("--missed", "Due times that passed while nothing ran.", get_args(Missed), "once")
@option("--overlap", "While the previous message is unfinished.", get_args(Overlap), "allow")
@message_options
def set_(app: App, name: str, queue: str, payload: str, **values: Any) -> None:
    """Send PAYLOAD to QUEUE at given times, under this NAME.

    Setting it again changes what is different. Due times that were missed are not forgotten, and
    none is sent twice. A text that is a JSON object or list is sent as JSON.
    """
    when = _when(values)
    how = {name: values.pop(name) for name in ("missed", "overlap")}
    message = shape_of(values).from_text(bytes_of(payload))
    with app.open(create=True) as turnabout:
        entry = turnabout.schedules.set(name, queue, message, **when, **how)
    app.say(entry, f"{name} is set: {_coming(entry)}.")


def _due_times(one: Schedule) -> str:
    """Describe a schedule's due times in words."""
    if one.cron is not None:
        return _show.clean(f"{one.cron} ({one.zone})")
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
    return "–" if entry.next_at is None else _show.when(entry.next_at, entry.now / 1000)


def _last(entry: ScheduleEntry) -> str | None:
    return None if entry.last_at is None else _moment(entry.last_at, entry.schedule.zone)


SCHEDULES: _show.Columns = (
    ("SCHEDULE", "schedule.name", str),
    ("QUEUE", "schedule.queue", str),
    ("WHEN", "schedule", _due_times),
    ("NEXT", lambda e: "paused" if e.schedule.paused else _brief(e), str),
    ("SENT", "sent", _show.count),
)
SCHEDULE: _show.Columns = (
    ("queue", "schedule.queue", str),
    ("channel", "schedule.message.channel", _show.channel),
    ("when", "schedule", _due_times),
    *((name, f"schedule.{name}", str) for name in ("missed", "overlap", "gap", "fold")),
    ("paused", "schedule.paused", _show.yes),
    ("next", _coming, str),
    ("last", _last, str),
    ("last message", "last_id", str),
    ("sent", "sent", _show.count),
    ("refused", "refused", _show.count),
    ("payload", "schedule.message.payload", lambda data: _show.payload(data, 200)),
)


@schedule.command("list", "turnabout schedule list", json=items(ScheduleEntry))
@option("--queue", "Only those that send to this queue.", QUEUE)
def list_(app: App, queue: str | None) -> None:
    """List all schedules with their next due times."""
    with app.open() as turnabout:
        app.show(turnabout.schedules.list(queue=queue), SCHEDULES, "There are no schedules.")


@schedule.command("show", "turnabout schedule show nightly", json=ScheduleEntry)
@NAME
def show(app: App, name: str) -> None:
    """Show the schedule called NAME."""
    with app.open() as turnabout:
        entry = _found(turnabout, name)
    app.say(entry, _show.facts(SCHEDULE, entry))


@schedule.command(
    "next",
    "turnabout schedule next nightly -n 5",
    "turnabout schedule next --cron '30 2 * * *' --zone Europe/Berlin",
    json=Coming,
)
@argument("name", required=False)
@when_options
@limit(1_000, 10, "How many.")
def next_(app: App, name: str | None, limit: int, **values: Any) -> None:
    """Show the coming due times of the schedule NAME.

    They are shown by the clocks of its time zone. Without a NAME, those of a schedule that is not
    set: to try what --cron says.
    """
    zone = values["zone"]
    if name is None:
        from turnabout.timing import first_due, upcoming

        one, now = schedule_of(TRY, TRY, Outgoing(b""), **_when(values)), round(time.time() * 1000)
        first_due(one, now, None)  # refuses what is never due
        found = tuple(islice(upcoming(one, now), limit))
    else:
        if any(values[key] is not None for key in ("cron", "every_seconds", "at", "anchor")):
            raise click.UsageError("give a NAME or say when, not both")
        with app.open() as turnabout:
            zone = _found(turnabout, name).schedule.zone
            found = turnabout.schedules.next(name, limit)
    if not found and not app.as_json:
        _show.note("It has nothing more to send.")
        return
    times = (f"{_moment(at, zone)}  {_show.dim(_show.when(at))}" for at in found)
    app.say(Coming(name, zone, tuple(found)), "\n".join(times))


@schedule.command("pause", "turnabout schedule pause nightly", json=ScheduleEntry)
@NAME
def pause(app: App, name: str) -> None:
    """Send nothing until `resume`. Due times that pass meanwhile count as missed."""
    with app.open() as turnabout:
        app.say(turnabout.schedules.pause(name), f"{name} is paused.")


@schedule.command("resume", "turnabout schedule resume nightly", json=ScheduleEntry)
@NAME
def resume(app: App, name: str) -> None:
    """Send again after a pause. --missed decides about the due times since."""
    with app.open() as turnabout:
        entry = turnabout.schedules.resume(name)
    app.say(entry, f"{name} goes on: {_coming(entry)}.")


@schedule.command("delete", "turnabout schedule delete nightly", json='{"value": true | false}')
@NAME
def delete(app: App, name: str) -> None:
    """Remove a schedule. Messages that it has sent stay."""
    with app.open() as turnabout:
        deleted = turnabout.schedules.delete(name)
    text = f"Deleted {name}." if deleted else f"There is no schedule {_show.clean(name)}."
    app.say({"value": deleted}, text)
    if not deleted:
        negative()


@schedule.command(
    "run", "turnabout schedule run", "turnabout schedule run --once", json=lines(ScheduledMessage)
)
@option("--once", "Send what is due now, and end.", bool)
def run(app: App, once: bool) -> None:
    """Look every second for what is due, and send it. For places where no worker runs.

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
                with unbroken():
                    _print(app, turnabout.schedules.fire_due(on_error=complain))
            except (Unavailable, Uncertain) as error:
                complain(error)
            time.sleep(LOOK_SECONDS)


class _Complaints:
    """Errors that come again each second, printed once a minute."""

    def __init__(self, app: App) -> None:
        self._app, self._quiet_until = app, dict[str, float]()

    def __call__(self, error: TurnaboutError) -> None:
        now = time.monotonic()
        if now >= self._quiet_until.get(str(error), 0.0):
            self._quiet_until = {t: at for t, at in self._quiet_until.items() if at > now}
            self._quiet_until[str(error)] = now + COMPLAINT_SECONDS
            self._app.complain(error.code, str(error), retryable=error.retryable)


def _print(app: App, sent: Sequence[ScheduledMessage]) -> None:
    for one in sent:
        app.say(one, f"{one.schedule}: sent {one.id} to {one.queue}.")
    if sent:
        _show.flush()


def _found(turnabout: Turnabout, name: str) -> ScheduleEntry:
    entry = turnabout.schedules.get(name)
    if entry is None:
        raise UsageError(f"there is no schedule {name!r}: see `turnabout schedule list`")
    return entry


def _when(values: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `set` that say when; taken out of the options."""
    arguments = {name: values.pop(name) for name in WHEN}
    zone, at, anchor = arguments["zone"], arguments["at"], arguments["anchor"]
    arguments["at"] = None if at is None else _time(at, zone)
    arguments["anchor"] = 0 if anchor is None else _time(anchor, zone)
    if arguments["every_seconds"] is not None and anchor is not None:
        arguments["zone"] = "UTC"  # it was that of the anchor's clocks, and no more
    return arguments


def _time(text: str, zone: str) -> datetime:
    """A time as people write it; unless it says otherwise, by the clocks of that zone."""
    from turnabout.timing import zone_of

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a valid time: write 2027-01-31T09:00") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=zone_of(zone))
