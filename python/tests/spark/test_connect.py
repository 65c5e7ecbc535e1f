# SPDX-License-Identifier: Apache-2.0
"""The same through Spark Connect: a process that is a client, and has no JVM to call."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

for module in ("grpc", "grpc_status", "google.rpc"):
    pytest.importorskip(module, reason="Spark Connect's client needs pyspark[connect]")


@pytest.fixture
def connect(executor_environment):
    """The environment of a client; asked for by tests that are to run last."""
    return {**os.environ, **executor_environment}


def test_a_round_through_connect(connect, tmp_path):
    script = Path(__file__).with_name("connect_round.py")
    done = subprocess.run([sys.executable, script, tmp_path], env=connect, capture_output=True, text=True, timeout=140)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-1] == "all of it"
