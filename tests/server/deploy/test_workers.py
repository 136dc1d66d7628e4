"""Workers in containers, the job that migrates, and what scales them: they fit what is there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
from inspect import signature
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.server.sights import Sight, looking
from tests.support.each import each
from turnabout import connect
from turnabout.cli import main
from turnabout.worker import Worker

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
GRACE_SECONDS: float = signature(Worker).parameters["grace_seconds"].default
DOCKERFILE = (DEPLOY / "workers" / "Dockerfile").read_text()


def objects(*names: str) -> list[dict[str, Any]]:
    return [each for name in names for each in yaml.safe_load_all((DEPLOY / name).read_text())]


(WORKERS,) = objects("workers/deployment.yaml")
(MIGRATE,) = objects("migrate.yaml")
(SERVERS,) = objects("kubernetes/deployment.yaml")
(SCALED,) = objects("autoscaling/keda.yaml")
AUTOSCALERS = objects("autoscaling/hpa.yaml")
((RULE,),) = [each["rules"]["external"] for each in objects("autoscaling/prometheus-adapter.yaml")]


def pod(owner: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = owner["spec"]["template"]["spec"]
    return found


def container(owner: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = pod(owner)["containers"]
    return found


def accepted(words: list[str]) -> None:
    """The command line takes these words; nothing is run."""
    command: click.Command = main
    while isinstance(command, click.Group):
        command = command.commands[words[0]]
        words = words[1:]
    command.make_context("turnabout", words).close()


# --- the image -----------------------------------------------------------------------------------


def lines(word: str) -> list[str]:
    return re.findall(rf"^{word} (.+)$", DOCKERFILE, re.MULTILINE)


def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sysconfig.get_path("scripts")) / "hadolint"
    command = [hadolint, "--no-color", DEPLOY / "workers" / "Dockerfile"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_is_that_of_the_server_with_a_module() -> None:
    assert lines("FROM") == ["${BASE}"]
    assert lines("ARG") == [f"BASE={container(SERVERS)['image']}:latest"]
    (copied,) = lines("COPY")
    assert all((DEPLOY / "workers" / name).is_file() for name in copied.split()[:-1])
    assert lines("HEALTHCHECK") == ["NONE"]
    (command,) = lines("CMD")
    accepted(json.loads(command))
    assert json.loads(command) == container(WORKERS)["args"]


def test_the_module_works(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    with connect(url) as mq:
        mq.queue("emails").send({"to": "ada@example.org"})
    done = subprocess.run(
        [sys.executable, "-m", "turnabout", *container(WORKERS)["args"], "--until-empty"],
        cwd=DEPLOY / "workers",
        env={"TURNABOUT_URL": url, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "email to ada@example.org" in done.stdout


@pytest.mark.long
def test_the_images_are_built_and_start(tmp_path: Path) -> None:
    builder = next((found for name in ("docker", "podman") if (found := shutil.which(name))), None)
    if builder is None:
        pytest.skip("neither docker nor podman is on this machine")

    def run(*words: str, ok: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [builder, *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0 or not ok, done.stderr
        return done

    if run("info", ok=False).returncode != 0:
        pytest.skip(f"{builder} has no engine that runs")
    server, worker = "turnabout-test", "turnabout-worker-test"
    run("build", "-t", server, ".")
    run("build", "-t", worker, "--build-arg", f"BASE={server}", "deploy/workers")
    assert "Usage: turnabout" in run("run", "--rm", server, "--help").stdout
    # In memory, so there is nothing to do; the module has to be found.
    done = run("run", "--rm", "-e", "TURNABOUT_URL=sqlite://", worker, "worker", "app:worker",
               "--until-empty")  # fmt: skip
    assert "Done: 0 handled" in done.stdout
    name = "turnabout-test-server"
    run("rm", "-f", name, ok=False)
    try:
        run("run", "-d", "--name", name, server)
        ready = "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/readyz', timeout=9)"
        wait = f"import time; time.sleep(3); {ready}"
        run("exec", name, "python", "-c", wait)
        assert run("exec", name, "id", "-u").stdout.strip() == "10001"
    finally:
        run("rm", "-f", name, ok=False)


# --- the manifests -------------------------------------------------------------------------------


@each("owner", [WORKERS, MIGRATE])
def test_it_starts_a_command_of_ours_and_may_do_little(owner: dict[str, Any]) -> None:
    one, own = container(owner), container(owner)["securityContext"]
    accepted(one["args"])
    assert pod(owner)["securityContext"] == pod(SERVERS)["securityContext"]
    assert own == container(SERVERS)["securityContext"]
    assert pod(owner)["automountServiceAccountToken"] is pod(owner)["enableServiceLinks"] is False
    (url,) = one["env"]
    assert url["name"] == "TURNABOUT_URL"
    assert set(url["valueFrom"]) == {"secretKeyRef"}


def test_names_fit() -> None:
    labels = WORKERS["spec"]["template"]["metadata"]["labels"]
    assert labels == WORKERS["spec"]["selector"]["matchLabels"]
    (kustomization,) = objects("workers/kustomization.yaml")
    assert kustomization["resources"] == ["deployment.yaml"]
    assert [image["name"] for image in kustomization["images"]] == [container(WORKERS)["image"]]
    assert container(MIGRATE)["image"] == container(SERVERS)["image"]
    secrets = [container(each)["env"][0]["valueFrom"] for each in (WORKERS, SERVERS)]
    assert secrets[0] == secrets[1]
    assert container(MIGRATE)["env"][0]["valueFrom"] != secrets[0]
    assert {mount["name"] for mount in container(WORKERS)["volumeMounts"]} == {
        volume["name"] for volume in pod(WORKERS)["volumes"]
    }


def test_workers_have_time_to_end_their_handlers() -> None:
    assert pod(WORKERS)["terminationGracePeriodSeconds"] > GRACE_SECONDS


def test_a_job_ends() -> None:
    assert pod(MIGRATE)["restartPolicy"] == "Never"
    assert {"backoffLimit", "activeDeadlineSeconds"} <= set(MIGRATE["spec"])


@each("folder", ["workers", "kubernetes"])
def test_kustomize_takes_it(folder: str) -> None:
    if (kubectl := shutil.which("kubectl")) is None:
        pytest.skip("kubectl is not on this machine")
    command = [kubectl, "kustomize", str(DEPLOY / folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    made = {each["kind"]: each for each in yaml.safe_load_all(done.stdout)}
    assert container(made["Deployment"])["image"].endswith(":latest")


# --- what scales them ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exposed() -> dict[str, set[str]]:
    """What a server with a queue shows: each sample's name and its labels."""
    found: dict[str, set[str]] = {}

    async def test(sight: Sight) -> None:
        await sight.send("emails", 2)
        for family in text_string_to_metric_families((await sight.get("/metrics")).text):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)

    looking()(test)()
    return found


