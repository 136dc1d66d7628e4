"""Views and tables of Spark's SQL, both ways; and threads of a session that somebody made."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import turnabout
from tests.pipeline.spark.places import on_postgres
from turnabout.pipeline import register

pytestmark = on_postgres
NAMES = ("done", "mails", "wrong")


@pytest.fixture
def sql(spark: SparkSession, mq: turnabout.Turnabout) -> Any:
    """Spark's own, which leaves nothing behind."""
    queue = mq.queue("orders")
    queue.create(history_payload=True, max_attempts=1)
    queue.send_many([turnabout.message(str(n), channel=f"c{n}") for n in range(3)])
    queue.ack(queue.receive(2))
    queue.receive(1)[0].fail("no such address")
    yield spark.sql
    for name in NAMES:
        spark.catalog.dropTempView(name)
        spark.sql(f"drop table if exists {name}")


def sent(mq: turnabout.Turnabout) -> list[tuple[str, str]]:
    return sorted((m.text(), m.channel) for m in mq.queue("mails").peek(100))


def test_views_are_read_and_inserted_into(sql: Any, place: str, mq: turnabout.Turnabout) -> None:
    where = f"url '{place}'"
    sql(f"create temporary view done using turnabout options ({where}, mode 'history')")
    sql(
        "create temporary view mails (value string, channel string) using turnabout "
        f"options ({where}, queue 'mails')"
    )
    sql("insert into mails select error, channel from done where outcome = 'dead'")
    assert sent(mq) == [("no such address", "c2")]


def test_tables_take_options_in_each_statement(
    sql: Any, place: str, mq: turnabout.Turnabout
) -> None:
    sql("create table done (channel string, outcome string) using turnabout")
    sql("create table mails (value string, channel string) using turnabout")
    where = f"url '{place}'".replace(" ", " = ")
    asked = f"select channel from done with ({where}, mode = 'history') where outcome = 'done'"
    sql(f"insert into mails with ({where}, queue = 'mails') select 'well', channel from ({asked})")
    assert sent(mq) == [("well", "c0"), ("well", "c1")]
    with pytest.raises(AnalysisException, match="keeps the options of a table in its catalogue"):
        sql(f"create table wrong using turnabout options (url '{place}', mode 'history')")


def test_a_thread_that_registers_can_write(
    spark: SparkSession, place: str, mq: turnabout.Turnabout
) -> None:
    failed: list[str] = []

    def attempt(*first: Callable[[SparkSession], object]) -> None:
        try:
            for step in first:
                step(spark)
            frame = spark.range(3).selectExpr("string(id) value", "'c' channel")
            writer = frame.write.format("turnabout").options(url=place, queue="mails")
            writer.mode("append").save()
        except Exception as error:  # noqa: BLE001 Java's, as it comes
            failed.append(str(error))

    for steps in ((), (register,)):
        thread = threading.Thread(target=attempt, args=steps)
        thread.start()
        thread.join()
    assert len(failed) == 1, "a Spark that finds it by itself: drop the sentence of the page"
    assert "DATA_SOURCE_NOT_FOUND" in failed[0]
    assert len(sent(mq)) == 3
