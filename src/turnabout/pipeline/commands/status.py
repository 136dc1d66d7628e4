"""`pipeline status`, and what an operator may do by hand: `release`, `forget`, `lake`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from turnabout.cli import _show
from turnabout.cli._app import NEGATIVE, App
from turnabout.cli._declare import command
from turnabout.cli._kinds import DURATION
from turnabout.cli.queue import YES, confirm
from turnabout.pipeline.commands.jobs import need_spark, refusals
from turnabout.pipeline.verbs import (
    Subscription,
    SubscriptionList,
    SubscriptionRelease,
    Watermark,
    WatermarkDelete,
    WatermarkList,
)
from turnabout.words.errors import UsageError

if TYPE_CHECKING:
    from turnabout.pipeline.jobs.status import Status
    from turnabout.store import Store

STATUS_FORM = (
    '{"subscriptions": [{"name", "owner", "generation", "epoch", "acked", "messages",\n'
    '  "lease_until" | null, "limit" | null, "queues", "opened_at", "seen_at"}],\n'
    ' "archives": [{"archive", "position", "messages", "set_at", "lag", "lag_ms"}],\n'
    ' "log": {"end", "floor", "waiting_ms" | null}, "ok": true | false}'
)


@command(
    "status",
    "turnabout pipeline status",
    "turnabout pipeline status --fail-over-lag 1h",
    "turnabout pipeline status --json | jq '.archives[].lag_ms'",
    json=STATUS_FORM,
)
@click.option(
    "--fail-over-lag",
    "most",
    type=DURATION,
    metavar="DURATION",
    help="Exit code 1 if an archive lacks something older, or there is none.",
)
def status(app: App, most: float | None) -> None:
    """Show who reads the database in bulk: subscriptions of lease streams, archives, and the log.

    BEHIND is what the log has and the archive has not; LAG, for how long the oldest of it has
    waited. On PostgreSQL a transaction that stays open holds the whole log back: it is shown.

    Exit codes: 0 ok; 1 over --fail-over-lag; 2 a wrong call; 3 the database is away.
    """
    app.need_file()
    need_spark()
    from turnabout.pipeline.jobs.status import status as ask

    found = ask(app.url)
    late = () if most is None else found.behind(most)
    ok = not late and (most is None or bool(found.archives))
    if app.as_json:
        app.say({**asdict_of(found), "ok": ok}, "")
    else:
        _show_status(found)
    if not ok:
        names = ", ".join(mark.archive for mark in late)
        _show.note(f"Over the lag: {names}." if names else "There is no archive.")
        raise click.exceptions.Exit(NEGATIVE)


def asdict_of(found: Status) -> dict[str, Any]:
    """A status as JSON has it."""
    return {
        "subscriptions": [asdict(one) for one in found.subscriptions],
        "archives": [asdict(one) for one in found.archives],
        "log": asdict(found.log),
    }


def _show_status(found: Status) -> None:
    if found.subscriptions:
        heads = ("SUBSCRIPTION", "QUEUES", "READER", "EPOCH", "ACKED", "HELD", "LEASE", "SEEN")
        _show.out(_show.grid(heads, [_subscription(s) for s in found.subscriptions], range(3, 99)))
    else:
        _show.note("No lease streams.")
    if found.archives:
        heads = ("ARCHIVE", "ROWS", "BEHIND", "LAG", "WATERMARK")
        _show.out(_show.grid(heads, [_archive(mark) for mark in found.archives], range(1, 99)))
    else:
        _show.note("No archives: `turnabout pipeline run archive --lake FOLDER` makes one.")
    waiting = found.log.waiting_ms
    if waiting is not None:
        _show.out(
            f"A transaction that has been open for {_show.milliseconds(waiting)} holds the log "
            "back: what finished since it began is not read yet."
        )


def _subscription(one: Subscription) -> tuple[str, ...]:
    isolated = "" if one.limit is None else f" (at most {_show.count(one.limit)})"
    return (
        _show.clean(one.name),
        _show.clean(", ".join(one.queues)) or "–",
        _show.clean(one.owner),
        str(one.epoch),
        str(one.acked),
        _show.count(one.messages) + isolated,
        "–" if one.lease_until is None else _show.when(one.lease_until),
        _show.when(one.seen_at),
    )


def _archive(mark: Watermark) -> tuple[str, ...]:
    return (
        _show.clean(mark.archive),
        _show.count(mark.messages),
        _show.count(mark.lag) + ("+" if mark.lag >= 1_000_000 else ""),
        _show.milliseconds(mark.lag_ms) if mark.lag else "–",
        _show.when(mark.set_at),
    )


@command(
    "release",
    "turnabout pipeline release mailer",
    "turnabout pipeline release mailer --forget --yes",
    json='{"subscription", "messages", "forgotten": true | false}',
)
@click.argument("subscription")
@click.option("--forget", is_flag=True, help="Remove the subscription as well.")
@YES
def release(app: App, subscription: str, forget: bool, yes: bool) -> None:
    """Give back, uncharged, what SUBSCRIPTION has leased and not acknowledged, and stop its reader.

    For a stream that will not come back. One that still runs fails at its next step; if it is
    started again, it goes on with what is in the queues then. With --forget, when its checkpoint is
    gone for good.
    """
    app.need_file()
    with closing(_database(app)) as store:
        there = {one.name: one for one in store.run(SubscriptionList())}
        if subscription not in there:
            names = ", ".join(there) or "none"
            raise UsageError(f"there is no subscription {subscription!r}; there: {names}")
        held = _show.plural(there[subscription].messages, "message")
        confirm(yes, f"Stop the reader of {subscription} and give back its {held}?")
        messages = store.run(SubscriptionRelease(subscription, forget))
    gone = " and forgot the subscription" if forget else ""
    app.say(
        {"subscription": subscription, "messages": messages, "forgotten": forget},
        f"Gave back {_show.plural(messages, 'message')}{gone}.",
    )


@command(
    "forget",
    "turnabout pipeline forget old-archive",
    json='{"archive", "forgotten": true}',
)
@click.argument("archive")
@YES
def forget(app: App, archive: str, yes: bool) -> None:
    """Remove the watermark of ARCHIVE from the database. Its files stay as they are."""
    app.need_file()
    with closing(_database(app)) as store:
        names = [mark.archive for mark in store.run(WatermarkList())]
        if archive not in names:
            there = ", ".join(names) or "none"
            raise UsageError(f"there is no archive {archive!r}; there: {there}")
        confirm(yes, f"Forget how far the archive {archive} is?")
        store.run(WatermarkDelete(archive))
    app.say(
        {"archive": archive, "forgotten": True}, f"Forgot the archive {archive}; its files stay."
    )


@command(
    "lake",
    "turnabout pipeline lake /var/lib/turnabout/lake",
    "turnabout pipeline lake /var/lib/turnabout/lake --deep",
    "turnabout pipeline lake /var/lib/turnabout/lake --files",
    json='{"archives": [{"archive", "version", "rows", "files", "bytes", "position", "at"}],\n'
    '  "staged": {"folders", "bytes"}}\nwith --files: {"files": [path]}',
)
@click.argument("folder", envvar="TURNABOUT_LAKE")
@click.option("--deep", is_flag=True, help="Read the files whole and compare their digests.")
@click.option("--files", is_flag=True, help="List the Parquet files, for other programs.")
def lake(app: App, folder: str, deep: bool, files: bool) -> None:
    """Check that the files of the lake in FOLDER are there with their sizes, and sum them up.

    Exit code 1 if it is damaged. Staged rows are of runs that go on, or were killed: the next run
    removes them.
    """
    need_spark()
    from turnabout.pipeline.lake import Lake

    with refusals(app):
        found = Lake(folder)
        paths = found.paths()
        if files and app.as_json:
            app.say({"files": paths}, "")
        elif files:
            for path in paths:
                _show.out(path)
        if files:
            return
        archives: list[dict[str, Any]] = []
        for name in found.archives():
            count, size = found.check(name, deep=deep)
            head = found.head(name)
            assert head is not None
            archives.append(
                {
                    "archive": name,
                    "version": head.version,
                    "rows": head.total,
                    "files": count,
                    "bytes": size,
                    "position": head.position,
                    "at": head.at,
                }
            )
        folders, staged = found.leftovers()
    if app.as_json:
        app.say({"archives": archives, "staged": {"folders": folders, "bytes": staged}}, "")
        return
    heads = ("ARCHIVE", "ROWS", "FILES", "MB", "LAST COMMIT")
    rows = [
        (
            one["archive"],
            _show.count(one["rows"]),
            _show.count(one["files"]),
            _show.count(round(one["bytes"] / 1e6, 1)),
            _show.when(one["at"]),
        )
        for one in archives
    ]
    _show.out(_show.grid(heads, rows, range(1, 99)))
    if folders:
        _show.out(f"Staged: {_show.count(round(staged / 1e6, 1))} MB.")


def _database(app: App) -> Store:
    from turnabout._connect import database

    return database(app.url)
