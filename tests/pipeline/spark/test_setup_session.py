"""The session: what it is set to, where settings come from, and what it leaves alone."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import turnabout.pipeline
from turnabout.pipeline import beside, register, session
from turnabout.pipeline.spark import java, sessions
from turnabout.words.errors import UsageError


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow"])
def test_without_its_packages_it_names_the_extra(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=r"pip install '\.\[spark\]'") as caught:
        turnabout.pipeline.need_spark()
    assert caught.value.name == missing


def test_every_name_it_offers_is_there():
    assert sorted(turnabout.pipeline.__all__) == sorted(turnabout.pipeline._FROM)
    assert all(callable(getattr(turnabout.pipeline, name)) for name in turnabout.pipeline.__all__)
    with pytest.raises(AttributeError, match="no attribute 'sesion'"):
        turnabout.pipeline.sesion  # noqa: B018


def test_workers_are_given_the_source_folder_unless_it_is_installed(monkeypatch):
    root = str(Path(turnabout.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    sessions._share_source()
    sessions._share_source()
    assert os.environ["PYTHONPATH"].split(os.pathsep) == [root, "/elsewhere"]
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setattr(sysconfig, "get_path", lambda _name: root)
    sessions._share_source()
    assert os.environ["PYTHONPATH"] == "/elsewhere"


def test_the_machines_defaults_are_known(monkeypatch, tmp_path):
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert sessions._defaults_of_machine() == set()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert sessions._defaults_of_machine() == set()
    (tmp_path / "conf").mkdir()
    text = "# spark.ui.enabled true\n\nspark.master spark://host:7077\nspark.app.name=theirs\n"
    (tmp_path / "conf" / "spark-defaults.conf").write_text(text)
    assert sessions._defaults_of_machine() == {"spark.master", "spark.app.name"}


def test_a_small_machine_starts_quickly_and_a_big_one_runs_fast(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert "-XX:+UseSerialGC" in sessions.java_options()
    monkeypatch.setattr(os, "cpu_count", lambda: 32)
    assert sessions.java_options() == f"-Dlog4j2.configurationFile={sessions.LOG_SETTINGS.as_uri()}"
    assert sessions.LOG_SETTINGS.exists()


def test_one_that_is_there_is_used_and_only_told_what_it_may_be(spark):
    assert session("another name", conf={"spark.sql.shuffle.partitions": "2"}) is spark
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    theirs.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    sessions._set(theirs, sessions.RUNTIME)
    assert theirs.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    assert theirs.conf.get("spark.sql.parquet.outputTimestampType") == "INT96"
    in_java: Any = SparkSession._get_j_spark_session_class(spark._jvm)
    own = beside(theirs)
    active = in_java.getActiveSession().get()
    assert active.equals(spark._jsparkSession), "a job's own session is nobody else's"
    assert own.conf.get("spark.sql.session.timeZone") == "UTC"
    assert own.conf.get("spark.sql.parquet.outputTimestampType") == "TIMESTAMP_MICROS"
    assert theirs.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    with pytest.warns(UserWarning, match="driver.memory stays 1g: Spark is already running"):
        session(conf={"spark.driver.memory": "9g"})
    with pytest.warns(UserWarning, match="spark.master stays local"):
        session(master="spark://host:7077")


def test_spark_connect_is_for_the_format_alone(monkeypatch):
    monkeypatch.setattr(sessions, "is_remote", lambda: True)
    with pytest.raises(UsageError, match=r"session\(\) can't use Spark Connect: register\(spark\)"):
        session()
    with pytest.raises(UsageError, match="--engine local"):
        beside(SimpleNamespace())
    seen: list[type] = []
    register(SimpleNamespace(dataSource=SimpleNamespace(register=seen.append)))
    (source,) = seen
    assert source.parallelism == 2


class Built(Exception):
    """Instead of a session: what it would have been made of."""


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, str]]:
    """What a session would be made of, on a machine where there is none."""

    class Builder:
        def config(self, *, map: dict[str, str]) -> Builder:  # noqa: A002 as Spark calls it
            raise Built(map)

    there = java.Java(Path("/java"), "17", "PATH", lean=False)
    monkeypatch.setattr(java, "find", lambda: there)
    monkeypatch.setattr(SparkSession, "builder", Builder())
    for name in ("JAVA_HOME", "PYTHONPATH", "PYSPARK_PYTHON", "SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.setenv(name, "")

    def settings(master: str | None = None, **conf: str) -> dict[str, str]:
        with pytest.raises(Built) as caught:
            sessions._start("mine", master, {k.replace("_", "."): v for k, v in conf.items()})
        return caught.value.args[0]

    return settings


def test_on_one_machine_it_is_small_and_listens_to_nobody_else(built):
    made = built()
    assert made["spark.master"] == "local[*]"
    assert made["spark.app.name"] == "mine"
    assert made["spark.driver.bindAddress"] == "127.0.0.1"
    assert made["spark.sql.session.timeZone"] == "UTC"
    assert built(spark_master="local[3]")["spark.master"] == "local[3]"


def test_on_a_cluster_executors_must_reach_the_driver(built):
    made = built("spark://host:7077")
    assert made["spark.master"] == "spark://host:7077"
    assert not {"spark.driver.host", "spark.driver.bindAddress"} & set(made)
    assert os.environ["PYSPARK_PYTHON"] == ""


def test_what_is_given_wins_over_the_machine_and_that_over_us(built, monkeypatch, tmp_path):
    text = "spark.sql.session.timeZone Asia/Tokyo\nspark.master yarn\nspark.ui.enabled true\n"
    (tmp_path / "spark-defaults.conf").write_text(text)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    made = built(spark_ui_enabled="false", spark_driver_extraJavaOptions="-Da=b")
    assert "spark.master" not in made
    assert "spark.sql.session.timeZone" not in made
    assert made["spark.ui.enabled"] == "false"
    assert made[sessions.JAVA_OPTIONS] == f"{sessions.java_options()} -Da=b"
