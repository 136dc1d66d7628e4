"""Parquet files of an archive: written in one go by whoever read the rows, then measured.

A file has a name that nobody else has, with its digest, and counts once a commit names it.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from turnabout.pipeline.gathered import gathered
from turnabout.pipeline.lake._storage import Storage
from turnabout.pipeline.schema import LOG, arrow_schema
from turnabout.words.errors import TurnaboutError
from turnabout.words.value import Value

_arrow: Any = pa
_compute: Any = pc
_parquet: Any = pq

ORDER: Final = ("namespace", "queue", "channel", "message_id")
"""Order of rows in a file: a reader of one queue, or one channel, skips most of it."""
MEASURED: Final = (*ORDER, "outcome", "finished_at", "sent_at")
"""Columns with statistics: readers skip files by them."""
ROWS: Final = arrow_schema(tuple(LOG))
TABLE: Final = ROWS.append(_arrow.field("day", _arrow.date32()))
RUN_BYTES: Final = 16 * 1024 * 1024
"""Rows that are sorted at once, in memory; more of them go into another file."""
GROUP_ROWS: Final = 100_000
_REPEATED: Final = (*ORDER[:3], "outcome", "result_type", "content_type")
"""Columns with few values: they are sorted, moved and written as numbers of a dictionary."""
_NUMBERS: Final = [n for n, (_, kind) in LOG.items() if kind in ("bigint", "int", "timestamp")]
_WRITTEN: Final[Mapping[str, Any]] = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": [*_REPEATED, "error", "headers.key_value.key"],
    "column_encoding": dict.fromkeys(_NUMBERS, "DELTA_BINARY_PACKED"),
    "store_schema": False,  # else pyarrow would read dictionaries
}
_DIGITS: Final = 32
_NAMED: Final = re.compile(rf"-([0-9a-f]{{{_DIGITS}}})\.parquet$")


class LakeDamaged(TurnaboutError):
    """A file that the lake names is gone, cut off or changed, or a commit cannot be read."""

    code = "lake_damaged"


class WrittenFile(Value):
    """A Parquet file without a commit. path: from the table's folder; stats: Delta's, as JSON."""

    path: str
    rows: int
    bytes: int
    day: str
    stats: str


def write(
    batches: Iterable[Any], table: Storage, prefix: str, *, run_bytes: int = RUN_BYTES
) -> list[WrittenFile]:
    """Write rows of the log below `day=…/`, sorted, in files of about `run_bytes` in memory.

    Memory: twice `run_bytes`, and a batch. Raises: Forbidden, StorageFull, Unavailable, and
    what reading raises; files without a commit are removed by `vacuum`.
    """
    written: list[WrittenFile] = []
    for some in gathered(map(_encoded, batches), run_bytes, lambda batch: batch.nbytes):
        for day, rows in _by_day(_sorted(some)):
            with table.disk_errors():
                written.append(write_table(rows, table, f"day={day}/{prefix}", day=day))
    return written


def _encoded(batch: Any) -> Any:
    """The batch with its day, dictionaries for what repeats itself, and nulls for what it lacks."""
    cells: dict[str, Any] = {}
    for field in ROWS:
        lacks = field.name not in batch.schema.names
        cell = _arrow.nulls(len(batch), field.type) if lacks else batch[field.name].cast(field.type)
        cells[field.name] = cell.dictionary_encode() if field.name in _REPEATED else cell
    cells["day"] = cells["finished_at"].cast(_arrow.date32())
    return _arrow.RecordBatch.from_pydict(cells)


def _sorted(batches: list[Any]) -> Any:
    """Rows of encoded batches by day, and then in `ORDER`. Empties the list, for their memory."""
    run = _arrow.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    batches.clear()
    keys = {name: _sortable(run[name].combine_chunks()) for name in ("day", *ORDER)}
    order = [(name, "ascending") for name in keys]
    return run.take(_compute.sort_indices(_arrow.table(keys), sort_keys=order))


def _sortable(cells: Any) -> Any:
    """Numbers that sort as the cells do: ranks for a dictionary's texts, slow to compare."""
    is_text = _arrow.types.is_dictionary(cells.type)
    return _compute.rank(cells.dictionary).take(cells.indices) if is_text else cells


def _by_day(run: Any) -> Iterator[tuple[str, Any]]:
    """Sorted rows, cut where a day ends."""
    days = _compute.run_end_encode(run["day"].combine_chunks())
    begin = 0
    for day, end in zip(days.values.to_pylist(), days.run_ends.to_pylist(), strict=True):
        if day is None:
            raise LakeDamaged("a row has no finished_at, so it has no day: it was not archived")
        yield f"{day:%Y-%m-%d}", run.slice(begin, end - begin).drop_columns("day")
        begin = end


