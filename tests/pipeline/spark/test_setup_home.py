"""The home of links that Spark is started from, and when it is left alone. Without a JVM."""

from __future__ import annotations

import os
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from turnabout.pipeline.spark import home


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No home is named; PySpark is a package of ours, and so is the cache."""
    package = tmp_path / "site-packages" / "pyspark"
    for folder in ("bin", "jars", "python/lib", "__pycache__"):
        (package / folder).mkdir(parents=True)
    (package / "worker.py").touch()
    (package / home.ZIP).touch()
    monkeypatch.setattr(home, "PACKAGE", package)
    monkeypatch.setattr(sysconfig, "get_path", lambda _name: str(package.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("SPARK_HOME", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    return package


def test_it_is_the_package_less_its_zip_and_named_while_java_starts(bare: Path) -> None:
    with home.in_use():
        made = Path(os.environ["SPARK_HOME"])
        assert {part.name: part.resolve() for part in made.iterdir()} == {
            name: bare / name for name in ("bin", "jars", "worker.py")
        }
    assert "SPARK_HOME" not in os.environ
    assert home.find() == made


def test_many_at_once_make_one() -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: home.find(), range(8)))
    (made,) = found
    assert made is not None
    assert list(made.parent.iterdir()) == [made]


def test_it_is_left_alone_where_it_could_be_wrong(
    bare: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("SPARK_HOME", "/theirs")
        with home.in_use():
            assert os.environ["SPARK_HOME"] == "/theirs"
    with monkeypatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", "/another/python")
        assert home.find() is None
    with monkeypatch.context() as patch:
        patch.setattr(sysconfig, "get_path", lambda _name: str(tmp_path))
        assert home.find() is None
    (bare / home.ZIP).unlink()
    assert home.find() is None


def test_without_a_place_for_it_spark_starts_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    with home.in_use():
        assert "SPARK_HOME" not in os.environ
