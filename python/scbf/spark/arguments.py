# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments on the driver, before any job runs."""

from __future__ import annotations

import numbers
import operator
from typing import Any, get_args

from scbf import BloomFilter, Filter, Geometry, Plan, Replica, plan
from scbf.errors import InvalidArgument
from scbf.typing import Layout


def whole_number(name: str, value: Any, least: int, most: int) -> int:
    """The value as an int; a float may be whole, too, such as 1e6. Raises InvalidArgument unless it is from ``least``
    to ``most``."""
    try:
        number = int(value) if isinstance(value, float) and value.is_integer() else operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or not least <= number <= most:
        limit = "2**64 - 1" if most == 2**64 - 1 else f"{most:,}"
        raise InvalidArgument(f"{name} {value!r}: must be a whole number from {least} to {limit}")
    return number


def check_fpr(fpr: Any) -> None:
    """Raises InvalidArgument unless it is a false-positive rate."""
    if not isinstance(fpr, numbers.Real) or not 0 < float(fpr) < 1:
        raise InvalidArgument(f"fpr {fpr!r}: must be a number in (0, 1)")


def check_seed(seed: Any) -> int:
    """The seed as an int. Raises InvalidArgument if it is out of range."""
    return whole_number("seed", seed, 0, 2**64 - 1)


def check_geometry(geometry: Any) -> None:
    """Raises InvalidArgument unless it is a Geometry."""
    if not isinstance(geometry, Geometry):
        raise InvalidArgument(f"geometry {geometry!r}: must be a scbf.Geometry")


def plan_for(capacity: int | float | None, fpr: float, layout: Layout | None) -> Plan:
    """scbf.plan(), for one key if no capacity is given. Raises InvalidArgument for what cannot be planned."""
    check_fpr(fpr)
    layouts = get_args(Layout)
    if layout is not None and layout not in layouts:
        raise InvalidArgument(f"layout {layout!r}: must be one of {', '.join(map(repr, layouts))}")
    many = 1 if capacity is None else whole_number("capacity", capacity, 1, 2**64 - 1)
    return plan(capacity=many, fpr=float(fpr), layout=layout)


def check_filter(filter: Any, kinds: type | tuple[type, ...] = (Filter, BloomFilter),
                 expected: str = "a Filter or a BloomFilter") -> None:
    """Raises InvalidArgument unless it is a filter of one of these kinds."""
    if not isinstance(filter, kinds):
        way_out = "; give its snapshot()" if isinstance(filter, Replica) else ""
        raise InvalidArgument(f"filter of type {type(filter).__name__}: must be {expected}{way_out}")
