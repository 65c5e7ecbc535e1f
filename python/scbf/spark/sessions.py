# SPDX-License-Identifier: Apache-2.0
"""What differs between Spark Classic and Spark Connect, and what a session says about its cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from scbf.errors import InvalidArgument


def is_connect(spark: SparkSession) -> bool:
    """Is it a client of Spark Connect, which has no JVM?"""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def session(spark: SparkSession | None = None) -> SparkSession:
    """The session given, the active one of this thread, or the default one.

    Raises InvalidArgument if there is none, or if it was stopped.
    """
    if spark is None:
        try:
            spark = SparkSession.active()
        except PySparkException as error:
            raise InvalidArgument("there is no Spark session: make one, or give it as spark=") from error
    if not isinstance(spark, SparkSession) and not is_connect(spark):
        raise InvalidArgument(f"spark {spark!r}: must be a SparkSession")
    check_running(spark)
    return spark


def check_running(spark: SparkSession) -> None:
    """Raises InvalidArgument if the session was stopped."""
    if is_connect(spark):
        stopped = getattr(spark, "is_stopped")
    else:
        context: Any = spark.sparkContext._jsc
        stopped = context is None or context.sc().isStopped()
    if stopped:
        raise InvalidArgument("the Spark session was stopped: make a new one, and data frames of it")


def cores(spark: SparkSession) -> int:
    """How many tasks the cluster runs at once, as far as it is known now; at least 1."""
    if not is_connect(spark):
        return max(1, spark.sparkContext.defaultParallelism)
    # A client of Connect has no context to ask. A range has a partition for each core.
    last = spark.range(1 << 16).select(F.spark_partition_id().alias("i")).agg(F.max("i")).first()
    return 1 if last is None or last[0] is None else last[0] + 1


def rows_by_partition(df: DataFrame) -> Iterator[Row]:
    """The rows of a frame that ends in a shuffle and is observed; the driver fetches one partition at a time.

    On Spark Classic without adaptive execution, all rows are fetched at once: an iterator would run a job for each
    partition there, and what was observed would be lost.
    """
    spark = df.sparkSession
    if is_connect(spark) or spark.conf.get("spark.sql.adaptive.enabled") == "true":
        return df.toLocalIterator()
    return iter(df.collect())
