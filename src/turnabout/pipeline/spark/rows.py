"""Rows in bulk, as Arrow, straight from the views: PostgreSQL by ADBC, SQLite by `sqlite3`.

The one place where SQL is made in Python: which columns and conditions a statement has is Spark's
choice at each read, and a file can't hold them all. It is put together from the names in `schema`
and from values that are bound (SQLite) or quoted (PostgreSQL, where COPY takes no parameters).
Nothing is written, and Spark is not imported.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from turnabout.pipeline.schema import DEAD, HEADERS, LEASE, LOG, TIMESTAMP, Column, arrow_schema
from turnabout.pipeline.spark import kept
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.spark.filters import Condition, Names
from turnabout.pipeline.verbs import START
from turnabout.words.errors import Disconnected, Forbidden, TurnaboutError, UsageError, WrongVersion
from turnabout.words.extras import install_hint
from turnabout.words.value import Value

_arrow: Any = pa
_compute: Any = pc

VIEWS: Final[Mapping[str, Mapping[str, Column]]] = {
    "log_rows": LOG,
    "epoch_rows": LEASE,
    "dead_rows": DEAD,
}
NAMED: Final = ("namespace", "queue")
"""Columns of PostgreSQL's log that are made here, of the queue's id: in SQL they would take a third
of all the time, for the same few names."""
BATCH_BYTES: Final = 2 * 1024 * 1024
"""About how large a batch is; one row is never cut."""
_ROWS_FIRST, _ROWS_MAX = 500, 20_000

_MILLISECONDS: Any = _arrow.timestamp("ms", tz="UTC")


class Span(Value):
    """Rows of the log after one position and up to another; None: whatever there is."""

    after: str
    until: str | None


class EpochPart(Value):
    """A part of a recorded epoch, in its order."""

    subscription: str
    epoch: int
    part: int


class Blocks(Value):
    """Rows of PostgreSQL's history, from one block of each file on and before another; None: up to
    the end. files: the number of each table's file when its blocks were counted.
    """

    since: int
    until: int | None
    files: Mapping[int, int]


def read(
    access: Access,
    view: str,
    columns: Sequence[str],
    where: Sequence[Condition] = (),
    *,
    of: Span | EpochPart | Blocks | None = None,
    names: Names | None = None,
    keep: bool = False,
) -> Iterator[Any]:
    """Batches (pyarrow.RecordBatch) of a view's rows, in exactly the types of `schema`.

    of     a range of the log, or blocks of the history, in no order that can be relied on; or a
           part of an epoch, in its own
    keep   PostgreSQL: leave the connection open for the next call in this process (see `kept`)
    Memory: a batch or two. The database is read while the caller takes them.
    Raises: UsageError, Forbidden, Disconnected, WrongVersion; no text shows the URL.
    """
    known = VIEWS[view]
    unknown = [name for name in columns if name not in known]
    if unknown or not columns:
        raise UsageError(f"{view} has the columns {', '.join(known)}, not {unknown or 'none'}")
    wanted = Names() if names is None else names
    # A pattern is matched here, as no database has Python's regular expressions.
    extra = (
        [] if wanted.pattern is None else [n for n in ("namespace", "queue") if n not in columns]
    )
    query = _Query(view, (*columns, *extra), tuple(where), wanted, of)
    kind, place = access.place()
    if kind == "sqlite":
        batches = _sqlite(access, query, place)
    else:
        batches = _postgres(access, query, place, keep=keep)
    return batches if wanted.pattern is None else _matched(batches, wanted, list(columns))


class _Query(Value):
    view: str
    columns: tuple[str, ...]
    where: tuple[Condition, ...]
    names: Names
    of: Span | EpochPart | Blocks | None

    @property
    def schema(self) -> Any:
        return arrow_schema(self.columns, VIEWS[self.view])


# --- statements -----------------------------------------------------------------------------------

Put = Callable[[Any], str]
"""A value as text of the statement: a quoted literal, or a mark for one that is bound."""


def statements(query: _Query, put: Put, *, is_postgres: bool) -> Iterator[str]:
    """The SQL of a query: one statement, or on SQLite one for each queue of a range."""
    table = f"turnabout{'.' if is_postgres else '_'}{query.view}"
    common = [_condition(one, put, is_postgres=is_postgres) for one in query.where]
    names = _named(query.names, query.view, put, is_postgres=is_postgres)
    columns = query.columns
    if is_postgres and query.view == "log_rows":
        common = [
            _of_queue(text) if one.column in NAMED else text
            for one, text in zip(query.where, common, strict=True)
        ]
        names = [_of_queue(" and ".join(names))] if names else []
        columns = by_id(columns)
    for place, order in _places(query.of, put, is_postgres=is_postgres):
        conditions = [*place, *common, *names]
        text = f"select {', '.join(columns)} from {table}"  # noqa: S608 - names of ours
        if conditions:
            text += f" where {' and '.join(conditions)}"
        yield text + order


def by_id(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns with the queue's id for its names, at the end."""
    others = tuple(name for name in columns if name not in NAMED)
    return others if len(others) == len(columns) else (*others, "queue_id")


