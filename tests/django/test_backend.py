"""The backend in a Django project: on both stores, with both drivers of PostgreSQL.

Django's settings are made once in a process, so the scenarios run in one of their own for each
database, and each test here tells how one of them went.
"""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.nursery import ROOT
from tests.support.postgres import migrate, migrated

HERE = Path(__file__).parent
NAMES = [
    one.id
    for node in ast.parse((HERE / "scenarios.py").read_text()).body
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.List)
    for one in node.value.elts
    if isinstance(one, ast.Name)
]

SLOW = pytest.mark.slow
PLACES = [
    "sqlite",
    pytest.param("psycopg", marks=SLOW),
    pytest.param("psycopg2", marks=SLOW),
    pytest.param("migrated", marks=SLOW),
]


def environment(url: str, driver: str = "psycopg") -> dict[str, str]:
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.django.settings",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "TURNABOUT_TEST_DJANGO": url,
        "TURNABOUT_TEST_DRIVER": driver,
    }


def scenarios(url: str, driver: str) -> Mapping[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.django.scenarios"],
        check=False,
        capture_output=True,
        text=True,
        env=environment(url, driver),
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module", params=PLACES)
def told(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, str]]:
    if request.param == "sqlite":
        yield scenarios(f"sqlite:///{tmp_path_factory.mktemp('django')}/app.db", "")
        return
    fill = migrate if request.param == "migrated" else None  # `manage.py migrate` finds it, or not
    with migrated(fill=fill) as url:
        yield scenarios(url, "psycopg2" if request.param == "psycopg2" else "psycopg")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_scenario(told: Mapping[str, str], name: str) -> None:
    assert told[name] == ""
