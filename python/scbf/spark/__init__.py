# SPDX-License-Identifier: Apache-2.0
"""Filters of data frames of Apache Spark: built, changed, asked and stored where the rows are.

    filter = scbf.spark.build(orders, "customer", capacity=10_000_000, fpr=0.01)
    visits.filter(scbf.spark.contains(visits, "customer", filter))
    scbf.spark.semi_join(visits, orders, on="customer")

PySpark 4.1 or later does all distributed work, as jobs on data frames, with Arrow: no RDDs, no JVM code, no side
effects of tasks. It works on a local master, on a cluster, and through Spark Connect. This version of scbf must be
importable where executors run Python. docs/spark.md says what is guaranteed, and what it costs.
"""

try:
    import pyspark as _pyspark
except ImportError as _error:
    raise ImportError("scbf.spark needs PySpark 4.1 or later and pyarrow: pip install 'pyspark>=4.1' pyarrow") from _error

if tuple(int(_part) for _part in _pyspark.__version__.split(".")[:2]) < (4, 1):
    raise ImportError(f"PySpark {_pyspark.__version__}: scbf.spark needs 4.1 or later, for repartitionById and "
                      "arrow_udf: pip install 'pyspark>=4.1'")

from scbf.spark.bank import GroupBank, bank
from scbf.spark.build import BuildReport, build, count_keys
from scbf.spark.change import remove, update
from scbf.spark.errors import MissingPartial, UndersizedPlan, UndersizedPlanWarning
from scbf.spark.files import load, load_bank, save
from scbf.spark.lookup import SharedBank, SharedFilter, contains, find, semi_join, share

__all__ = [
    "BuildReport",
    "GroupBank",
    "MissingPartial",
    "SharedBank",
    "SharedFilter",
    "UndersizedPlan",
    "UndersizedPlanWarning",
    "bank",
    "build",
    "contains",
    "count_keys",
    "find",
    "load",
    "load_bank",
    "remove",
    "save",
    "semi_join",
    "share",
    "update",
]