def _of_queue(condition: str) -> str:
    """A condition on names as one on the queue's id. A queue that was deleted has no names."""
    ids = "select queue_id from turnabout.queue_names"
    if condition.endswith(" is null"):
        return f"queue_id not in ({ids})"
    return f"queue_id in ({ids} where {condition})"


def _places(
    of: Span | EpochPart | Blocks | None, put: Put, *, is_postgres: bool
) -> Iterator[tuple[list[str], str]]:
    """Conditions for the place of rows, and the order."""
    match of:
        case None:
            yield [], ""
        case EpochPart():
            # The view has that order, and would sort payloads if it was asked for it.
            whose = f"subscription = {put(of.subscription)}"
            yield [whose, f"epoch = {put(of.epoch)}", f"part = {put(of.part)}"], ""
        case Blocks():
            bounds = [(">=", of.since or None), ("<", of.until)]
            yield [f"tid {op} {put(f'({nr},0)')}::tid" for op, nr in bounds if nr is not None], ""
        case Span() if of.until == START:
            return
        case Span() if is_postgres:
            bounds = [(">", of.after), ("<=", of.until)]
            yield [_beside(op, position, put) for op, position in bounds if position], ""
        case Span():
            yield from _by_queue(of, put)


def _beside(op: str, position: str, put: Put) -> str:
    # What stands behind `<` says what is missing before it, which doesn't concern rows.
    xid, _, message_id = position.partition("<")[0].partition(".")
    # As text: a number is not an xid8.
    return f"(xid, message_id) {op} ({put(str(int(xid)))}::xid8, {put(int(message_id))})"


def _by_queue(of: Span, put: Put) -> Iterator[tuple[list[str], str]]:
    after = _seqs(of.after)
    if of.until is None:
        if after:
            raise UsageError("on SQLite a range with a beginning needs an end, too")
        yield [], ""
        return
    for queue, until in _seqs(of.until).items():
        since = after.get(queue, 0)
        if since < until:
            yield (
                [f"queue_id = {put(queue)}", f"seq > {put(since)}", f"seq <= {put(until)}"],
                " order by seq",
            )


def _seqs(position: str) -> dict[int, int]:
    pairs = (pair.partition("=") for pair in position.split(",") if pair)
    return {int(queue): int(seq) for queue, _, seq in pairs}


def _condition(one: Condition, put: Put, *, is_postgres: bool) -> str:
    match one.op:
        case "is null" | "is not null":
            return f"{one.column} {one.op}"
        case "in" | "not in":
            return f"{one.column} {one.op} ({', '.join(put(v) for v in one.operand)})"
        case "mod":
            divisor, remainder = map(put, one.operand)
            return f"{one.column} % {divisor} = {remainder}"
        case "starts":
            return f"substr({one.column}, 1, {len(one.operand)}) = {put(one.operand)}"
        case _:
            # Spark compares strings by their bytes, and a locale would not.
            is_text = is_postgres and isinstance(one.operand, str) and one.op not in ("=", "<>")
            column = f'{one.column} collate "C"' if is_text else one.column
            return f"{column} {one.op} {put(one.operand)}"


