# SPDX-License-Identifier: Apache-2.0
"""What differs between Spark Classic and Spark Connect, and what a session says about its cluster."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from scbf.errors import InvalidArgument


def is_connect(spark: SparkSession) -> bool:
    """Is it a client of Spark Connect, which has no JVM?"""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def session(spark: SparkSession | None = None) -> SparkSession:
    """The session given, or the active one. Raises InvalidArgument if there is none."""
    spark = spark or SparkSession.getActiveSession()
    if spark is None:
        raise InvalidArgument("there is no active Spark session: make one, or give it as spark=")
    return spark


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
