"""A report's tables: rows of the log in, tables out. DataFrames on both sides, nothing else.

Waiting is the time from being sent to the beginning of the last lease, handling from there to the
end; messages that were never leased have neither. Quantiles are exact but for this: times above a
second are rounded to three digits first, so that what Spark has to remember is bounded.
`percentile_approx`, which bounds it as well, was a tenth to a third quicker: not worth its errors.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from turnabout.pipeline.schema import LOG
from turnabout.words.records import OUTCOMES

_CONTENT = ("result", "result_type", "value", "content_type", "headers")
COLUMNS: Final = tuple(name for name in LOG if name not in _CONTENT)
"""The columns needed of a row of the log: no payloads, no results."""

COUNTS: Final = ("messages", *OUTCOMES, "leased", "attempts", "failures", "crashes")
QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
TIMES: Final = ("wait", "handle")
HOUR_MS: Final = 3_600_000
DIGITS: Final = 3
ERROR_CHARS: Final = 300
EXAMPLE_CHARS: Final = 2_000

QUEUE: Final = ("namespace", "queue")
CHANNEL: Final = (*QUEUE, "channel")

# In this order: what is longer and more particular comes first.
PARTICULARS: Final = (
    (r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}", "#id"),
    (r"\b0[xX][0-9a-fA-F]+\b", "#hex"),
    (r"\b(?=[a-fA-F]*[0-9])(?=[0-9]*[a-fA-F])[0-9a-fA-F]{8,}\b", "#hex"),
    (r"[0-9]+(?:[.,:][0-9]+)*", "#"),
)
"""The parts in which errors of one kind differ: ids, addresses in memory, digests, numbers."""


def narrow(rows: DataFrame) -> DataFrame:
    """Rows as everything here takes them: instants as milliseconds, `wait_ms` and `handle_ms`."""
    sent, leased = F.unix_millis("sent_at"), F.unix_millis("leased_at")
    ended = F.unix_millis("finished_at")
    return rows.select(
        *CHANNEL,
        "message_id",
        "outcome",
        "attempt",
        "failures",
        "crashes",
        ended.alias("ended_ms"),
        _length(sent, leased).alias("wait_ms"),
        _length(leased, ended).alias("handle_ms"),
        "error",
    )


def _length(begun: Column, ended: Column) -> Column:
    """Null if one of them is. Never below 0: clocks of two databases differ, and queues move."""
    return F.when(ended < begun, F.lit(0)).otherwise(ended - begun)


@contextmanager
def cached(table: DataFrame) -> Generator[DataFrame]:
    """A table that is read several times, computed once."""
    table.cache()
    try:
        yield table
    finally:
        table.unpersist()


def start_of(step_ms: int) -> Column:
    """The beginning of the step that a message ended in, as a timestamp."""
    return F.timestamp_millis(F.floor(F.col("ended_ms") / step_ms).cast("long") * step_ms)


def measures(narrowed: DataFrame, by: Sequence[str]) -> DataFrame:
    """Narrow rows counted and timed by some columns."""
    chosen = narrowed.select(
        "*", *(_rounded(F.col(f"{time}_ms")).alias(f"_{time}") for time in TIMES)
    )
    counted = chosen.groupBy(*by).agg(
        *counts(),
        *(
            F.percentile(f"_{time}", F.array(*map(F.lit, QUANTILES.values()))).alias(f"_{time}")
            for time in TIMES
        ),
    )
    return counted.select(
        *by,
        *COUNTS,
        *(
            column
            for time in TIMES
            for column in (
                f"{time}_mean_ms",
                *(
                    F.col(f"_{time}")[place].alias(f"{time}_{name}_ms")
                    for place, name in enumerate(QUANTILES)
                ),
                f"{time}_max_ms",
            )
        ),
    )


def counts() -> list[Column]:
    """The sums, means and maxima of narrow rows: all but quantiles."""
    return [
        F.count(F.lit(1)).alias("messages"),
        *(F.count_if(F.col("outcome") == name).alias(name) for name in OUTCOMES),
        F.count("wait_ms").alias("leased"),
        *(
            F.coalesce(F.sum(column), F.lit(0)).alias(total)
            for column, total in (
                ("attempt", "attempts"),
                ("failures", "failures"),
                ("crashes", "crashes"),
            )
        ),
        *(F.avg(f"{time}_ms").alias(f"{time}_mean_ms") for time in TIMES),
        *(F.max(f"{time}_ms").alias(f"{time}_max_ms") for time in TIMES),
    ]


def hours(narrowed: DataFrame, first_ms: int, until_ms: int) -> DataFrame:
    """Measures by queue, channel and hour. `per_second` is over the part of the hour that the
    report is about.
    """
    timed = measures(narrowed.withColumn("hour", start_of(HOUR_MS)), (*CHANNEL, "hour"))
    begun = F.unix_millis("hour")
    covered = F.least(begun + HOUR_MS, F.lit(until_ms)) - F.greatest(begun, F.lit(first_ms))
    seconds = F.greatest(covered, F.lit(1_000)) / 1_000
    return timed.withColumn("per_second", F.col("messages") / seconds)


def counted(narrowed: DataFrame, by: Sequence[str]) -> DataFrame:
    """Like `measures`, without quantiles: much cheaper for many groups."""
    return narrowed.groupBy(*by).agg(*counts())


def merged(table: DataFrame, by: Sequence[str]) -> DataFrame:
    """A table of `measures` or `counted` in fewer groups; without quantiles, which don't add up."""
    return table.groupBy(*by).agg(
        *(F.sum(name).alias(name) for name in COUNTS),
        *(
            F.try_divide(
                F.sum(F.col(f"{time}_mean_ms") * F.col("leased")), F.sum("leased").cast("double")
            ).alias(f"{time}_mean_ms")
            for time in TIMES
        ),
        *(F.max(f"{time}_max_ms").alias(f"{time}_max_ms") for time in TIMES),
    )


