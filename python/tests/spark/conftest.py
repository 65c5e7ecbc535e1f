# SPDX-License-Identifier: Apache-2.0
"""Sessions of Spark. Most tests run on local-cluster[2,1,1024]: two executors, each a process of its own."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Spark needs Java 17 or later", allow_module_level=True)

import pyspark  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

import scbf  # noqa: E402

MOST_SECONDS = 150  # on a busy machine, with the start of a session

# Tests are too short for the second compiler of the JVM to pay.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"

CLUSTER, LOCAL = "local-cluster[2,1,1024]", "local[2]"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the other sessions come last: there is one context at a time, and it is slow to start."""
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    last = {"two_hosts": 1, "local": 2, "connect": 3}
    here.sort(key=lambda item: max((last.get(name, 0) for name in getattr(item, "fixturenames", ())), default=0))
    others = [item for item in items if Path(__file__).parent not in item.path.parents]
    items[:] = others + here


@pytest.fixture(autouse=True)
def ends_in_time() -> Iterator[None]:
    """As that of all tests, with more time."""
    faulthandler.dump_traceback_later(MOST_SECONDS, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def executor_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What makes executors run this Python, with this package, and write into a folder that goes away."""
    # Workers of local-cluster make $SPARK_HOME/work.
    home = tmp_path_factory.mktemp("spark")
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    package = str(Path(scbf.__file__).parent.parent)
    path = os.pathsep.join(part for part in (package, os.environ.get("PYTHONPATH")) if part)
    return {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": path,
            "PYTHONWARNINGS": "ignore::FutureWarning", "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS}


class Sessions:
    """The session of a master; that of another one is stopped."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self._folder = folder
        self._master: str | None = None
        self._session: SparkSession | None = None
        os.environ.update(environment)
        self._path = environment["PYTHONPATH"]

    def on(self, master: str, **more: Any) -> SparkSession:
        if self._master != master:
            self.stop()
            settings: dict[str, Any] = {
                "spark.ui.enabled": False, "spark.ui.showConsoleProgress": False, "spark.sql.shuffle.partitions": 4,
                "spark.executorEnv.PYTHONPATH": self._path, "spark.executor.memory": "1g", "spark.driver.memory": "1g",
                "spark.sql.warehouse.dir": self._folder / "warehouse", "spark.local.dir": self._folder / "local",
                "spark.driver.extraJavaOptions": JAVA_OPTIONS, "spark.executor.extraJavaOptions": JAVA_OPTIONS,
                # A lost executor is missed at once.
                "spark.shuffle.io.maxRetries": 1, "spark.shuffle.io.retryWait": "1s", **more}
            builder = SparkSession.builder.master(master).appName("scbf")
            for name, value in settings.items():
                builder = builder.config(name, str(value).lower() if isinstance(value, bool) else str(value))
            self._session = builder.getOrCreate()
            self._session.sparkContext.setLogLevel("OFF")  # executors are killed on purpose
            self._master = master
        assert self._session is not None
        return self._session

    def stop(self) -> None:
        if self._session is not None:
            self._session.stop()
        self._master = self._session = None


@pytest.fixture(scope="session")
def sessions(executor_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    all_of_them = Sessions(executor_environment, tmp_path_factory.mktemp("spark-files"))
    yield all_of_them
    all_of_them.stop()


@pytest.fixture
def spark(sessions: Sessions) -> Iterator[SparkSession]:
    """Two executors of one core each."""
    session = sessions.on(CLUSTER)
    yield session
    for name in ("adaptive.enabled", "execution.arrow.maxRecordsPerBatch", "execution.arrow.useLargeVarTypes"):
        session.conf.unset(f"spark.sql.{name}")


@pytest.fixture
def two_hosts(sessions: Sessions, executor_environment: dict[str, str], tmp_path: Path) -> Iterator[SparkSession]:
    """Two executors of one core each, on 127.0.0.2 and 127.0.0.3, and speculation: Spark does not run both copies
    of a task on one host, so that local-cluster has no speculation."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    master = f"spark://127.0.0.1:{port}"
    spark_class = Path(executor_environment["SPARK_HOME"]) / "bin" / "spark-class"
    deploy = "org.apache.spark.deploy"
    common = ["--webui-port", "0"]
    log = tmp_path / "daemons.log"
    sessions.stop()
    with contextlib.ExitStack() as daemons:
        output = daemons.enter_context(log.open("w"))

        def start(*command: str) -> None:
            daemon = daemons.enter_context(subprocess.Popen(
                [spark_class, *command, *common], env={**os.environ, **executor_environment}, stdout=output,
                stderr=output))
            daemons.callback(daemon.terminate)

        start(f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port))
        while "New state: ALIVE" not in log.read_text():  # whoever comes before is not answered, and waits for 20 s
            time.sleep(0.1)
        for host in ("127.0.0.2", "127.0.0.3"):
            start(f"{deploy}.worker.Worker", "--host", host, "-c", "1", "-m", "1g", "-d", str(tmp_path), master)
        yield sessions.on(master, **{
            "spark.executor.memory": "900m", "spark.speculation": True, "spark.speculation.interval": "100ms",
            "spark.speculation.quantile": 0.5, "spark.speculation.multiplier": 1.2})
        sessions.stop()


@pytest.fixture
def local(sessions: Sessions) -> SparkSession:
    """Two threads of this process's JVM."""
    return sessions.on(LOCAL)