def write_table(rows: Any, table: Storage, name: str, *, day: str = "") -> WrittenFile:
    """Write rows as one file, under a name that begins so and ends with the digest of its bytes."""
    sink = _arrow.BufferOutputStream()
    with _parquet.ParquetWriter(sink, rows.schema, **_WRITTEN) as writer:
        writer.write_table(rows, row_group_size=GROUP_ROWS)
    whole = sink.getvalue()
    path = f"{name}-{_digest(whole)}.parquet"
    if table.is_local:
        Path(table.uri, path).parent.mkdir(parents=True, exist_ok=True)
    with table.files().open_output_stream(path, buffer_size=1 << 20) as file:
        file.write(whole)
    table.sync(path)
    footer = _parquet.read_metadata(_arrow.BufferReader(whole))
    return WrittenFile(path, footer.num_rows, whole.size, day, _stats(footer))


def _digest(whole: Any) -> str:
    return hashlib.sha256(memoryview(whole)).hexdigest()[:_DIGITS]


def in_files(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """Tables of exactly that many rows, but for the last one."""
    held: Any = None
    for batch in batches:
        more = _arrow.Table.from_batches([batch])
        held = more if held is None else _arrow.concat_tables([held, more])
        while held.num_rows >= rows:
            yield held.slice(0, rows)
            held = held.slice(rows)
    if held is not None and held.num_rows:
        yield held


def _stats(footer: Any) -> str:
    """Delta's statistics of a file, from its footer."""
    columns = {footer.schema.column(i).path: i for i in range(footer.num_columns)}
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in MEASURED:
        groups = range(footer.num_row_groups)
        found = [footer.row_group(group).column(columns[name]).statistics for group in groups]
        if all(one is not None and one.has_min_max for one in found):
            least[name] = _plain(min(one.min for one in found))
            most[name] = _plain(max(one.max for one in found), up=True)
        if all(one is not None and one.has_null_count for one in found):
            nulls[name] = sum(one.null_count for one in found)
    return json.dumps(
        {"numRecords": footer.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}
    )


def _plain(value: Any, *, up: bool = False) -> Any:
    """A statistic as Delta's protocol has it: instants in whole milliseconds, outwards."""
    if not isinstance(value, dt.datetime):
        return value
    rest = value.microsecond % 1000
    value += dt.timedelta(microseconds=(1000 - rest if up and rest else -rest))
    return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z"


def check(table: Storage, files: Mapping[str, tuple[int, int]], *, deep: bool) -> None:
    """Check that files are there with their sizes; with `deep`, read them whole and compare their
    digests, or of files that compaction has written their rows.

    files  by path, from the table's folder: size and rows
    Raises: LakeDamaged, naming files.
    """
    fs: Any = table.files()
    bad: list[str] = []
    paths = list(files)
    with table.disk_errors():
        infos: Any = fs.get_file_info(paths) if paths else ()
        for path, info in zip(paths, infos, strict=True):
            size, rows = files[path]
            if not info.is_file:
                bad.append(f"{path} is gone")
            elif info.size != size:
                bad.append(f"{path} has {info.size:,} bytes, not {size:,}")
            elif deep and not _is_whole(fs, path, rows):
                bad.append(f"{path} has changed")
    if bad:
        more = f", and {len(bad) - 5:,} more" if len(bad) > 5 else ""
        raise LakeDamaged(
            f"the lake {table.uri} is damaged: {'; '.join(bad[:5])}{more}. Restore what is "
            "missing from a copy; nothing is purged until then"
        )


def _is_whole(fs: Any, path: str, rows: int) -> bool:
    """Whether a file is as it was written: its digest is the one in its name; of a file that
    compaction has written, that all of it can be read, and has its rows.
    """
    try:
        with fs.open_input_file(path) as file:
            whole = file.read_buffer()
        named = _NAMED.search(path)
        if named is not None:
            return named[1] == _digest(whole)
        batches = _parquet.ParquetFile(_arrow.BufferReader(whole)).iter_batches()
        return sum(batch.num_rows for batch in batches) == rows
    except (_arrow.ArrowInvalid, _arrow.ArrowException, OSError):
        return False


def read(table: Storage, paths: Sequence[str], columns: Sequence[str]) -> Iterator[Any]:
    """Batches (pyarrow.RecordBatch) of files, in exactly the types of `schema`."""
    fs: Any = table.files()
    wanted = arrow_schema(columns)
    for path in paths:
        with fs.open_input_file(path) as file:
            for batch in _parquet.ParquetFile(file).iter_batches(columns=list(columns)):
                cells = [batch.column(field.name).cast(field.type) for field in wanted]
                yield _arrow.RecordBatch.from_arrays(cells, schema=wanted)