def fairness(by_channel: DataFrame) -> DataFrame:
    """Jain's index by queue, and by hour where there are hours: 1 where all channels are equal,
    1/n where one of n has everything. Over the channels that had messages.

    jain_done   of the messages done; null where none was
    jain_wait   of the channels' mean waiting; null where none was leased
    share_max, share_min   of the messages done, the largest and the smallest part
    slowest     the channel with the longest mean waiting, and that
    """
    by = [name for name in (*QUEUE, "hour", "at") if name in by_channel.columns]
    wait = F.col("wait_mean_ms")
    return by_channel.groupBy(*by).agg(
        F.count(F.lit(1)).alias("channels"),
        F.sum("messages").alias("messages"),
        F.sum("done").alias("done"),
        _jain(F.col("done").cast("double"), F.lit(None).cast("double")).alias("jain_done"),
        # Nobody waited at all: nobody was treated worse.
        _jain(wait, F.when(F.count(wait) > 0, F.lit(1.0))).alias("jain_wait"),
        _share(F.max("done")).alias("share_max"),
        _share(F.min("done")).alias("share_min"),
        F.max_by("channel", wait).alias("slowest"),
        F.max(wait).alias("slowest_wait_mean_ms"),
    )


def failures(narrowed: DataFrame) -> DataFrame:
    """The failures: messages with an error, or dead without one, by queue and by the kind
    of error, which is its last line without what is particular (`kind_of`).
    """
    told = narrowed.where(F.col("error").isNotNull() | (F.col("outcome") == "dead"))
    ended = F.col("ended_ms")
    return (
        told.withColumn("kind", kind_of(F.coalesce("error", F.lit(""))))
        .groupBy(*QUEUE, "kind")
        .agg(
            F.count(F.lit(1)).alias("messages"),
            F.count_if(F.col("outcome") == "dead").alias("dead"),
            F.count_distinct("channel").alias("channels"),
            F.timestamp_millis(F.min(ended)).alias("first_at"),
            F.timestamp_millis(F.max(ended)).alias("last_at"),
            F.max_by(F.substring("error", 1, EXAMPLE_CHARS), ended).alias("example"),
            F.max_by("message_id", ended).alias("example_id"),
        )
        .withColumnRenamed("kind", "error")
    )


def kind_of(error: Column) -> Column:
    """An error without numbers, ids and digests: the same for all of its kind."""
    # A traceback tells at its end what happened.
    lines = F.split(F.regexp_replace(error, r"\s+$", ""), r"\r?\n")
    text = F.trim(F.element_at(lines, -1))
    text = F.substring(text, 1, ERROR_CHARS)
    for pattern, name in PARTICULARS:
        text = F.regexp_replace(text, pattern, name)
    return text


def _rounded(times: Column) -> Column:
    """Milliseconds; from a second on only their first three digits."""
    scale = F.floor(F.log10(F.greatest(times, F.lit(1)).cast("double"))) - (DIGITS - 1)
    unit = F.pow(F.lit(10.0), F.greatest(scale, F.lit(0)))
    return (F.round(times / unit) * unit).cast(T.LongType())


def _jain(values: Column, of_nothing: Column) -> Column:
    """(Σx)² / (n Σx²), and something else where all are 0 or there are none."""
    squares = F.sum(values * values)
    total = F.sum(values)
    return F.when(squares > 0, total * total / (F.count(values) * squares)).otherwise(of_nothing)


def _share(done: Column) -> Column:
    total = F.sum("done")
    return F.when(total > 0, done / total)
