"""The page on many databases shows what was measured, and what its simulation prints."""

from __future__ import annotations

import json
import re

import pytest

from benchmarks import one_database, scale
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/scale.md").read_text()
MEASURED = ROOT / "docs/performance/one-database.json"


@pytest.mark.parametrize("databases", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_the_simulation_prints_the_tables_of_the_page(databases: int) -> None:
    assert scale.table(databases) in PAGE


def test_the_page_names_what_a_database_carries() -> None:
    assert f"A database carries {scale.capacity():,.0f} messages a second" in PAGE


def test_the_tables_of_one_database_are_as_measured() -> None:
    for about, table in one_database.tables(json.loads(MEASURED.read_text())).items():
        assert table in PAGE, about


def test_figures_from_the_benchmark_are_its_own() -> None:
    parts = {
        re.sub(r"[^\w -]", "", part.partition("\n")[0].lower()).replace(" ", "-"): part
        for part in (ROOT / "docs/performance.md").read_text().split("\n## ")
    }
    links = re.findall(r"\[([\d.,]+) [^]]*\]\(performance\.md#([\w-]+)\)", PAGE)
    assert len(links) == 12
    for figure, heading in links:
        assert re.search(rf"\| {re.escape(figure)}( \(|\b)", parts[heading]), figure


def test_a_tenant_larger_than_a_database_helps_no_rule() -> None:
    for rule in scale.RULES:
        assert scale.outcome(rule, [1.2, 0.1, 0.1], 3, seed=0).moves is None


def test_the_fewest_moves_are_counted() -> None:
    assert scale.moves([[0.5, 0.4, 0.1], []], [1.0, 0.0]) == 1
    assert scale.moves([[0.3], [0.3]], [0.3, 0.3]) == 0
