"""The benchmark runs: a tiny cell of each section gives records that can be printed and kept."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from benchmarks import report, sections
from benchmarks.crew import Crew
from benchmarks.on_postgres import PostgresPlace
from benchmarks.on_sqlite import SqlitePlace
from benchmarks.plan import TINY, Bench, Section

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.mark.long
def test_every_section_gives_records() -> None:
    places = [PostgresPlace(url=None, version=18, durable=False), SqlitePlace(durable=False)]
    try:
        with Crew() as crew:
            bench = Bench(TINY, places, crew)
            for section in sections.BY_NAME.values():
                if section.name != "pipeline":
                    gives_records(bench, section)
    finally:
        for place in places:
            place.close()


@pytest.mark.long
def test_the_pipeline_gives_records(spark: SparkSession) -> None:
    place = PostgresPlace(url=None, version=18, durable=False)
    with closing(place), Crew() as crew:
        gives_records(Bench(TINY, [place], crew), sections.BY_NAME["pipeline"])


def gives_records(bench: Bench, section: Section) -> None:
    cells = section.cells(bench)
    # The first is PostgreSQL's, the last one SQLite's.
    few = cells if len(cells) < 2 else (cells[0], cells[-1])
    records = [record for cell in few for record in cell.run()]
    bench.forget_bases()
    assert records, section.name
    assert all(record.section == section.name for record in records)
    assert json.dumps([record.as_json() for record in records])
    assert section.title in report.table(section, records)
