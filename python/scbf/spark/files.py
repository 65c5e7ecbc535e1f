# SPDX-License-Identifier: Apache-2.0
"""Filters on any file system that Hadoop reaches: hdfs, s3a, abfs, gs, file.

A file there is a filter file like any other: ``scbf info`` reads a copy, and ``BloomFilter.map`` maps one. It
passes through a local file of the driver, which the JVM copies, so there is no limit of 2 GiB.
"""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from scbf import BloomFilter, Filter, read_file_info
from scbf.errors import InvalidArgument, IoError
from scbf.spark.sessions import is_connect, session

# Of a file that comes through Spark Connect, which limits messages to 128 MiB.
_PIECE_BYTES = 16 << 20


def save(filter: Filter | BloomFilter, path: str, *, compress: bool = True, spark: SparkSession | None = None) -> None:
    """Writes a filter file to a path of a Hadoop file system.

    An existing file is replaced as a whole or not at all: by a rename where the file system has one (hdfs, file,
    abfs), and on object stores by the copy that stands in for one.

    Args:
        filter: counters or bits.
        path: ``hdfs://…``, ``s3a://…``, …; without a scheme, of the default file system. Through Spark Connect it
            must be absolute and without a scheme.
        compress: smaller, unless the filter is half full; ``False`` for a file to be mapped or shared.
        spark: by default the active session.
    Raises:
        IoError: if the file system refuses.
    """
    spark = session(spark)
    with tempfile.TemporaryDirectory(prefix="scbf-") as folder:
        local = Path(folder) / "filter.scbf"
        filter.save(local, compress=compress)
        if is_connect(spark):
            _upload_through_connect(spark, local, path)
        else:
            _upload(spark, local, path)


def load(path: str, *, spark: SparkSession | None = None) -> Filter | BloomFilter:
    """The filter of a file on a Hadoop file system, verified. Through Spark Connect it must be below 2 GiB.

    Raises:
        IoError: if the file system refuses, or there is no such file.
        CorruptFile: if the file is no filter, or is damaged.
    """
    spark = session(spark)
    with tempfile.TemporaryDirectory(prefix="scbf-") as folder:
        local = Path(folder) / "filter.scbf"
        if is_connect(spark):
            _download_through_connect(spark, path, local)
        else:
            _download(spark, path, local)
        kind = read_file_info(local).kind
        if kind == "delta":
            raise InvalidArgument(f"{path}: is a delta, not a filter: apply it to the filter that it belongs to")
        return (Filter if kind == "counters" else BloomFilter).load(local)


# ---- Spark Classic: the JVM's file systems -------------------------------------------------------


def _hadoop(spark: SparkSession) -> tuple[Any, Any]:
    """The packages of Hadoop, and the configuration of the session."""
    jvm: Any = spark.sparkContext._jvm
    java_session: Any = spark._jsparkSession
    return jvm.org.apache.hadoop.fs, java_session.sessionState().newHadoopConf()


def _upload(spark: SparkSession, local: Path, path: str) -> None:
    fs, configuration = _hadoop(spark)
    try:
        target = fs.Path(path)
        beside = fs.Path(target.getParent(), f".{target.getName()}.{uuid.uuid4().hex}.tmp")
        system = target.getFileSystem(configuration)
        try:
            # delete the source: no; overwrite: yes
            system.copyFromLocalFile(False, True, fs.Path(local.as_uri()), beside)
            _rename_over(spark, system, beside, target)
        finally:
            system.delete(beside, False)
    except Exception as error:
        raise _io_error(path, error) from error


def _rename_over(spark: SparkSession, system: Any, source: Any, target: Any) -> None:
    fs, configuration = _hadoop(spark)
    gateway: Any = spark.sparkContext._gateway
    options: Any = getattr(gateway.jvm, "org.apache.hadoop.fs.Options$Rename")
    overwrite = gateway.new_array(options, 1)
    overwrite[0] = options.OVERWRITE
    qualified = system.makeQualified(target)
    fs.FileContext.getFileContext(qualified.toUri(), configuration).rename(
        system.makeQualified(source), qualified, overwrite)


def _download(spark: SparkSession, path: str, local: Path) -> None:
    fs, configuration = _hadoop(spark)
    try:
        source = fs.Path(path)
        # delete the source: no; without checksum files beside the copy: yes
        source.getFileSystem(configuration).copyToLocalFile(False, source, fs.Path(local.as_uri()), True)
    except Exception as error:
        raise _io_error(path, error) from error


def _io_error(path: str, error: Exception) -> IoError:
    """What the JVM said, in one line."""
    java: Any = getattr(error, "java_exception", None)
    reason = java.toString() if java is not None else str(error)
    return IoError(f"{path}: {(reason or type(error).__name__).splitlines()[0]}")


# ---- Spark Connect: what its protocol offers -----------------------------------------------------


def _upload_through_connect(spark: SparkSession, local: Path, path: str) -> None:
    if "://" in path or not path.startswith("/"):
        raise InvalidArgument(f"{path}: through Spark Connect, a filter is saved to an absolute path without a scheme, "
                              "on the server's default file system; or save it with Filter.save() and copy it")
    try:
        spark.copyFromLocalToFs(str(local), path)
    except PySparkException as error:
        raise IoError(f"{path}: {str(error).splitlines()[0]}") from error


def _download_through_connect(spark: SparkSession, path: str, local: Path) -> None:
    try:
        files = spark.read.format("binaryFile").load(path)
        begins = F.explode(F.sequence(F.lit(0), F.floor((F.length("content") - 1) / _PIECE_BYTES).cast("int")))
        pieces = files.select("path", "length", "content", begins.alias("piece")).select(
            "path", "length", F.col("piece"),
            F.substring("content", F.col("piece") * _PIECE_BYTES + 1, F.lit(_PIECE_BYTES)).alias("data"))
        written = 0
        length = -1
        found: set[str] = set()
        with open(local, "wb") as out:
            for row in pieces.toLocalIterator():
                found.add(row.path)
                length = row.length
                out.seek(row.piece * _PIECE_BYTES)
                written += out.write(row.data)
    except PySparkException as error:
        raise IoError(f"{path}: {str(error).splitlines()[0]}") from error
    if len(found) != 1 or written != length:
        raise IoError(f"{path}: {len(found)} files, and {written} of {length} bytes, came; give the path of one filter "
                      "file")
