"""The Dockerfile and the compose file: linted, complete, without a secret."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
import subprocess
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import click
import yaml

from turnabout.cli import main

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", DOCKERFILE, flags=re.MULTILINE))
    return [
        (word, rest.strip())
        for line in text.splitlines()
        if line.strip()
        for word, _, rest in [line.strip().partition(" ")]
    ]


def last(word: str) -> str:
    return [rest for name, rest in instructions() if name == word][-1]


def accepted(words: list[str]) -> None:
    """The command line takes these words; nothing is run."""
    command = main.commands[words[0]]
    assert isinstance(command, click.Command)
    command.make_context("turnabout", words[1:], resilient_parsing=False).close()


def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sysconfig.get_path("scripts")) / "hadolint"
    done = subprocess.run(
        [hadolint, "--format", "json", "--no-color", ROOT / "Dockerfile"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert json.loads(done.stdout) == []


def test_hadolint_finds_something(tmp_path: Path) -> None:
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM python\nRUN cd / && sudo ls\n")
    hadolint = Path(sysconfig.get_path("scripts")) / "hadolint"
    assert subprocess.run([hadolint, bad], capture_output=True, check=False).returncode == 1


def test_it_runs_the_server_as_nobody_special() -> None:
    assert last("USER").isdigit()
    assert int(last("USER")) > 0
    assert json.loads(last("ENTRYPOINT")) == ["turnabout"]
    words = json.loads(last("CMD"))
    assert words[0] == "serve"
    accepted(words)
    assert "8080" in last("EXPOSE")
    assert "/readyz" in last("HEALTHCHECK")


def test_bases_have_a_version_that_is_tested() -> None:
    bases = [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    assert len(set(bases)) == 1
    version = re.fullmatch(r"python:(3\.\d+)-slim-[a-z]+", bases[0])
    assert version is not None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"Programming Language :: Python :: {version[1]}" in project["classifiers"]


def test_extras_that_are_installed_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r"'\.\[([a-z,]+)\]'", DOCKERFILE)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    assert "server" in extras


def test_what_is_copied_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in ignored if line and line[0] != "#"]
    copied = [
        source
        for word, rest in instructions()
        if word == "COPY" and "--from" not in rest
        for source in rest.split()[:-1]
    ]
    assert "src" in copied
    for source in copied:
        assert (ROOT / source).exists()
        kept = True
        for rule in rules:
            if fnmatch.fnmatch(source, rule.removeprefix("!")):
                kept = rule.startswith("!")
        assert kept, source


def test_the_constraints_are_the_lock_without_its_hashes() -> None:
    (program,) = re.findall(r"sed -E '([^']+)'", DOCKERFILE)
    lock = ROOT / "requirements-dev.lock"
    done = subprocess.run(
        ["sed", "-E", program, lock], capture_output=True, text=True, check=True
    ).stdout
    lines = [line for line in done.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[\w.]+( ; .*[^\\])?", line) for line in lines)
    assert any(line.startswith("starlette==") for line in lines)


# --- compose -------------------------------------------------------------------------------------


def test_compose_has_a_server_and_its_database() -> None:
    assert {"server", "database", "prometheus", "grafana"} == set(SERVICES)
    server = SERVICES["server"]
    assert server["depends_on"]["database"]["condition"] == "service_healthy"
    assert "healthcheck" in SERVICES["database"]
    accepted(server["command"])
    assert server["environment"]["TURNABOUT_URL"].startswith("postgresql://")
    assert all(SERVICES[name]["profiles"] == ["monitoring"] for name in ("prometheus", "grafana"))


def test_ports_are_for_this_machine_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert "ports" not in SERVICES["database"]


def test_the_server_has_time_to_drain() -> None:
    from turnabout.server import ServerOptions

    seconds = int(SERVICES["server"]["stop_grace_period"].removesuffix("s"))
    assert seconds > ServerOptions().lame_duck_seconds + ServerOptions().drain_seconds


def test_images_have_a_version() -> None:
    for name, service in SERVICES.items():
        if "build" not in service:
            tag = service["image"].rpartition(":")[2]
            assert re.match(r"v?\d", tag), name


def test_no_secret_is_written_down() -> None:
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if "PASSWORD" in name or "TOKEN" in name:
                assert re.fullmatch(r"\$\{[A-Z_]+:\?[^}]+\}", value), name
            assert not re.search(r"://[^/@\s]+:[^/@\s]+@", str(value)), name


def test_what_is_mounted_is_there() -> None:
    for service in SERVICES.values():
        for mount in service.get("volumes", ()):
            source = mount.split(":")[0]
            assert source in COMPOSE["volumes"] or (ROOT / source).is_file(), mount


def test_prometheus_scrapes_the_server_by_a_name_that_it_answers_to() -> None:
    scraped = yaml.safe_load((ROOT / "deploy/prometheus.yaml").read_text())
    (job,) = scraped["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["server:8080"]}]
    assert "--allow-host=server" in SERVICES["server"]["command"]
    assert scraped["rule_files"] == ["turnabout-alerts.yaml"]
    assert shlex.join(SERVICES["prometheus"]["volumes"]).count("turnabout-alerts.yaml") == 1
