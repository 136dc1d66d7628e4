"""`monitoring`: the board for Grafana and the alert rules for Prometheus."""

from __future__ import annotations

from importlib.resources import files

import click

from turnabout.cli._app import App
from turnabout.cli._declare import command

FILES = {"grafana": "grafana.json", "alerts": "alerts.yaml"}


@command(
    "monitoring",
    "turnabout monitoring grafana > turnabout.json",
    "turnabout monitoring alerts > turnabout-alerts.yaml",
    json='{"file", "text"}',
)
@click.argument("what", type=click.Choice(list(FILES)))
def monitoring(app: App, what: str) -> None:
    """Print the Grafana board or the alert rules.

    The board is imported in Grafana; the rules are for rule_files of Prometheus. Both read the
    /metrics of `turnabout serve`.
    """
    file = FILES[what]
    text = files("turnabout.server").joinpath("monitoring", file).read_text(encoding="utf-8")
    app.say({"file": file, "text": text}, text.rstrip("\n"))