def _named(names: Names, view: str, put: Put, *, is_postgres: bool) -> list[str]:
    conditions: list[str] = []
    if names.namespace is not None:
        conditions.append(f"namespace = {put(names.namespace)}")
    if names.queues is not None:
        each = [
            f"(namespace = {put(namespace)} and queue in ({', '.join(put(q) for q in queues)}))"
            for namespace, queues in names.by_namespace().items()
        ]
        if view == "dead_rows":  # the dead of a queue are those that came from it, too
            each.append(f"source_queue in ({', '.join(put(name) for name in names.queues)})")
        conditions.append(f"({' or '.join(each)})" if each else "1 = 0")
    if names.globs is not None:
        each = [_glob(one, put, is_postgres=is_postgres) for one in names.globs]
        conditions.append(f"({' or '.join(each)})" if each else "1 = 0")
    return conditions


def _glob(pattern: str, put: Put, *, is_postgres: bool) -> str:
    """A token's pattern: letters, digits, `_`, `.`, `-`, and `*` for any characters."""
    if not is_postgres:
        return f"queue glob {put(pattern)}"
    like = pattern.replace("_", r"\_").replace("*", "%")
    return f"queue like {put(like)}"


# --- PostgreSQL -----------------------------------------------------------------------------------


def _postgres(access: Access, query: _Query, conninfo: str, *, keep: bool) -> Iterator[Any]:
    if find_spec("adbc_driver_postgresql") is None:
        raise UsageError(
            f"reading from PostgreSQL needs adbc-driver-postgresql: {install_hint('spark')}"
        )
    from adbc_driver_postgresql import dbapi
    from psycopg.conninfo import make_conninfo

    driver: Any = dbapi
    address = make_conninfo(conninfo, client_encoding="utf8", application_name="turnabout spark")
    key = ("postgresql", address)

    def connect() -> Any:
        return driver.connect(address, autocommit=True)

    with _our_errors(access):
        while True:
            was_kept = keep and kept.has(key)
            is_begun = False
            try:
                with kept.using(key, connect) if keep else closing(connect()) as connection:
                    for batch in _copied(connection, query):
                        is_begun = True
                        yield batch
            except driver.Error:
                if is_begun or not was_kept:
                    raise
                kept.drop(key)  # the server has closed it since
            else:
                return


def _copied(connection: Any, query: _Query) -> Iterator[Any]:
    from psycopg.sql import Literal

    def put(value: Any) -> str:
        return Literal(value).as_string()

    schema = query.schema
    with closing(connection.cursor()) as cursor:
        size = {"adbc.postgresql.batch_size_hint_bytes": str(BATCH_BYTES)}
        cursor.adbc_statement.set_options(**size)
        # One snapshot: each id has its name, and files stay as long as their rows are read.
        cursor.execute("begin isolation level repeatable read, read only")
        cursor.execute(_settings(query.of))
        names = None
        if query.view == "log_rows" and by_id(query.columns) != query.columns:
            cursor.execute("select queue_id, namespace, queue from turnabout.queue_names")
            names = cursor.fetch_arrow_table().combine_chunks()
        for text in statements(query, put, is_postgres=True):
            cursor.execute(text)
            with cursor.fetch_record_batch() as reader:
                for batch in reader:
                    if batch.num_rows:
                        yield _cast(batch, schema, names)
        if isinstance(query.of, Blocks):
            cursor.execute("select table_id, number from turnabout.log_files")
            if any(query.of.files.get(table, nr) != nr for table, nr in cursor.fetchall()):
                raise UsageError(
                    "the history was moved (VACUUM FULL, CLUSTER) while it was read: read it again"
                )
        cursor.execute("commit")


def _settings(of: Span | EpochPart | Blocks | None) -> str:
    """A statement that makes settings for the transaction: a pooler may lend the session on."""
    # As many tasks read at once as there is room for: helpers would be in their way.
    off = {"max_parallel_workers_per_gather": "0"}
    if isinstance(of, Span) and (of.until or of.after):
        # A range of the log goes by its index: a new day's rows have no statistics yet.
        off |= {"enable_seqscan": "off", "enable_bitmapscan": "off"}
    return "select " + ", ".join(f"set_config('{name}', '{to}', true)" for name, to in off.items())


