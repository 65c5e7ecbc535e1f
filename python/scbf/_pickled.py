# SPDX-License-Identifier: Apache-2.0
"""What pickles of scbf's objects call."""

from typing import Any


def made(cls: type, how: str, *arguments: Any) -> Any:
    """The object that a static method of its class makes."""
    return getattr(cls, how)(*arguments)
