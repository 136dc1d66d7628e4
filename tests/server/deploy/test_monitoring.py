"""The board and the alert rules ask for figures that `/metrics` has, with labels that they have."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from tests.server.sights import AWAY, Sight, looking
from tests.support.each import each
from turnabout.cli import main
from turnabout.words import verbs as v

FOLDER = files("turnabout").joinpath("server", "monitoring")
BOARD: dict[str, Any] = json.loads(FOLDER.joinpath("grafana.json").read_text("utf-8"))
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load(FOLDER.joinpath("alerts.yaml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
NAME = re.compile(r"\b(?:turnabout|process)_[a-z0-9_]+")
ADDED = {"instance", "job"}  # by Prometheus
POSTGRES_ONLY = {f"turnabout_store_connections_{what}" for what in ("open", "idle", "max")}


def expressions() -> list[str]:
    return [target["expr"] for panel in PANELS for target in panel["targets"]] + [
        rule["expr"] for rule in RULES
    ]


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What a real server shows after some traffic: each sample's name and its labels."""
    found: dict[str, set[str]] = {}

    async def test(sight: Sight) -> None:
        await sight.send("q", 2)
        await sight.finish("q", 1)
        sight.store.error = AWAY
        with pytest.raises(type(AWAY)):
            await sight.context.batched.run(v.QueueList())
        sight.store.error = None
        sight.context.counts.refused("max_headers")
        await sight.get("/livez")
        for family in text_string_to_metric_families((await sight.get("/metrics")).text):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)

    looking(url=f"sqlite:///{tmp_path_factory.mktemp('seen')}/app.db")(test)()
    return found


@each("expression", expressions())
def test_every_figure_is_there(expression: str, exposed: dict[str, set[str]]) -> None:
    names = set(NAME.findall(expression))
    assert names
    assert names - POSTGRES_ONLY <= set(exposed)
    for selector in re.findall(r"([a-z_]+)\{([^}]*)\}", expression):
        asked = set(re.findall(r"(\w+)\s*(?:=~|!=|=)", selector[1]))
        assert asked - ADDED <= exposed.get(selector[0], asked), selector
    known = set().union(*(exposed.get(name, set()) for name in names))
    for grouped in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", expression):
        assert set(re.findall(r"\w+", grouped)) - ADDED <= known


@pytest.mark.slow
def test_the_figures_of_postgresql_are_there() -> None:
    from turnabout.postgres._async.store import AsyncPostgresStore
    from turnabout.server.counts import NOW

    shown = AsyncPostgresStore("postgresql://nowhere/x").measures()
    assert {f"turnabout_store_{name}" for name in shown} >= POSTGRES_ONLY
    assert {f"store_{name}" for name in shown} <= set(NOW)


def test_figures_of_queues_are_not_added_up_over_replicas() -> None:
    for expression in expressions():
        for name in NAME.findall(expression):
            if re.search(
                r"_(unfinished|age_seconds|sent|done|dead|cancelled|expired)(_total)?$", name
            ):
                assert "max by (namespace, queue)" in expression


def test_the_board_is_one_that_grafana_takes() -> None:
    assert {"uid", "title", "schemaVersion", "panels", "templating"} <= set(BOARD)
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken
        taken |= cells
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"]
        assert panel["datasource"]["uid"] == "${datasource}"
        assert [target["refId"] for target in panel["targets"]] == sorted(
            {target["refId"] for target in panel["targets"]}
        )


def test_a_variable_that_is_used_is_there() -> None:
    names = {variable["name"] for variable in BOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)\}?", json.dumps(BOARD)))
    assert used == names | (used & {"__all", "__rate_interval"})


def test_no_rule_rings_for_what_waits_in_a_dead_letter_queue() -> None:
    """Nobody works there, so it would ring for ever."""
    aged = [rule["expr"] for rule in RULES if "oldest_message_age" in rule["expr"]]
    assert len(aged) == 2
    assert all('oldest_message_age_seconds{queue!~".+-dead"}' in each for each in aged)


def test_a_rule_says_what_is_wrong_and_what_to_do() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule["alert"].startswith("Turnabout")
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]
        assert rule["expr"].count("(") == rule["expr"].count(")")
        used = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        grouped = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", rule["expr"]))))
        assert used <= (grouped or ADDED)


@pytest.mark.parametrize(("what", "file"), [("grafana", "grafana.json"), ("alerts", "alerts.yaml")])
def test_the_command_line_prints_them(what: str, file: str, tmp_path: Path) -> None:
    text = FOLDER.joinpath(file).read_text("utf-8")
    assert CliRunner().invoke(main, ["monitoring", what]).stdout == text
    document = json.loads(CliRunner().invoke(main, ["monitoring", what, "--json"]).stdout)
    assert document == {"file": file, "text": text}
