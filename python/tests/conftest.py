# SPDX-License-Identifier: Apache-2.0
"""What all tests share: nothing hangs, and nobody else's settings matter."""

import faulthandler
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import scbf

sys.path.insert(0, str(Path(__file__).parent))  # for support.py

MOST_SECONDS = 120

# scripts/test tests the wheel, as users install it.
if os.environ.get("SCBF_REQUIRE_WHEEL"):
    assert Path(sys.prefix) in Path(scbf.__file__).parents, f"{scbf.__file__} is not the wheel's"


@pytest.fixture(autouse=True)
def ends_in_time() -> Iterator[None]:
    """Ends the whole run, with the stacks of all threads, if one test takes too long: most likely it
    waits for a lock, and no signal would reach it."""
    faulthandler.dump_traceback_later(MOST_SECONDS, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
