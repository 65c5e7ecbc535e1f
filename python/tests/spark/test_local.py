# SPDX-License-Identifier: Apache-2.0
"""The same on local[2], where tasks are threads of the driver's JVM."""

import pytest

import scbf
import scbf.spark


def test_a_round(local, tmp_path):
    frame = local.range(5000, numPartitions=3)
    reports = []
    built = scbf.spark.build(frame, "id", capacity=5000, fpr=0.01, report=reports.append)
    alone = scbf.Filter(capacity=5000, fpr=0.01)
    alone.insert(range(5000))
    assert built.to_bytes() == alone.to_bytes()
    assert reports[0].widths == (2, 1)
    scbf.spark.save(built, f"{tmp_path}/a.scbf")
    assert scbf.spark.load(f"{tmp_path}/a.scbf") == built
    wider = local.range(9000)
    assert wider.filter(scbf.spark.contains(wider, "id", built)).count() == alone.contains(range(9000)).sum()
    assert scbf.spark.semi_join(wider, frame, on="id", capacity=5000).count() == 5000
    made = scbf.spark.bank(wider.selectExpr("id", "id % 2 as g"), "id", "g", capacity=4500)
    assert made.find(17) in ([1], [0, 1], [1, 0])


def test_what_a_session_shared_that_was_stopped_is_refused(local, sessions):
    built, bank = scbf.Filter(capacity=10, fpr=0.01), scbf.Bank(capacity=10, fpr=0.01)
    built.insert(2)
    shared, shared_bank = scbf.spark.share(built, spark=local), scbf.spark.share(bank, spark=local)
    master = local.sparkContext.master
    sessions.stop()
    frame = sessions.on(master).range(5)
    says = "shared with another session, or with one that was stopped: share it again"
    with pytest.raises(scbf.InvalidArgument, match=says):
        scbf.spark.contains(frame, "id", shared)
    with pytest.raises(scbf.InvalidArgument, match=says):
        scbf.spark.find(frame, "id", shared_bank)
    again = scbf.spark.share(built, spark=frame.sparkSession)
    assert again.name == shared.name
    assert [row.id for row in frame.filter(scbf.spark.contains(frame, "id", again)).collect()] == [2]
