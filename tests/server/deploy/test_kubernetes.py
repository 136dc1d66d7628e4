"""The manifests for Kubernetes: their parts fit together, and with the options of the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from starlette.routing import Route

from tests.server.running import running
from turnabout.cli import main
from turnabout.server import ServerOptions

FOLDER = Path(__file__).parents[3] / "deploy" / "kubernetes"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
OBJECTS: dict[str, dict[str, Any]] = {
    found["kind"]: found
    for name in KUSTOMIZATION["resources"]
    for found in yaml.safe_load_all((FOLDER / name).read_text())
}
POD: dict[str, Any] = OBJECTS["Deployment"]["spec"]["template"]["spec"]
(SERVER,) = POD["containers"]
(OPTIONS,) = KUSTOMIZATION["configMapGenerator"]
VARIABLES = dict(literal.split("=", 1) for literal in OPTIONS["literals"])


def options(monkeypatch: pytest.MonkeyPatch) -> ServerOptions:
    """What the command makes of the variables; a name that is not an option is refused."""
    for name, text in VARIABLES.items():
        monkeypatch.setenv(name, text)
    word, *words = SERVER["args"]
    command = main.commands[word]
    assert isinstance(command, click.Command)
    with command.make_context("turnabout", words) as context:
        assert context.params["migrate"] is True
        names = ServerOptions.__dataclass_fields__
        return ServerOptions(**{k: v for k, v in context.params.items() if k in names})


def test_all_files_are_used() -> None:
    files = {file.name for file in FOLDER.iterdir()} - {"kustomization.yaml"}
    assert files == set(KUSTOMIZATION["resources"])
    assert set(OBJECTS) == {"Deployment", "Service", "PodDisruptionBudget"}
    assert {found["metadata"]["name"] for found in OBJECTS.values()} == {"turnabout"}


def test_names_fit() -> None:
    deployment = OBJECTS["Deployment"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert labels == deployment["selector"]["matchLabels"]
    assert labels == OBJECTS["Service"]["spec"]["selector"]
    assert labels == OBJECTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]
    assert [image["name"] for image in KUSTOMIZATION["images"]] == [SERVER["image"]]
    assert SERVER["envFrom"] == [{"configMapRef": {"name": OPTIONS["name"]}}]
    (port,) = SERVER["ports"]
    (public,) = OBJECTS["Service"]["spec"]["ports"]
    assert public["targetPort"] == port["name"]
    assert {mount["name"] for mount in SERVER["volumeMounts"]} == {
        volume["name"] for volume in POD["volumes"]
    }


def test_the_server_takes_its_options_and_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    made = options(monkeypatch)
    assert (made.host, made.port) == ("0.0.0.0", SERVER["ports"][0]["containerPort"])
    assert OBJECTS["Service"]["metadata"]["name"] in made.allowed_hosts


def test_probes_are_routes_of_the_server() -> None:
    with running() as server:
        paths = {route.path for route in server.routes() if isinstance(route, Route)}
    for kind in ("startup", "liveness", "readiness"):
        probe = SERVER[f"{kind}Probe"]["httpGet"]
        assert probe["path"] in paths
        assert probe["port"] == SERVER["ports"][0]["name"]


def test_a_pod_that_ends_is_left_before_it_drains(monkeypatch: pytest.MonkeyPatch) -> None:
    made, probe = options(monkeypatch), SERVER["readinessProbe"]
    seen_after = probe["periodSeconds"] * probe["failureThreshold"] + probe["timeoutSeconds"]
    assert seen_after < made.lame_duck_seconds
    grace = POD["terminationGracePeriodSeconds"]
    assert grace > made.lame_duck_seconds + made.drain_seconds
    assert OBJECTS["Deployment"]["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_it_may_do_little_and_knows_no_secret() -> None:
    own = SERVER["securityContext"]
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"]) == (False, True)
    assert own["capabilities"] == {"drop": ["ALL"]}
    (url,) = SERVER["env"]
    assert set(url["valueFrom"]) == {"secretKeyRef"}
    assert not any("URL" in name or "TOKEN" in name for name in VARIABLES)
    assert POD["automountServiceAccountToken"] is POD["enableServiceLinks"] is False
