# SPDX-License-Identifier: Apache-2.0
"""What test_connect.py runs in a process of its own, because one that was a client stays one."""

import os
import sys
import threading
from pathlib import Path

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
scbf.spark.save(made, f"{folder}/groups.bank")
loaded = scbf.spark.load_bank(f"{folder}/groups.bank")
assert loaded.groups == made.groups and loaded.bank.to_bytes() == made.bank.to_bytes()
asked = wider.limit(100).select("id", scbf.spark.find(wider, "id", made).alias("groups")).collect()
assert [row.groups for row in asked] == made.find([row.id for row in asked])

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


def refused(error_type, says, call, *arguments, **more):
    try:
        call(*arguments, **more)
    except error_type as error:
        assert says in str(error), error
    else:
        raise AssertionError(f"{says}: not refused")


refused(FileNotFoundError, "nothing.scbf", scbf.spark.load, f"{folder}/nothing.scbf")
for each in ("empty", "of one/of one"):
    os.makedirs(f"{folder}/{each}")
built.save(f"{folder}/of one/of one/of one")
for each in ("empty", "of one", "of one/of one", "of one/of one/"):
    refused(scbf.IoError, "is a folder", scbf.spark.save, built, f"{folder}/{each}")
    refused(IsADirectoryError, "is a folder", scbf.spark.load, f"{folder}/{each}")
assert os.listdir(f"{folder}/empty") == [] and os.listdir(f"{folder}/of one/of one") == ["of one"]
refused(scbf.InvalidArgument, "begin with '_'", scbf.spark.save, built, f"{folder}/_a.scbf")
for name in ("with space%20#ü.scbf", "g[1]{a,b}*?.scbf"):
    open(f"{folder}/{name}", "w").close()
    refused(scbf.CorruptFile, f"/{name}': empty", scbf.spark.load, f"{folder}/{name}")
    scbf.spark.save(built, Path(folder) / name)
    assert scbf.spark.load(f"file://{folder}/{name}") == built

shared, shared_bank = scbf.spark.share(built, spark=spark), scbf.spark.share(made, spark=spark)
assert wider.filter(scbf.spark.contains(wider, "id", shared)).count() == found
assert wider.select(scbf.spark.find(wider, "id", shared_bank).alias("groups")).first().groups == made.find(0)
other = spark.newSession()
theirs = other.range(9000)
for call, given in ((scbf.spark.contains, shared), (scbf.spark.find, shared_bank)):
    refused(scbf.InvalidArgument, "shared with another session", call, theirs, "id", given)
again = scbf.spark.share(built, spark=other)
assert again.name == shared.name
assert theirs.filter(scbf.spark.contains(theirs, "id", again)).count() == found
other.client.close()  # its stop() would end the server

seen = []
thread = threading.Thread(target=lambda: seen.append(scbf.spark.load(f"{folder}/a.scbf")))  # without spark=
thread.start()
thread.join()
assert len(seen) == 1

for length in (5, 9):
    spark.createDataFrame([("ab",)], "k string").createOrReplaceTempView("one")
    spark.sql(f"create table char{length} (k char({length})) using parquet location '{folder}/char{length}'")
    spark.sql(f"insert into char{length} select * from one")
assert scbf.spark.semi_join(spark.table("char5"), spark.table("char9"), on="k", capacity=5).count() == 1
dotted = spark.createDataFrame([(1,)], "`a.b` int")
assert scbf.spark.semi_join(dotted, dotted, on="a.b", capacity=5).count() == 1

scbf.spark.update(built, "id", remove=spark.range(100), insert=spark.range(5000, 5100))
alone.remove(range(100))
alone.insert(range(5000, 5100))
assert built.to_bytes() == alone.to_bytes()
spark.stop()
refused(scbf.InvalidArgument, "was stopped", scbf.spark.build, frame, "id")
refused(scbf.InvalidArgument, "was stopped", scbf.spark.save, built, f"{folder}/a.scbf", spark=spark)
refused(scbf.InvalidArgument, "there is no Spark session", scbf.spark.load, f"{folder}/a.scbf")
print("all of it")
