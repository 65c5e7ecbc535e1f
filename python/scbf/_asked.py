# SPDX-License-Identifier: Apache-2.0
"""The filters that other libraries' queries may ask: everything that has contains()."""

from __future__ import annotations

import scbf

Asked = scbf.Filter | scbf.BloomFilter | scbf.Replica


def check_asked(filter: object) -> None:
    """Raises TypeError where the query is written, instead of somewhere inside another library's engine."""
    if not isinstance(filter, Asked):
        raise TypeError(
            f"contains() asks a Filter, BloomFilter or Replica, not {type(filter).__name__}"
            + ("; take one member with copy_member()" if isinstance(filter, scbf.Bank | scbf.BloomBank) else "")
        )
