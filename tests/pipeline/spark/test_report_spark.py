"""Spark counts what DuckDB counts: the same SQL, the same tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.test_report_tables import LogRow, log_row, reported, some_rows, tables_in
from turnabout.pipeline.reports import report
from turnabout.pipeline.reports.engines import COLUMNS
from turnabout.pipeline.schema import ddl
from turnabout.pipeline.spark import lakes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMES = ("hour", "first_at", "last_at", "begun")


def test_both_engines_make_the_same_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[LogRow] = [*some_rows()]
    rows += [log_row(2000 + n, "big", 0, wait=100 * n) for n in range(600)]
    rows += [log_row(3000 + n, "wee", 0, wait=100 * n + 50) for n in range(300)]
    rows += [log_row(4000, "hex", 1, error="at 0x7f3a, deadbeef01\n", outcome="dead")]
    local, expected = reported(rows, tmp_path, monkeypatch, weights={"wee": 0.5})
    schema, place = ddl(COLUMNS), str(tmp_path / "rows")
    spark.createDataFrame(rows, schema).write.parquet(place)
    monkeypatch.setattr(
        lakes, "read_lake", lambda s, *_, **__: s.read.schema(schema).parquet(place)
    )
    out = tmp_path / "spark"
    done = report(lake=tmp_path, spark=spark, out=out, weights={"wee": 0.5})
    assert done.engine.startswith("Apache Spark")
    assert spark.getActiveSession() is spark
    assert done.sentences == local.sentences
    found = tables_in(out)
    for name, table in expected.items():
        assert [plain(row) for row in found[name]] == [plain(row) for row in table], name


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Fractions rounded, instants as seconds."""
    kept = {key: round(v, 6) if isinstance(v, float) else v for key, v in row.items()}
    return {key: v.timestamp() if key in TIMES else v for key, v in kept.items()}