def _cast(batch: Any, schema: Any, names: Any | None) -> Any:
    """The batch in the types of the schema; headers are JSON, instants milliseconds.

    names: those of queues, by the id that the batch has for them.
    """
    found = {name: batch.column(name) for name in batch.schema.names}
    if names is not None:
        places = _compute.index_in(found["queue_id"], value_set=names["queue_id"])
        found |= {name: names[name].take(places).combine_chunks() for name in NAMED}
    columns = [_cast_column(found[field.name], field.type) for field in schema]
    return _arrow.RecordBatch.from_arrays(columns, schema=schema)


def _cast_column(column: Any, kind: Any) -> Any:
    if kind == TIMESTAMP[0]:
        return column.cast(_arrow.int64()).cast(_MILLISECONDS).cast(kind)
    if kind == HEADERS[0]:
        return _headers(column)
    return column if column.type == kind else column.cast(kind)


# --- SQLite ---------------------------------------------------------------------------------------


def _sqlite(access: Access, query: _Query, path: str) -> Iterator[Any]:
    schema = query.schema
    bound: list[str] = []

    def put(value: Any) -> str:
        if isinstance(value, int):
            return str(int(value))
        bound.append(value)
        return f"?{len(bound)}"

    # Opened to be read only: no connection of a pipeline's ever writes, or clears up the log.
    with (
        _our_errors(access),
        closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as connection,
    ):
        connection.execute("pragma busy_timeout = 30000")
        connection.execute("pragma cache_size = -16000")
        for text in statements(query, put, is_postgres=False):
            # Only values for the whole query are bound, those of one range are numbers.
            with closing(connection.execute(text, bound)) as cursor:
                yield from _fetched(cursor, schema)


def _fetched(cursor: sqlite3.Cursor, schema: Any) -> Iterator[Any]:
    size = _ROWS_FIRST
    while rows := cursor.fetchmany(size):
        turned = zip(*rows, strict=True)
        columns = [_column(cells, field.type) for cells, field in zip(turned, schema, strict=True)]
        batch = _arrow.RecordBatch.from_arrays(columns, schema=schema)
        size = max(1, min(_ROWS_MAX, BATCH_BYTES * len(rows) // (batch.nbytes + 1)))
        yield batch


def _column(cells: Sequence[Any], kind: Any) -> Any:
    if kind == TIMESTAMP[0]:
        return _arrow.array(cells, _MILLISECONDS).cast(kind)
    if kind == HEADERS[0]:
        return _headers(_arrow.array(cells, _arrow.string()))
    return _arrow.array(cells, kind)


# --- both -----------------------------------------------------------------------------------------


def _headers(texts: Any) -> Any:
    """Maps of JSON texts, each different one parsed once."""
    found = texts.dictionary_encode()
    pairs = [list(json.loads(text).items()) for text in found.dictionary.to_pylist()]
    return _arrow.array(pairs, HEADERS[0]).take(found.indices)


def _matched(batches: Iterator[Any], names: Names, columns: list[str]) -> Iterator[Any]:
    """Filter batches by the pattern, and drop columns that only the pattern needed."""

    @cache
    def wanted(namespace: str | None, queue: str | None) -> bool:
        # None: its queue was deleted
        return namespace is not None and queue is not None and names.matches(namespace, queue)

    for batch in batches:
        pairs = zip(
            batch.column("namespace").to_pylist(), batch.column("queue").to_pylist(), strict=True
        )
        mask = _arrow.array([wanted(namespace, queue) for namespace, queue in pairs])
        kept = batch.filter(mask).select(columns)
        if kept.num_rows:
            yield kept


@contextmanager
def _our_errors(access: Access) -> Generator[None]:
    """Errors of both libraries in our words; secrets cut out, as a driver may quote the URL."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translated(str(error), "no such table" in str(error), denied=False) from None
    except Exception as error:
        state = getattr(error, "sqlstate", None)
        if not type(error).__module__.startswith("adbc"):
            raise
        text = access.hidden(str(error))
        raise _translated(
            text, state in ("42P01", "42703", "3F000"), denied=state == "42501"
        ) from None


def _translated(text: str, is_missing: bool, *, denied: bool) -> TurnaboutError:  # noqa: FBT001
    if is_missing:
        return WrongVersion(
            f"the database has no views for pipelines yet: run `turnabout migrate up` ({text})"
        )
    if denied:
        return Forbidden(
            f"this role may not read in bulk ({text}): connect as one that may operate"
        )
    return Disconnected(f"the database could not be read: {text}")
