# SPDX-License-Identifier: Apache-2.0
"""The Python of docs/spark.md runs."""

import pages
import scbf


def test_the_page(spark, tmp_path, monkeypatch):
    code, = pages.blocks("docs/spark.md")
    for said, here in (("hdfs:///filters", f"file:{tmp_path}"), ("capacity=10_000_000", "capacity=10_000")):
        assert said in code
        code = code.replace(said, here)
    (tmp_path / "page.md").write_text("```python\n" + code + "```\n")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    orders = spark.range(100).toDF("customer")
    names = {
        "orders": orders, "visits": spark.range(90, 120).toDF("customer"),
        "yesterday": spark.range(50).toDF("customer"), "today": spark.range(1000, 1010).toDF("customer"),
        "sales": spark.createDataFrame([("4006381333931", "Bern"), ("7", "Bern"), ("7", "Jena")],
                                       "article string, shop string"),
        "recalls": spark.createDataFrame([("7",), ("8",)], "article string"),
    }
    values, _ = pages.run_page("page.md", names)
    visitors, joined, saved, _, shops, recalled = values
    assert saved is None and shops == ["Bern"]
    assert {row.customer for row in visitors.collect()} >= set(range(90, 100))
    assert sorted(row.customer for row in joined.collect()) == list(range(90, 100))
    assert sorted(map(sorted, (row[1] for row in recalled.collect()))) == [[], ["Bern", "Jena"]]
    expected = scbf.Filter(geometry=names["filter"].geometry)
    expected.insert([*range(50, 100), *range(1000, 1010)])
    assert names["filter"] == expected
