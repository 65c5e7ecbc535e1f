# SPDX-License-Identifier: Apache-2.0
"""What all tests share: nothing hangs, and nobody else's settings matter."""

import faulthandler
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for support.py

MOST_SECONDS = 60


@pytest.fixture(autouse=True)
def ends_in_time() -> Iterator[None]:
    """Ends the whole run, with the stacks of all threads, if one test takes too long: most likely it
    waits for a lock, and no signal would reach it."""
    faulthandler.dump_traceback_later(MOST_SECONDS, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