def test_each_scaler_has_a_target() -> None:
    targets = {each["metadata"]["name"]: each for each in (SERVERS, WORKERS)}
    for scaler in (SCALED, *AUTOSCALERS):
        target = scaler["spec"]["scaleTargetRef"]
        assert target["name"] in targets
        assert target.get("kind", "Deployment") == "Deployment"
    # Two of them would undo what the other does.
    assert len({each["spec"]["scaleTargetRef"]["name"] for each in AUTOSCALERS}) == len(AUTOSCALERS)
    assert "replicas" not in WORKERS["spec"]
    assert SCALED["spec"]["maxReplicaCount"] > SCALED["spec"]["minReplicaCount"] == 0


def test_keda_asks_for_figures_that_are_there(exposed: dict[str, set[str]]) -> None:
    for trigger in SCALED["spec"]["triggers"]:
        assert trigger["type"] == "prometheus"
        asked = re.fullmatch(r'max\((\w+)\{(\w+)="emails"\}\)', trigger["metadata"]["query"])
        assert asked is not None
        assert asked[2] in exposed[asked[1]]
        assert float(trigger["metadata"]["threshold"]) > 0


def test_the_autoscaler_asks_for_figures_that_are_there(exposed: dict[str, set[str]]) -> None:
    servers, workers = AUTOSCALERS
    (cpu,) = servers["spec"]["metrics"]
    assert cpu["resource"]["name"] == "cpu"
    assert "cpu" in container(SERVERS)["resources"]["requests"]
    series = re.search(r'=~"([^"]+)"', RULE["seriesQuery"])
    assert series is not None
    for metric in workers["spec"]["metrics"]:
        asked = metric["external"]["metric"]
        assert re.fullmatch(series[1], asked["name"])
        assert set(asked["selector"]["matchLabels"]) <= exposed[asked["name"]]
    assert RULE["metricsQuery"].startswith("max(")


def test_both_ways_scale_alike() -> None:
    metrics = [each["external"] for each in AUTOSCALERS[1]["spec"]["metrics"]]
    triggers = [each["metadata"] for each in SCALED["spec"]["triggers"]]
    assert [(each["metric"]["name"], *threshold(each["target"])) for each in metrics] == [
        (*re.findall(r"turnabout_\w+", each["query"]), each["threshold"]) for each in triggers
    ]


def threshold(target: dict[str, str]) -> list[str]:
    return [text for name, text in target.items() if name != "type"]
