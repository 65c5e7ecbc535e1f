# SPDX-License-Identifier: Apache-2.0
"""The same on local[2], where tasks are threads of the driver's JVM."""

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
