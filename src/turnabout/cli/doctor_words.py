"""The words for what a store's doctor finds: what it means, and what to do about it.

In braces stand the facts of a finding: `{age:ms}` is shown as a duration, `{count:queue}` as so
many queues, `{name:clean}` without what a terminal would obey, others by Python's own rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from string import Formatter
from typing import Any, NamedTuple

from turnabout.cli import _show
from turnabout.cli._check import REPORT, Check
from turnabout.slices import Slice
from turnabout.words.findings import Finding


class Words(NamedTuple):
    """good: of a finding that is `ok`; bad: of any other, and then `todo` says what to do."""

    good: str = ""
    bad: str = ""
    todo: str = REPORT


LOWERED = "expected right after a limit was lowered; otherwise please report it"

OF_QUEUES: Mapping[str, Words] = {
    "counts": Words(
        "add up in {queues:queue}",
        "{queue}: {sent:,} were sent, but {live:,} unfinished and {finished:,} finished make"
        " {kept:,}",
    ),
    "counts.none": Words("no queues yet"),
    "leases": Words(
        "none ran out long ago",
        "{queue}: {number:lease} ran out more than {since_ms:ms} ago and nobody took the messages"
        " back",
        "start a worker for {queue}: each receive takes such messages back",
    ),
    "waiting": Words(
        bad="{queue}: a ready message has waited for {age_ms:ms}",
        todo="is a worker running, and is it fast enough? See: turnabout stats {queue}",
    ),
    "waiting.paused": Words(
        bad="{queue}: a ready message has waited for {age_ms:ms}",
        todo="the queue is paused. See: turnabout stats {queue}",
    ),
    "way out": Words(
        "receives can find every message", "receives cannot find {number:,} messages or channels"
    ),
    "channels": Words(
        "their counts agree with their messages", "the counts of {number:,} channels are wrong"
    ),
}

OF_PROMISES: Mapping[str, Words] = {
    "endings": Words(
        "no message that has ended is still there (P7)",
        "messages are unfinished, although their history says that they have ended (P7)",
    ),
    "one ending": Words(
        "no message of the last hour has ended twice (P1)",
        "messages of the last hour have ended twice (P1)",
    ),
    "order": Words(
        "no FIFO channel has two leases (P9)", "FIFO channels have more than one lease (P9)"
    ),
    "slots": Words(
        "no channel and no queue has more leases than its limit (P10)",
        "channels or queues have more leases than their limit (P10)",
        LOWERED,
    ),
    "rates": Words(
        "no channel was handed out faster than its rate (P11)",
        "channels were handed out faster than their rate (P11)",
        LOWERED,
    ),
    "bounds": Words(
        "no queue and no channel holds more than it may (P17)",
        "queues or channels hold more than max_messages or max_size (P17)",
        "sends are refused until there is room. Concurrent sends and dead letters may exceed a"
        " limit; otherwise see whether it was lowered",
    ),
    "one lease": Words(
        "no message is there twice (P5)",
        "messages are there twice, so they can have two leases (P5)",
    ),
    "charges": Words(
        "no delivery was charged twice (P6)",
        "messages were charged more often than delivered: a stale receipt was accepted (P6)",
    ),
    "early": Words(
        "nothing was handed out or is ready before it is due (P8)",
        "messages or schedules are ahead of their time (P8)",
        "was the database's clock set back? Otherwise please report it, with this output",
    ),
    "keys": Words(
        "no dedup key stands for two messages (P4)", "dedup keys stand for two messages (P4)"
    ),
    "cancelled": Words(
        "no cancelled message waits",
        "messages wait, although they were cancelled while they were leased",
    ),
    "expiry": Words(
        "nothing waits beyond its time to live",
        "messages have expired, and nobody has ended them yet (they are not handed out)",
        "any receive ends them: start a worker, or run `turnabout receive`",
    ),
    "exhausted": Words(
        "no FIFO channel is stuck",
        "messages without attempts left block their FIFO channels",
        "look at them with `turnabout peek`; then `turnabout retry` or `turnabout cancel`",
    ),
    "dead letters": Words(
        "all dead-letter queues exist",
        "queues name a dead-letter queue that does not exist: dead messages end in history only",
        "make it: `turnabout queue create`, or name another: `turnabout queue update`",
    ),
    "dedup": Words("all dedup entries belong to a queue", "dedup entries belong to no queue"),
    "schedules": Words(
        "none is overdue",
        "schedules are overdue by more than two minutes",
        "no process looks after them: start a worker or `turnabout schedule run`",
    ),
    "redrives": Words(
        "none is stuck",
        "redrives run from a queue that is gone",
        "end them: `turnabout redrive cancel`",
    ),
    "retention": Words(
        "history is swept",
        "queues keep history for more than a day longer than they should",
        "receivers sweep it, a share each second: start a worker for these queues",
    ),
    "events": Words(
        "are swept",
        "events are older than two days",
        "receivers sweep them, a share each second: start a worker for their queues",
    ),
    "inbox": Words(
        "nothing that was put there was refused",
        "rows of turnabout_inbox could not be sent; they are in turnabout_inbox_refused",
        "its column reason says why: put them right into turnabout_inbox, and delete them there",
    ),
    "unlogged tables": Words(
        "hold where messages stand",
        "a crash of the server, a failover or a restore has emptied the tables that hold where"
        " messages stand, and they were not rebuilt yet",
        "the next call rebuilds them: start a worker, or run `turnabout peek` on any queue",
    ),
    "orphans": Words(
        "every message is ready, scheduled or leased",
        "messages stand nowhere, so no receive finds them (a transaction that was prepared before"
        " a crash and committed after it leaves such)",
        "a worker's maintenance puts them back, bit by bit. At once: select"
        " turnabout.rescue_orphans(turnabout.clock_ms(), 0, 2147483647)",
    ),
    "entries": Words(
        "no place is kept for a message that is gone",
        "places are kept for messages that are gone",
        "receivers drop them on their way; somebody has deleted messages by hand, or please report"
        " it",
    ),
    "head marks": Words(
        "hide no message",
        "ready messages are hidden behind a head mark",
        "receivers lower it, once a second: start a worker, then run doctor again; if they are"
        " still hidden, please report it",
    ),
    "days": Words(
        "history goes to the partition of its day",
        "rows of history of the last day have no partition of their own, and are swept one by one",
        "expected right after the first start; otherwise see what the server's log says",
    ),
}
"""Of questions that count what must not be. The number stands behind the text."""

OF_SQLITE: Mapping[str, Words] = {
    "SQLite": Words(
        "{version}",
        "{version} has the WAL-reset bug (fixed in 3.51.3): rarely, two processes that write at "
        "the same moment damage the file",
        "Turnabout works around it; your own connections to the file must start with "
        "`pragma wal_autocheckpoint = 0`, or use a newer SQLite",
    ),
    "database.memory": Words("in memory: empty at each start, and gone at the end"),
    "database.missing": Words(
        bad="there is no file {path}, or it cannot be read",
        todo="name one with --url or TURNABOUT_URL, or make it: turnabout migrate up",
    ),
    "file": Words(
        "{path}, {megabytes} MB",
        "{path}, {megabytes} MB, cannot be written here",
        "fix the mode of the file and of its folder: SQLite keeps its log beside it",
    ),
    "file.unreadable": Words(bad="{path} cannot be read", todo="fix its owner or mode"),
    "file system": Words(
        "{kind}",
        "{kind}: a network file system, whose locks SQLite cannot rely on",
        "move the file to a local disk, or use PostgreSQL",
    ),
    "disk": Words(
        bad="{megabytes:,} MB are free",
        todo="free some space: on a full disk sends are refused",
    ),
    "log": Words(
        bad="the write-ahead log has {megabytes:,} MB: a reader has held it for a long time",
        todo="find the process with a long read transaction on the file, and end it",
    ),
    "durability.file": Words(
        "journal mode wal, synchronous {synchronous}",
        "journal mode wal, synchronous {synchronous}: a power cut loses the last messages that "
        "were accepted",
        "leave synchronous out of the URL, unless that is what you want",
    ),
    "clock": Words(
        "the host's is not behind the file's time",
        "the host's was set back: it is {behind_ms:ms} behind the latest time that the file has"
        " seen, which goes on at half speed meanwhile",
        "set it right, if it is wrong; otherwise it catches up by itself",
    ),
    "journal mode": Words(
        bad="{mode}: readers and writers wait for each other",
        todo="open the file once with turnabout (any command): it sets WAL",
    ),
    "file contents": Words(
        "quick_check finds nothing wrong",
        "the file is damaged: {found}",
        "stop all writers, keep a copy, then: sqlite3 FILE .recover",
    ),
}

OF_POSTGRES: Mapping[str, Words] = {
    "psycopg": Words("{version}, libpq {libpq}"),
    "database.unreachable": Words(
        bad="cannot be reached: {error}",
        todo="is the server up, and are host, port, user and password right? Try: psql URL",
    ),
    "connections": Words(
        bad="a second one is refused: {error}",
        todo="raise max_connections of the server, or the pool size of the pooler",
    ),
    "PostgreSQL": Words(
        "{version}", "{version} is too old", "Turnabout needs 14 or later: upgrade it"
    ),
    "durability": Words("fsync, full_page_writes and synchronous_commit are on"),
    **{
        name: Words(bad=f"is off: a power cut {harm}", todo=f"set {name} = on, unless for tests")
        for name, harm in (
            ("fsync", "can damage the whole database"),
            ("full_page_writes", "can damage pages"),
            ("synchronous_commit", "loses the last messages that were accepted"),
        )
    },
    "autovacuum": Words(
        bad="is off: dead rows pile up and receive gets slow", todo="set autovacuum = on"
    ),
    "primary": Words(
        bad="this is a standby: it takes no sends, and where messages stand cannot be read there",
        todo="use the primary's address",
    ),
    "role settings": Words(
        "leave our calls alone",
        "{settings}: connections of ours set isolation, timeouts and array_nulls for themselves."
        " Where they cannot, behind a transaction pooler and in transactions of your own, calls"
        " that meet or take longer are Busy, and some values are refused. What only reads, or may"
        " read no views, cannot work",
        "give the role other settings: alter role … set …, or reset …",
    ),
    "maintenance": Words("old rows are removed"),
    "maintenance.fails": Words(
        bad="{queue:clean}: {error:clean}",
        todo="old rows stay, and receives get slower: fix what the database reports",
    ),
    "transactions": Words(
        "none has been open for long",
        "process {pid} ({user:clean}, {program:clean}, {state}) has had one open for"
        " {seconds:seconds}: dead rows cannot be vacuumed",
        "end it if it is forgotten: select pg_terminate_backend({pid})",
    ),
    "replication slots": Words(
        bad="{slot:clean} holds back {number:,} transactions",
        todo="start its reader again, or drop the slot: select pg_drop_replication_slot(…)",
    ),
    "prepared transactions": Words(
        bad="{transaction:clean} is {seconds:seconds} old",
        todo="commit prepared or rollback prepared it",
    ),
    "deadlocks": Words(
        "none was counted in this database (P13)",
        "PostgreSQL has broken {number:deadlock} in this database",
        "the server's log names the statements: Turnabout's verbs never deadlock with each other"
        " (P13). If only `turnabout.` functions stand there, please report it",
    ),
    "pooler": Words("none, or one that keeps sessions"),
    "pooler.transactions": Words(
        "a transaction pooler is in front of the server; prepared statements work through it"
    ),
    "pooler.forgets": Words(
        "a transaction pooler is in front of the server that forgets prepared statements; the URL"
        " has prepare=off, as it must",
        "a transaction pooler is in front of the server, and forgets prepared statements",
        "add prepare=off to the URL, or set the pooler's max_prepared_statements",
    ),
    "LISTEN": Words(
        "a notification arrives",
        "no notification arrives: probably a pooler is in between",
        "receivers poll instead, with more delay. For less, give receivers and workers a"
        " direct address",
    ),
    **{
        f"{name}.failed": Words(
            bad="the check itself failed: {error}", todo="fix this, then run doctor again"
        )
        for name in (
            "database",
            "server",
            "role settings",
            "transactions",
            "pooler",
            "LISTEN",
            "queues",
            "maintenance",
        )
    },
}

WORDS: Mapping[str, Words] = {**OF_QUEUES, **OF_PROMISES, **OF_SQLITE, **OF_POSTGRES}


def check_of(finding: Finding, words_of: Mapping[str, Words] = WORDS) -> Check:
    """A finding in words."""
    words = words_of[finding.what]
    if finding.level == "ok":
        return Check(finding.name, "ok", _said(words.good, finding.facts), "")
    text = _said(words.bad, finding.facts)
    if "number" in finding.facts and "{number" not in words.bad:
        text += f": {_show.count(finding.facts['number'])}"
    return Check(finding.name, finding.level, text, _said(words.todo, finding.facts))


def checks_of_slice(url: str, slice_: Slice, words: Mapping[str, Words]) -> Iterator[Check]:
    """The counts of a slice's own `doctor.sql`, in its words."""
    from turnabout._connect import counts_of

    for finding in counts_of(url, slice_):
        yield check_of(finding, {**WORDS, **words})


class _Facts(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec == "ms":
            return _show.milliseconds(value)
        if format_spec == "seconds":
            return _show.duration(value)
        if format_spec == "clean":
            return _show.clean(value) or "no name"
        if format_spec.isalpha():
            return _show.plural(value, format_spec)
        return super().format_field(value, format_spec)


def _said(text: str, facts: Mapping[str, Any]) -> str:
    return _Facts().vformat(text, (), facts)
