# SPDX-License-Identifier: Apache-2.0
"""The rows of an index one after another, of which some are read at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scbf import SecondaryIndex

Key = str | bytes | None


def all_of(index: SecondaryIndex, from_key: Key, to_key: Key) -> Iterator[dict[str, str]]:
    """SecondaryIndex.scan(). Reads the first rows at once, so that errors come from the call."""
    key = index.key

    def rows(page: list[dict[str, str]]) -> Iterator[dict[str, str]]:
        while page:
            last = page[-1][key]  # before the caller has the row, who may change it
            yield from page
            page = index._page(None, to_key, last)

    return rows(index._page(from_key, to_key, None))


def matching(index: SecondaryIndex, values: Mapping[str, str | bytes | Sequence[str | bytes]], from_key: Key,
             to_key: Key, after: Key, keys_only: bool, broadcast: bool) -> Iterator[Any]:
    """SecondaryIndex.query_rows(). Asks for the first rows at once, so that errors come from the call."""
    key = index.key
    # The caller may change them between two pages.
    values = {column: tuple(value) if isinstance(value, list) else value for column, value in values.items()}

    def page(after: Key, limit: int) -> list[Any]:
        return index.query(values, from_key=from_key, to_key=to_key, after=after, limit=limit, keys_only=keys_only,
                           broadcast=broadcast).rows

    def rows(found: list[Any], limit: int) -> Iterator[Any]:
        while found:
            last = found[-1] if keys_only else found[-1][key]
            ended = len(found) < limit
            yield from found
            if ended:
                return
            limit = min(4 * limit, 1024)
            found = page(last, limit)

    return rows(page(after, 16), 16)
