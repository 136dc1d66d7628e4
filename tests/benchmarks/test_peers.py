"""Us beside the peers: verdicts, pictures, the page, who is left out and why; and one tiny run."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks.crew import Crew
from benchmarks.on_postgres import PostgresPlace
from benchmarks.on_sqlite import SqlitePlace
from benchmarks.peers import __main__ as command
from benchmarks.peers import cells, known, on_node, page
from benchmarks.peers.goals import GOALS, Goal
from benchmarks.peers.lonnymq import LonnyMq
from benchmarks.peers.peer import LeftOut
from benchmarks.peers.pgmq import Pgmq
from benchmarks.peers.pictures import picture
from benchmarks.peers.results import (
    TOO_FEW,
    Case,
    CellResult,
    Results,
    Setting,
    judge,
    percentile,
    read,
)
from benchmarks.peers.run import Run, Sizes
from benchmarks.peers.tables import goals, tables, text
from benchmarks.records import NOISY, Spread, Target

TINY = Sizes(
    rounds=1,
    seconds=0.05,
    batches=(10,),
    clients=(1,),
    small=200,
    large=400,
    leased=100,
    counted=300,
    snapshot_seconds=0.4,
    rates=(100,),
    latency_seconds=1.0,
)
SETTING = Setting("PostgreSQL", batch=1, clients=4)


def case(ours: list[dict[str, float]], raw: list[dict[str, float]]) -> Case:
    return Case(SETTING, {"turnabout": ours, "raw": raw})


def rates(*values: float, cost: float = 100.0) -> list[dict[str, float]]:
    return [{"rate": value, "client_us": cost, "server_us": 0.0} for value in values]


def results() -> Results:
    sqlite = Case(
        Setting("SQLite", 1, 1),
        {"turnabout-sqlite": rates(5, 5, 5), "huey": rates(9, 8, 7)},
        {"litequeue": "it fell over"},
    )
    cells = [
        CellResult(name, "Received", [one], "2026-01-02", 3, 0.4, 0.5)
        for name, one in (
            ("receive", case(rates(60, 65, 55), rates(100, 100, 100))),
            ("sqlite-receive", sqlite),
        )
    ]
    versions = {"turnabout": "1", "raw": "2", "huey": "3"}
    return Results("a machine, load 9", ["a store"], versions, {"pgmq": "no file"}, cells)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(1.0, 1.4, "reached"), (0.99, 1.4, NOISY), (0.7, 1.0, NOISY), (0.7, 0.99, "missed")],
)
def test_a_verdict_needs_all_rounds_on_one_side(low: float, high: float, verdict: str) -> None:
    assert Target(1.0).verdict(Spread((low + high) / 2, low, high)) == verdict
    turned = Spread((low + high) / 2, 2 - high, 2 - low)
    assert Target(1.0, at_least=False).verdict(turned) == verdict


def judged(ours: list[dict[str, float]], raw: list[dict[str, float]]) -> tuple[str, bool]:
    found = judge(case(ours, raw), Target(1.0), ours="turnabout", other="raw", measure="rate")
    assert found is not None
    return found.verdict, found.decided_by_cpu


def test_ratios_are_of_one_round_and_processor_time_decides_what_the_clock_cannot() -> None:
    base = rates(100, 1000, 10)
    assert judged(rates(110, 1100, 11), base) == ("reached", False)
    assert judged(rates(90, 900, 9), base) == ("missed", False)
    assert judged(rates(110, 900, 11, cost=50), base) == ("reached", True)
    assert judged(rates(110, 900, 11, cost=200), base) == ("missed", True)
    torn = [*rates(110, cost=50), *rates(900, 11, cost=200)]
    assert judged(torn, base) == (NOISY, False)


def test_two_rounds_are_too_few_unless_nothing_is_timed() -> None:
    assert judged(rates(200, 200), rates(100, 100)) == (TOO_FEW, False)
    bytes_left = case([{"left_bytes": 70.0}], [])
    one = Goal("bytes", 80, measure="left_bytes", at_least=False).judge(bytes_left)
    assert one is not None
    assert one.verdict == "reached"


def test_what_was_not_measured_is_not_judged() -> None:
    only_ours = case(rates(1, 2, 3), [])
    assert judge(only_ours, Target(1.0), ours="turnabout", other="raw", measure="rate") is None
    assert len(goals(CellResult("receive", "", [only_ours], "", 3, 0.1, 0.0))) == 1


def test_goals_and_cells_are_of_what_there_is() -> None:
    assert {goal.cell for goal in GOALS} <= set(cells.BY_NAME)
    assert {goal.other for goal in GOALS} - {None} <= set(known.BY_NAME)
    assert len(known.BY_NAME) == len(known.PEERS)
    assert {peer.store for peer in known.PEERS} == set(known.OURS)


def test_percentiles() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert [percentile(values, share) for share in (0.5, 0.99, 1.0)] == [51.0, 100.0, 100.0]


def test_figures_are_kept_and_a_cell_that_is_measured_again_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    kept = results()
    file.write_text(kept.as_json(), encoding="utf-8")
    assert read(file) == kept
    assert read(tmp_path / "none.json") == Results()
    again = results()
    again.cells = [replace(again.cells[0], measured="later"), replace(again.cells[0], name="send")]
    again.stores = ["SQLite 4", "PostgreSQL 19"]
    kept.stores = ["PostgreSQL 18", "another"]
    kept.add(again)
    assert kept.stores == ["another", "SQLite 4", "PostgreSQL 19"]
    assert [(cell.name, cell.measured) for cell in kept.cells] == [
        ("sqlite-receive", "2026-01-02"),
        ("receive", "later"),
        ("send", "2026-01-02"),
    ]


def test_a_picture_has_a_panel_for_each_case_and_a_bar_for_each_peer() -> None:
    cases = [case(rates(50, 100, 200), rates(100, 400, 100)) for _ in range(4)]
    svg = picture("a < b", cases, ["turnabout", "raw", "nobody"], "rate")
    root = ET.fromstring(svg)
    space = {"s": "http://www.w3.org/2000/svg"}
    bars = root.findall(".//s:rect", space)
    assert root.findtext("s:title", namespaces=space) == "a < b"
    assert len(root.findall("s:g", space)) == 4
    assert [bar.attrib["class"] for bar in bars[:2]] == ["ours", "raw"]
    assert [bar.attrib["width"] for bar in bars[:2]] == [bars[0].attrib["width"]] * 2
    height = float(root.attrib["height"])
    assert all(float(bar.attrib["y"]) < height for bar in bars)
    ranges = root.findall(".//s:line", space)
    assert float(ranges[0].attrib["x2"]) < float(ranges[1].attrib["x2"])


def test_tables_say_what_failed_and_what_is_not_there() -> None:
    cell, on_sqlite = results().cells
    receive, judged_goals = tables(cell)
    assert receive[0] == ["", "turnabout", "raw"]
    assert receive[1] == ["batch 1, 4 processes", "60 (100 µs)", "100 (100 µs)"]
    assert [row[-1] for row in judged_goals[1:]] == ["**missed**"]
    assert tables(on_sqlite)[0][0] == ["", "turnabout-sqlite", "huey", "litequeue"]
    assert tables(on_sqlite)[0][1][-1] == "failed"
    assert "missed" in text(cell)
    assert "**" not in text(cell)


def test_the_page_tells_where_a_peer_is_better_who_is_left_out_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "PAGE", tmp_path / "performance.md")
    monkeypatch.setattr(page, "FOLDER", tmp_path / "performance")
    page.write(results())
    made = (tmp_path / "performance.md").read_text()
    assert "- sqlite-receive, **huey**: batch 1, 1 process 0.62 [0.56–0.71]" in made
    assert "0 of 1 reached, 1 missed, 0 too noisy to tell" in made
    assert "Left out: pgmq: no file." in made
    for name in ("receive.svg", "sqlite-receive.svg"):
        assert f"(performance/{name})" in made
        assert (tmp_path / "performance" / name).read_text().startswith("<svg")


def test_the_page_is_made_of_the_figures_beside_it() -> None:
    kept = read(page.RESULTS)
    assert page.PAGE.read_text(encoding="utf-8") == page.page(kept), "run: bench --peers --page"
    made = page.pictures(kept)
    assert {file.name for file in page.FOLDER.glob("*.svg")} == set(made)
    for name, svg in made.items():
        assert (page.FOLDER / name).read_text(encoding="utf-8") == svg, name


def test_a_peer_that_is_missing_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reason(check: Callable[[], Any]) -> str:
        with pytest.raises(LeftOut) as caught:
            check()
        return str(caught.value)

    assert "--pgmq FILE" in reason(Pgmq(tmp_path / "nowhere.sql").check)
    assert reason(LonnyMq().sql).startswith("no file was named; name the file of its SQL functions")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    told = reason(known.BY_NAME["procrastinate"].check)
    assert told == (
        "the package procrastinate is not installed: `python3 dev.py bench --peers` does that"
    )
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert reason(on_node.install_packages).startswith("there is no Node here")
    ready, left_out = command._ready([known.BY_NAME["raw"], known.BY_NAME["pg-boss"]])
    assert [peer.name for peer in ready] == ["raw"]
    assert left_out == {"pg-boss": on_node.NO_NODE}


def test_a_file_of_functions_has_the_version_of_its_extension(tmp_path: Path) -> None:
    (tmp_path / "sql").mkdir()
    file = tmp_path / "sql" / "pgmq.sql"
    file.write_text("create function …")
    assert Pgmq(file).version().startswith("a file of SHA-256 ")
    (tmp_path / "pgmq.control").write_text("comment = 'x'\ndefault_version = '1.2.3'\n")
    assert Pgmq(file).version() == "1.2.3"


def test_cells_and_peers_are_chosen_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--cell", "recieve"])
    assert "there is no recieve; known: send, receive" in capsys.readouterr().err
    assert command.main(["--cell", "none"]) == 0


class Broken(type(known.BY_NAME["raw"])):  # type: ignore[misc]
    """A peer whose client does not open."""

    name = "broken"


@pytest.mark.long
@pytest.mark.timeout(240)
def test_every_cell_gives_figures_and_who_breaks_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = ("turnabout", "turnabout-no-history", "turnabout-two-calls")
    names = (*ours, "raw", "raw-combined", "raw-generic", "raw-one-step", "pgmq", "pgmq-archive")
    sqlite = ("turnabout-sqlite", "turnabout-sqlite-no-history", "raw-sqlite")
    names, sqlite = (*names, "turnabout-tasks"), (*sqlite, "turnabout-sqlite-tasks")
    peers = [Broken(), *(known.BY_NAME[name] for name in (*names, *sqlite))]
    places = [PostgresPlace(url=None, version=18, durable=False), SqlitePlace(durable=False)]
    try:
        with Crew() as crew:
            run = Run(TINY, places, crew, peers)
            found = {cell.name: run.measure(_small(cell)) for cell in cells.CELLS}
    finally:
        for place in places:
            place.close()
    assert "this server has no extension pgmq; name the file" in run.left_out["pgmq"]
    for name, result in found.items():
        assert result.cases, name
        for one in result.cases:
            first = cells.BY_NAME[name].measures[0]
            assert first in one.rounds[known.ours(name, one.setting.store)][0], (name, one)
            assert "broken" not in one.rounds
        assert text(result)
    broken = {name for name, result in found.items() for one in result.cases if one.failed}
    assert {"mixed", "wal"} <= broken
    assert set(run.versions) >= {*names, *sqlite} - {"pgmq", "pgmq-archive"}
    assert "broken failed in" in capsys.readouterr().err


def _small(cell: cells.Cell) -> cells.Cell:
    """One case of each store, with two clients of each kind at most."""

    def settings(run: Run) -> list[Setting]:
        every = cell.settings(run)
        firsts = {setting.store: setting for setting in reversed(every)}
        return [replace(one, clients=min(one.clients, 2)) for one in firsts.values()]

    return replace(cell, settings=settings)
