# SPDX-License-Identifier: Apache-2.0
"""What can go wrong on a cluster and nowhere else."""

from __future__ import annotations

from typing import Any

from scbf import BloomFilter, Filter
from scbf.errors import Error


class UndersizedPlan(Error, ValueError):
    """More distinct keys came than the filter was planned for, so that its rate is far above the plan.

    Attributes:
        filter: the filter as it was built; it has every key. None for a bank.
        estimated_keys: distinct keys in it, estimated from its fill; infinity if it is full.
        estimated_fpr: its false-positive rate, estimated from its fill.
    """

    filter: Filter | BloomFilter | None
    estimated_keys: float
    estimated_fpr: float

    def __init__(self, message: str, filter: Filter | BloomFilter | None, estimated_keys: float,
                 estimated_fpr: float) -> None:
        super().__init__(message)
        self.filter = filter
        self.estimated_keys = estimated_keys
        self.estimated_fpr = estimated_fpr

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.filter, self.estimated_keys, self.estimated_fpr)


class UndersizedPlanWarning(UserWarning):
    """The rate of a filter is modestly above its plan."""


class MissingPartial(Error, RuntimeError):
    """The filters of some partitions did not arrive, or arrived twice. There is no result."""
