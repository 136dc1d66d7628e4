"""The benchmark runs: a tiny cell of each section gives records that can be printed and kept."""

import json

import pytest

from benchmarks import report, sections
from benchmarks.crew import Crew
from benchmarks.on_postgres import PostgresPlace
from benchmarks.on_sqlite import SqlitePlace
from benchmarks.plan import TINY, Bench

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def test_every_section_gives_records() -> None:
    places = [PostgresPlace(url=None, version=18, durable=False), SqlitePlace(durable=False)]
    try:
        with Crew() as crew:
            bench = Bench(TINY, places, crew)
            for section in sections.BY_NAME.values():
                cells = section.cells(bench)
                # The first is PostgreSQL's, the last one SQLite's.
                few = cells if len(cells) < 2 else (cells[0], cells[-1])
                records = [record for cell in few for record in cell.run()]
                bench.forget_bases()
                assert records, section.name
                assert all(record.section == section.name for record in records)
                assert json.dumps([record.as_json() for record in records])
                assert section.title in report.table(section, records)
    finally:
        for place in places:
            place.close()
