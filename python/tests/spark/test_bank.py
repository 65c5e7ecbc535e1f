# SPDX-License-Identifier: Apache-2.0
"""bank(): which groups may hold a value."""

import datetime
import sys

import pytest
from pyspark.sql import functions as F

import scbf
import scbf.spark

N = 3000
GROUPS = {
    "int": ("cast(id % 3 as int)", [0, 1, 2]),
    "string": ("concat('g', id % 3)", ["g0", "g1", "g2"]),
    "binary": ("cast(concat('g', id % 3) as binary)", [b"g0", b"g1", b"g2"]),
    "date": ("date_add(date'2020-01-01', cast(id % 3 as int))", [datetime.date(2020, 1, 1 + i) for i in range(3)]),
    "with null": ("if(id % 3 = 1, null, id % 3)", [0, None, 2]),
}


def frame(spark, group):
    return spark.range(N, numPartitions=4).select(F.expr(group).alias("g"), F.expr("concat('v', id)").alias("v"))


def values(group):
    return [f"v{i}" for i in range(group, N, 3)]


@pytest.mark.parametrize("kind", GROUPS)
def test_each_member_is_the_filter_of_its_group(spark, kind):
    expression, labels = GROUPS[kind]
    made = scbf.spark.bank(frame(spark, expression), "v", "g", capacity=N // 3, fpr=0.01, seed=4)
    assert sorted(made.groups, key=str) == sorted(labels, key=str)
    for i, label in enumerate(labels):
        alone = scbf.Filter(capacity=N // 3, fpr=0.01, seed=4)
        alone.insert(values(i))
        assert made.filter(label).to_bytes() == alone.to_bytes()
        assert label in made.find(f"v{i}")


def test_a_capacity_may_be_a_whole_float(spark):
    made = [scbf.spark.bank(frame(spark, "id % 3"), "v", "g", capacity=capacity) for capacity in (2000, 2e3)]
    for group in range(3):
        assert made[1].filter(group).to_bytes() == made[0].filter(group).to_bytes()


def test_a_value_is_found_in_its_groups(spark):
    made = scbf.spark.bank(frame(spark, "id % 3"), "v", "g", fpr=0.0001)
    found = made.find([f"v{i}" for i in range(300)] + ["elsewhere"])
    assert all(i % 3 in groups for i, groups in enumerate(found[:300]))
    assert sum(map(len, found)) <= 302
    assert made.find("v7") == found[7]
    assert len(made) == 3
    with pytest.raises(KeyError):
        made.filter("no such group")


def test_members_know_what_they_were_planned_for(spark):
    made = scbf.spark.bank(frame(spark, "id % 3"), "v", "g", capacity=N // 3, fpr=0.01)
    with pytest.warns(scbf.OverfullWarning, match="the filter was made for 1000 keys at a false-positive rate of 0.01"):
        made.filter(0).insert(range(N))
    with pytest.warns(scbf.OverfullWarning, match="member 0 of the bank was made for 1000 keys"):
        made.bank.insert(0, range(N))


def test_filters_of_groups_that_cannot_be_saved():
    bank = scbf.Bank(capacity=10, fpr=0.01)
    bank.insert(bank.add_member(), ["a"])
    bank.set_member_metadata(0, "mine")
    copy = scbf.spark.GroupBank([1.5], bank).filter(1.5)
    assert copy.metadata == "mine" and "a" in copy


def test_groups_of_very_different_sizes_with_nulls_and_none(spark):
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 100)
    skewed = spark.range(N).select(F.expr("if(id < 2990, 'large', if(id < 2999, 'small', 'of nulls'))").alias("g"),
                                   F.expr("if(id = 2999, null, id)").alias("v"))
    made = scbf.spark.bank(skewed, "v", "g")
    assert sorted(made.groups) == ["large", "of nulls", "small"]
    assert len(made.filter("of nulls")) == 0 and len(made.filter("large")) == 2990
    assert made.filter("large").contains(range(2990)).all()
    nothing = scbf.spark.bank(skewed.limit(0), "v", "g")
    assert len(nothing) == 0 and nothing.find(5) == []


def test_without_adaptive_execution(spark):
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    made = scbf.spark.bank(frame(spark, "if(id % 3 = 1, null, id % 3)"), "v", "g", capacity=N // 3)
    assert set(made.groups) == {0, None, 2}


def test_large_types_of_arrow(spark):
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    made = scbf.spark.bank(frame(spark, "concat('g', id % 3)"), "v", "g", capacity=N // 3)
    assert "g1" in made.find("v1") and len(made.filter("g2")) == N // 3
    assert len(scbf.spark.build(frame(spark, "1"), "v", capacity=N)) == N


def test_a_group_that_is_too_large_is_reported(spark):
    with pytest.raises(scbf.spark.UndersizedPlan, match="filter of group 'large'"):
        scbf.spark.bank(spark.range(N).select(F.expr("if(id < 2000, 'large', 'small')").alias("g"), "id"), "id", "g",
                        capacity=1000)


@pytest.mark.parametrize("lost", ["g1", None])
def test_a_missing_group_fails_the_job(spark, monkeypatch, lost):
    module = sys.modules["scbf.spark.bank"]  # scbf.spark.bank is the function
    original = module._members

    def all_but_one(rows, shape):
        made, groups = original(rows, shape)
        return made.where(~F.col("group").eqNullSafe(F.lit(lost))), groups

    monkeypatch.setattr(module, "_members", all_but_one)
    with pytest.raises(scbf.spark.MissingPartial, match=f"missing are {lost!r}"):
        scbf.spark.bank(frame(spark, "if(id % 3 = 0, null, concat('g', id % 3))"), "v", "g", capacity=N)


def test_what_cannot_be_groups_or_values(spark):
    rows = spark.range(5).withColumn("x", F.col("id").cast("double"))
    with pytest.raises(scbf.InvalidArgument, match="groups of type double"):
        scbf.spark.bank(rows, "id", "x")
    with pytest.raises(scbf.InvalidKey, match="double"):
        scbf.spark.bank(rows, "x", "id")
