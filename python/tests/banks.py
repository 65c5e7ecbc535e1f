# SPDX-License-Identifier: Apache-2.0
"""Banks that several modules of tests ask."""

from typing import Any

import scbf
from support import GEOMETRY


def lists(found: Any) -> list[list[int]]:
    return [members.tolist() for members in found]


def small() -> scbf.Bank:
    bank = scbf.Bank(geometry=GEOMETRY, seed=42)
    for keys in (["a", "b"], ["b", "c"], []):
        bank.insert(bank.add_member(), keys)
    return bank


def grown() -> scbf.Bank:
    """With members of several stages, a number that is free, a mark and metadata."""
    bank = scbf.Bank(growth=scbf.Growth.tightening(50, 0.05), seed=2**63, members=20)
    for member in range(4):
        bank.insert(bank.add_member(), range(member * 200))
        bank.set_member_metadata(member, f"µ{member}")
    bank.remove_member(1)
    bank.ask_always(2)
    bank.metadata = '{"sign": "✓"}'
    return bank
