"""Spark for the tests: one session, and so one Java, for each test process that asks for it.

It is never stopped in between, as the start of Java is what costs. A test that asks for `spark`
is marked `spark` and `slow` by that; it may take longer than others, as the first one waits for
the start.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = Path(__file__).parents[2] / "src"
SECONDS_MAX = 480
SETTINGS = {
    "spark.driver.memory": "1g",
    # No session lives long enough to win back what the best code costs to make.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # To compile a plan takes longer than to walk it over a hundred rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, None, None]:
    """Mark them before `-m` chooses. They come first: of several processes one gets them all, so
    there is one Java, and none is left over for the end. Of them those that start Javas of their
    own come first, as they take longest.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("spark") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SECONDS_MAX))
    yield
    items.sort(
        key=lambda item: (
            item.get_closest_marker("spark") is None,
            "spark" in getattr(item, "fixturenames", ()),
        )
    )


def work_in(spark: SparkSession, folder: Path) -> None:
    """Have Spark take relative paths from here, as a program does that is started here."""
    jvm: Any = spark._jvm
    jvm.java.lang.System.setProperty("user.dir", str(folder))
    hadoop = jvm.org.apache.hadoop.fs
    local = hadoop.FileSystem.getLocal(spark._jsc.hadoopConfiguration())
    local.setWorkingDirectory(hadoop.Path(str(folder)))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of this test process, with `format("turnabout")`: two cores, UTC, quiet; a task
    that fails is tried once more.
    """
    from turnabout.pipeline import session

    # Before Java starts: its Python workers have what we have then.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        dict.fromkeys([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    )
    settings = SETTINGS | {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    found = session("turnabout tests", master="local[2,2]", conf=settings)
    yield found
    gateway = found.sparkContext._gateway
    found.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)
