"""Archives as tables, for readers and for upkeep: in a folder, and on an S3 that loses answers."""

import json
import random
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.pipeline.lake.lakes import OPTIONS, ids_of, run, s3
from tests.pipeline.spark.places import finish
from tests.support.each import each
from turnabout.pipeline.jobs.compact import compact
from turnabout.pipeline.jobs.purge import purge
from turnabout.pipeline.lake import Lake, LakeDamaged, Storage, _files
from turnabout.pipeline.reports import report
from turnabout.words.errors import Forbidden, StorageFull, Unavailable, UsageError


def test_whatever_reads_delta_reads_an_archive(access, lake, mq):
    ids = finish(mq, 5)
    run(access, lake)
    uri = lake.uri()
    assert pl.scan_delta(uri).select("message_id").collect().to_series().sort().to_list() == ids
    dataset = DeltaTable(uri).to_pyarrow_dataset()
    found = duckdb.sql("select count(distinct message_id), any_value(queue) from dataset")
    assert found.fetchall() == [(5, "emails")]
    assert pd.read_parquet(lake.paths())["message_id"].sort_values().to_list() == ids
    assert dataset.to_table(filter=pc.field("channel") == "nobody").num_rows == 0


def test_statistics_leave_files_out(access, lake, mq):
    finish(mq, 2, channel="b")
    run(access, lake)
    finish(mq, 2, channel="d")
    run(access, lake)
    table = lake.table()
    assert len(table.file_uris(file_pruning_predicate="channel = 'c'")) <= 1
    assert len(table.file_uris(file_pruning_predicate="channel = 'z'")) == 0
    first, second = lake.files()
    assert first.rows == second.rows == 2
    assert first.first <= first.last
    assert lake.paths(until=min(first.first, second.first)) == []
    assert len(lake.paths(since=0)) == 2


def test_readers_take_one_archive(access, lake, mq):
    with pytest.raises(UsageError, match="there is no archive in"):
        lake.paths()
    finish(mq, 1)
    run(access, lake, "a")
    assert lake.uri().endswith("/a")
    run(access, lake, "b")
    assert lake.archives() == ("a", "b")
    with pytest.raises(UsageError, match="archives a, b, which may have the same rows: name one"):
        lake.paths()
    with pytest.raises(UsageError, match="has no c: it has a, b"):
        lake.table("c")
    with pytest.raises(UsageError, match="no a at version 9"):
        lake.table("a", version=9)


def test_compaction_keeps_rows_versions_and_the_position(access, lake, mq, place):
    ids: list[int] = []
    for _ in range(4):
        ids += finish(mq, 3)
        run(access, lake)
    version = lake.table().version()
    done = compact(str(lake), now=4e9)
    assert (done.before, done.after, done.removed) == (4, 1, 0)
    assert ids_of(lake) == ids == ids_of(lake, version=version)
    assert len(lake.files()) == 1
    ids += finish(mq, 1)
    assert run(access, lake).total == 13
    assert ids_of(lake) == ids
    assert purge(place, str(lake), keep_seconds=0, now=4e9).rows == 13
    with pytest.raises(UsageError, match="an hour at least"):
        compact(str(lake), keep_hours=0.5)


def test_a_report_of_an_archive_is_that_of_its_database(access, lake, mq, place, tmp_path):
    finish(mq, 4, "acme/mail")
    finish(mq, 3)
    run(access, lake)
    for more in ({}, {"queues": ["acme/mail"]}, {"namespace": "acme"}):
        of_lake = report(lake=str(lake), out=tmp_path / "a", **more)
        of_database = report(place, out=tmp_path / "b", **more)
        assert of_lake.queues == of_database.queues
        assert of_lake.messages == (4 if more else 7)


def test_a_broken_file_is_not_merged(access, lake, mq, tmp_path):
    for _ in range(2):
        finish(mq, 40)
        run(access, lake)
    path = tmp_path / "lake/archive" / lake.files()[0].path
    whole = path.read_bytes()
    path.write_bytes(whole[:60] + bytes([whole[60] ^ 4]) + whole[61:])
    with pytest.raises(LakeDamaged, match="has changed"):
        compact(str(lake), now=4e9)


