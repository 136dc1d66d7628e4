"""`pipeline status`, and what an operator may do by hand: `release`, `forget`, `lake`."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from turnabout.cli import _show
from turnabout.cli._app import App, negative
from turnabout.cli._declare import YES, argument, command, option
from turnabout.cli._json import one
from turnabout.cli._kinds import DURATION
from turnabout.cli.queue import confirm
from turnabout.pipeline.commands.jobs import ARCHIVE, STORAGE, StorageOptions, need_lake, refusals
from turnabout.pipeline.results import LakeArchive, LakeContents, Status
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
    from turnabout.pipeline.lake import Lake
    from turnabout.store import Store


def _held(one: Subscription) -> str:
    isolated = "" if one.limit is None else f" (at most {_show.count(one.limit)})"
    return _show.count(one.messages) + isolated


def _behind(mark: Watermark) -> str:
    return _show.count(mark.lag) + ("+" if mark.lag >= 1_000_000 else "")


def _megabytes(size: float) -> str:
    return _show.count(round(size / 1e6, 1))


SUBSCRIPTIONS: _show.Columns = (
    ("SUBSCRIPTION", "name", _show.clean),
    ("QUEUES", lambda one: ", ".join(one.queues) or None, _show.clean),
    ("READER", "owner", _show.clean),
    ("EPOCH", "epoch", _show.count),
    ("ACKED", "acked", _show.count),
    ("HELD", _held, _show.figure),
    ("UNFINISHED", "unfinished", _show.count),
    ("OLDEST", "oldest_ready_ms", _show.milliseconds),
    ("LEASE", "lease_until", _show.when),
    ("SEEN", "seen_at", _show.when),
)
ARCHIVES: _show.Columns = (
    ("ARCHIVE", "archive", _show.clean),
    ("ROWS", "messages", _show.count),
    ("BEHIND", _behind, _show.figure),
    ("LAG", lambda mark: mark.lag_ms if mark.lag else None, _show.milliseconds),
    ("WATERMARK", "set_at", _show.when),
)
LAKE_ARCHIVES: _show.Columns = (
    ("ARCHIVE", "archive", _show.clean),
    ("ROWS", "rows", _show.count),
    ("FILES", "files", _show.count),
    ("MB", lambda one: _megabytes(one.bytes), _show.figure),
    ("VERSION", "version", _show.count),
    ("TABLE", "uri", _show.clean),
)


@command(
    "status",
    "turnabout pipeline status",
    "turnabout pipeline status --fail-over-lag 1h",
    "turnabout pipeline status --json | jq '.archives[].lag_seconds'",
    json=one(Status, "ok"),
)
@option(
    "--fail-over-lag most",
    "Exit code 1 if an archive, or a stream, is further behind than this, or there is neither.",
    DURATION,
    metavar="DURATION",
)
def status(app: App, most: float | None) -> None:
    """Show what reads the database in bulk: subscriptions of lease streams, archives, and the log.

    UNFINISHED counts the messages of a stream's queues; OLDEST is how long the oldest ready one has
    waited. BEHIND is the number of rows in the log that the archive does not have yet; LAG is how
    long the oldest of them has waited. On PostgreSQL a transaction that stays open holds the whole
    log back; it is shown.

    Exit codes: 0 ok; 1 over --fail-over-lag; 2 a wrong call; 3 the database cannot be reached.
    """
    app.need_file()
    from turnabout.pipeline.jobs.status import status as ask

    found = ask(app.url)
    late = () if most is None else found.behind(most)
    ok = not late and (most is None or bool(found.archives or found.subscriptions))
    if app.as_json:
        app.say(found, "", ok=ok)
    else:
        _show_status(app, found)
    if not ok:
        over = f"Over the lag: {', '.join(late)}."
        _show.note(over if late else "There is no archive and no stream.")
        negative()


def _show_status(app: App, found: Status) -> None:
    app.show(found.subscriptions, SUBSCRIPTIONS, "No lease streams.")
    none = "No archives: `turnabout pipeline run archive --lake PLACE` makes one."
    app.show(found.archives, ARCHIVES, none)
    waiting = found.log.waiting_ms
    if waiting is not None:
        _show.out(
            f"A transaction that has been open for {_show.milliseconds(waiting)} holds the log "
            "back: messages that finished since it began cannot be read yet."
        )


@command(
    "release",
    "turnabout pipeline release mailer",
    "turnabout pipeline release mailer --forget --yes",
    json='{"subscription", "messages", "forgotten": true | false}',
)
@argument("subscription")
@option("--forget", "Remove the subscription as well.", bool)
@YES
def release(app: App, subscription: str, forget: bool, yes: bool) -> None:
    """Give back, uncharged, what SUBSCRIPTION has leased and not acknowledged, and stop its reader.

    For a stream that will not come back. One that still runs fails at its next step; if it is
    started again, it goes on with what is in the queues then. With --forget, when its checkpoint is
    gone for good.
    """
    with _database(app) as store:
        there = {one.name: one for one in store.run(SubscriptionList())}
        _need("subscription", subscription, there)
        held = _show.plural(there[subscription].messages, "message")
        confirm(yes, f"Stop the reader of {subscription} and give back its {held}?")
        messages = store.run(SubscriptionRelease(subscription, forget))
    gone = " and forgot the subscription" if forget else ""
    app.say(
        {"subscription": subscription, "messages": messages, "forgotten": forget},
        f"Gave back {_show.plural(messages, 'message')}{gone}.",
    )


@command("forget", "turnabout pipeline forget old-archive", json='{"archive", "forgotten": true}')
@argument("archive")
@YES
def forget(app: App, archive: str, yes: bool) -> None:
    """Remove the watermark of ARCHIVE from the database. Its files stay as they are."""
    with _database(app) as store:
        _need("archive", archive, [mark.archive for mark in store.run(WatermarkList())])
        confirm(yes, f"Forget how far the archive {archive} is?")
        store.run(WatermarkDelete(archive))
    app.say(
        {"archive": archive, "forgotten": True}, f"Forgot the archive {archive}; its files stay."
    )


@command(
    "lake",
    "turnabout pipeline lake /var/lib/turnabout/lake",
    "turnabout pipeline lake /var/lib/turnabout/lake --deep",
    "turnabout pipeline lake s3://bucket/lake --files",
    json=LakeContents,
)
@argument("place", envvar="TURNABOUT_LAKE")
@option("--deep", "Read the files whole and compare their digests.", bool)
@option("--files", 'List the Parquet files, for other programs. With --json: {"files"}.', bool)
@ARCHIVE
@STORAGE
def lake(
    app: App,
    place: str,
    deep: bool,
    files: bool,
    archive: str | None,
    storage_options: StorageOptions,
) -> None:
    """Check that the files of the lake in PLACE are there with their sizes, and sum them up.

    PLACE is a folder, or a URL such as s3://bucket/lake. Each archive is a Delta table, for
    whatever reads Delta. Exit code 1 if a file is damaged.
    """
    need_lake()
    from turnabout.pipeline.lake import Lake

    with refusals(app):
        there = Lake(place, storage_options=storage_options)
        if files:
            paths = there.paths(archive)
            for text in [""] if app.as_json else paths:
                app.say({"files": paths}, text)
            return
        names = there.archives() or (there.only(None),) if archive is None else (archive,)
        found = LakeContents(tuple(_contents(there, name, deep=deep) for name in names))
    app.say(found, _show.table(LAKE_ARCHIVES, found.archives))


def _contents(there: Lake, name: str, *, deep: bool) -> LakeArchive:
    count, size = there.check(name, deep=deep)
    version = there.table(name).version()
    rows = sum(file.rows for file in there.files(name))
    return LakeArchive(name, there.uri(name), version, rows, count, size)


def _need(kind: str, name: str, there: Iterable[str]) -> None:
    if name not in there:
        names = ", ".join(there) or "none"
        raise UsageError(f"there is no {kind} {name!r}; there: {names}")


@contextmanager
def _database(app: App) -> Generator[Store]:
    from turnabout._connect import database

    app.need_file()
    with closing(database(app.url)) as store:
        yield store
