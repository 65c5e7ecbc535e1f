# SPDX-License-Identifier: Apache-2.0
"""What test_connect.py runs in a process of its own, because one that was a client stays one."""

import os
import sys

os.environ["PYSPARK_SUBMIT_ARGS"] = (
    "--conf spark.sql.artifact.copyFromLocalToFs.allowDestLocal=true --conf spark.ui.enabled=false "
    f"--driver-java-options '{os.environ.get('SPARK_DAEMON_JAVA_OPTS', '')}' pyspark-shell")

from pyspark.sql import SparkSession  # noqa: E402

import scbf  # noqa: E402
import scbf.spark  # noqa: E402
from scbf.spark import files, sessions, tree  # noqa: E402

spark = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "3").getOrCreate()
assert sessions.is_connect(spark) and sessions.cores(spark) == 2
folder = sys.argv[1]

frame = spark.range(5000, numPartitions=3)
alone = scbf.Filter(capacity=5000, fpr=0.01)
alone.insert(range(5000))
reports: list[scbf.spark.BuildReport] = []
built = scbf.spark.build(frame, "id", capacity=5000, fpr=0.01, report=reports.append)
assert built.to_bytes() == alone.to_bytes()
assert reports[0].partitions == 3 and reports[0].widths == (2, 1)

tree._PIECE_BYTES = 10_000
assert scbf.spark.build(frame, "id", capacity=5000, fpr=0.01).to_bytes() == alone.to_bytes()
assert len(scbf.spark.build(frame.limit(0), "id")) == 0
spark.conf.set("spark.sql.adaptive.enabled", "false")
assert scbf.spark.build(frame, "id", capacity=5000, fpr=0.01).to_bytes() == alone.to_bytes()
assert len(scbf.spark.bank(frame.selectExpr("id", "id % 5 as g"), "id", "g", capacity=1000)) == 5
spark.conf.set("spark.sql.adaptive.enabled", "true")

leaves = tree._leaves


def all_but_the_last(*arguments):
    partials, last = leaves(*arguments)
    return partials.where("sender != 2"), last


tree._leaves = all_but_the_last
try:
    scbf.spark.build(frame, "id", capacity=5000, fpr=0.01)
except scbf.spark.MissingPartial as error:
    assert "filters of 2 did not arrive" in str(error)
else:
    raise AssertionError("a missing partial was not noticed")
tree._leaves = leaves

wider = spark.range(9000)
found = wider.filter(scbf.spark.contains(wider, "id", built)).count()
assert found == alone.contains(range(9000)).sum()
assert scbf.spark.semi_join(wider, frame, on="id").count() == 5000
made = scbf.spark.bank(wider.selectExpr("id", "if(id % 3 = 0, null, id % 3) as g"), "id", "g", capacity=3000)
assert sorted(map(str, made.groups)) == ["1", "2", "None"] and 2 in made.find(5)

files._PIECE_BYTES = 1000
for filter in (built, scbf.BloomFilter.of(built)):
    scbf.spark.save(filter, f"{folder}/a.scbf", compress=False)
    assert scbf.spark.load(f"{folder}/a.scbf").to_bytes() == filter.to_bytes()
try:
    scbf.spark.save(built, "hdfs://host/a.scbf")
except scbf.InvalidArgument as error:
    assert "without a scheme" in str(error)
else:
    raise AssertionError("a scheme was accepted")
try:
    scbf.spark.load(f"{folder}/nothing.scbf")
except scbf.IoError as error:
    assert "nothing.scbf" in str(error)
else:
    raise AssertionError("a missing file was not noticed")

scbf.spark.update(built, "id", remove=spark.range(100), insert=spark.range(5000, 5100))
alone.remove(range(100))
alone.insert(range(5000, 5100))
assert built.to_bytes() == alone.to_bytes()
spark.stop()
print("all of it")