def test_many_rows_are_sorted_by_runs_and_days(tmp_path):
    ids = random.sample(range(1_000), 1_000)
    queues = [f"q{n % 3}" if n % 10 else None for n in ids]  # None: it was deleted
    ends = [n * 200_000_000 for n in ids]
    cells = [queues, queues, [f"c{n % 600}" for n in ids], ids, ends, [b"%d" % n for n in ids]]
    given = pa.table(cells, [*_files.ORDER, "finished_at", "value"])
    values = []
    for file in _files.write(given.to_batches(90), Storage.of(tmp_path), "p", run_bytes=20_000):
        table = pq.read_table(tmp_path / file.path, partitioning=None)
        assert {f"{at:%F}" for at in table["finished_at"].to_pylist()} == {file.day}
        assert table.equals(table.sort_by([(name, "ascending") for name in _files.ORDER]))
        assert json.loads(file.stats)["numRecords"] == file.rows == len(table.cast(_files.ROWS))
        values += table["value"].to_pylist()
    assert sorted(values, key=int) == [b"%d" % n for n in range(1_000)]


@each(
    ("error", "kind"),
    [
        (OSError(28, "No space left on device"), StorageFull),
        (OSError(13, "Permission denied"), Forbidden),
        (OSError(5, "Input/output error"), Unavailable),
    ],
)
def test_what_a_disk_refuses_is_told(error: OSError, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="lake /lake"), Storage("/lake").disk_errors():
        raise error


def test_a_table_that_cannot_be_read(access, lake, mq, tmp_path):
    finish(mq, 1)
    run(access, lake)
    for path in (tmp_path / "lake/archive/_delta_log").glob("*.json"):
        path.write_text("{")
    with pytest.raises(LakeDamaged, match="restore it from a copy"):
        lake.files("archive")


def test_places() -> None:
    assert Storage.of("file:///a%20b/c").uri == "/a b/c"
    assert Storage.of("s3://bucket/lake/").uri == "s3://bucket/lake"
    assert "secret" not in repr(Storage.of("s3://b", {"AWS_SECRET_ACCESS_KEY": "secret"}))
    with pytest.raises(UsageError, match="name one"):
        Storage.of("")


# --- an object store -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with s3() as url:
        yield url


@pytest.mark.slow
def test_an_archive_in_an_object_store(access, mq, bucket, place):
    options = {**OPTIONS, "AWS_ENDPOINT_URL": bucket}
    lake = Lake("s3://lake/one", storage_options=options)
    ids = finish(mq, 5)
    assert lake.archives() == ()
    run(access, lake, max_rows=2)
    ids += finish(mq, 2)
    assert run(access, lake).total == 7
    assert ids_of(lake) == ids
    assert lake.check(deep=True)[0] == 4
    assert compact("s3://lake/one", storage_options=options, now=4e9).after == 1
    assert ids_of(lake) == ids
    found = pl.scan_delta(lake.uri(), storage_options=options).select("message_id").collect()
    assert found.to_series().sort().to_list() == ids
    assert purge(place, "s3://lake/one", keep_seconds=0, now=4e9, storage_options=options).rows == 7
    with pytest.raises(UsageError, match="there is no archive"):
        Lake("s3://lake/two", storage_options=options).paths()


@pytest.fixture(scope="module")
def losing(bucket: str) -> Iterator[str]:
    program = [sys.executable, "-m", "tests.pipeline.lake.losing", bucket]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as proxy:
        try:
            assert proxy.stdout is not None
            yield f"http://127.0.0.1:{int(proxy.stdout.readline())}"
        finally:
            proxy.kill()


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["1/0", "3/0", "0/1", "0/3"])  # answers; commits
def test_an_object_store_loses(access, mq, bucket, losing, lost):
    ids = finish(mq, 3)
    options = {**OPTIONS, "AWS_ENDPOINT_URL": losing}
    lake = Lake(f"s3://lake/lost-{lost}", storage_options=options)
    run(access, lake)
    ids += finish(mq, 2)
    told = urllib.request.Request(f"{losing}/_lose/{lost}", method="PUT")
    urllib.request.urlopen(told, timeout=30).close()
    done = run(access, lake)
    assert (done.rows, done.total) == (2, 5)
    assert run(access, lake).rows == 0
    straight = Lake(str(lake), storage_options={**OPTIONS, "AWS_ENDPOINT_URL": bucket})
    assert ids_of(straight) == ids


@pytest.mark.slow
def test_a_store_that_lets_nobody_in(bucket):
    nowhere = Lake("s3://nowhere/lake", storage_options={**OPTIONS, "AWS_ENDPOINT_URL": bucket})
    with pytest.raises((UsageError, Unavailable)):
        nowhere.paths()
