# SPDX-License-Identifier: Apache-2.0
"""Filters and banks on any file system that Hadoop reaches: hdfs, s3a, abfs, gs, file.

A file there is a filter file like any other: ``scbf info`` reads a copy, and ``BloomFilter.map`` maps one. A file on
the driver's own file system is written and read where it lies. Others pass through a temporary file on the driver,
which the JVM copies, so there is no limit of 2 GiB.
"""

from __future__ import annotations

import errno
import functools
import os
import posixpath
import re
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any, TypeVar, overload
from urllib.parse import unquote, urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scbf import Bank, BloomBank, BloomFilter, Filter, read_file_info
from scbf.errors import CorruptFile, InvalidArgument, IoError, _io_error
from scbf.spark.arguments import check_filter
from scbf.spark.bank import GroupBank, is_labelled
from scbf.spark.sessions import is_connect, session

# Pieces of a file that comes through Spark Connect, which limits messages to 128 MiB.
_PIECE_BYTES = 16 << 20

# What can be saved. A GroupBank is saved as the bank that it is, with its groups in the members' metadata.
_Saved = Filter | BloomFilter | Bank | BloomBank
_T = TypeVar("_T")


def save(filter: _Saved | GroupBank, path: str | os.PathLike[str], *, compress: bool = True,
         spark: SparkSession | None = None) -> None:
    """Writes a file of a filter or of a bank to a path of a Hadoop file system.

    An existing file is replaced by renaming a complete one: readers find the old file or the new one, and an error
    leaves the old one. The rename is atomic on the driver's own file system (file) and on hdfs. Elsewhere, as on
    object stores and abfs, the old file is deleted first: a reader at that moment finds none, and if the driver dies
    then, or the rename fails, only the complete new file is left, under another name (``.scbf-….tmp``). The error of
    a failed rename gives that name.

    Spark Connect has no rename: the server writes to the path itself. A reader meanwhile finds a part of the file,
    which is refused as damaged, and an error may leave such a part in place of the old file. There, save each version
    to a new path.

    Args:
        filter: counters, bits, a bank of either, or what bank() made, whose groups are noted in its members' metadata.
        path: ``hdfs://…``, ``s3a://…``, …; without a scheme, or as a pathlib.Path, on the default file system.
            Through Spark Connect it must be absolute and without a scheme. Missing folders are made.
        compress: make the file smaller, unless the filter is half full; ``False`` if it is to be mapped or shared.
        spark: by default the active session, or the default one.
    Raises:
        IoError: if the file system refuses; IsADirectory, for example, if the path is a folder.
        InvalidArgument: for anything else, and as GroupBank.labelled().
    """
    check_filter(filter, (Filter, BloomFilter, Bank, BloomBank, GroupBank),
                 "a Filter, a BloomFilter, a Bank, a BloomBank or a GroupBank")
    name = _name(path)
    spark = session(spark)
    saved = filter.labelled() if isinstance(filter, GroupBank) else filter
    if is_connect(spark):
        _save_through_connect(spark, saved, name, compress)
        return
    system, target = _resolved(spark, name)
    local = _local(system, target, name)
    if local is not None:
        _save_locally(saved, local, compress)
        return
    if _is_folder(system, target, name):
        raise _is_a_folder(name)
    with tempfile.TemporaryDirectory(prefix="scbf-") as folder:
        complete = Path(folder) / "filter.scbf"
        saved.save(complete, compress=compress)
        _upload(spark, system, complete, target, name)


@overload
def load(path: str | os.PathLike[str], *, kind: type[Filter], spark: SparkSession | None = ...) -> Filter: ...
@overload
def load(path: str | os.PathLike[str], *, kind: type[BloomFilter], spark: SparkSession | None = ...) -> BloomFilter: ...
@overload
def load(path: str | os.PathLike[str], *, kind: None = ...,
         spark: SparkSession | None = ...) -> Filter | BloomFilter: ...
def load(path: str | os.PathLike[str], *, kind: type[Filter] | type[BloomFilter] | None = None,
         spark: SparkSession | None = None) -> Filter | BloomFilter:
    """The filter of a file on a Hadoop file system, verified. Through Spark Connect it must be below 2 GiB.

    Args:
        path, spark: as in save(); through Spark Connect, the path may have a scheme.
        kind: ``Filter`` or ``BloomFilter``, if it must be one; None for whichever the file has.
    Raises:
        IoError: if the file system refuses; FileNotFound if there is no such file, IsADirectory if it is a folder.
        CorruptFile: if the file is no filter, or is damaged.
        InvalidArgument: if it is a delta or a bank, or a filter of the other kind.
    """
    if kind not in (None, Filter, BloomFilter):
        raise InvalidArgument(f"kind {kind!r}: must be scbf.Filter or scbf.BloomFilter")
    return _loaded(path, spark, functools.partial(_filter_of, wanted=kind))


def load_bank(path: str | os.PathLike[str], *, spark: SparkSession | None = None) -> Bank | BloomBank | GroupBank:
    """Like load(), for banks of counters or of bits. What bank() made comes back with its groups, as a GroupBank.

    Raises:
        InvalidArgument: if it is no bank; otherwise as load().
    """
    return _loaded(path, spark, _bank_of)


def _loaded(path: str | os.PathLike[str], spark: SparkSession | None, read: Callable[[Path, str], _T]) -> _T:
    """What ``read`` makes of the file, which it finds on the driver. Errors name the path that the caller gave."""
    name = _name(path)
    spark = session(spark)
    if not is_connect(spark):
        system, source = _resolved(spark, name)
        local = _local(system, source, name)
        if local is not None:
            return _read(local, name, read)
    with tempfile.TemporaryDirectory(prefix="scbf-") as folder:
        copy = Path(folder) / "filter.scbf"
        if is_connect(spark):
            _download_through_connect(spark, name, copy)
        else:
            _download(spark, system, source, copy, name)
        return _read(copy, name, read)


def _filter_of(local: Path, name: str, wanted: type | None) -> Filter | BloomFilter:
    kind = read_file_info(local).kind
    if kind == "delta":
        raise InvalidArgument(f"{name}: is a delta, not a filter: apply it to the filter that it belongs to")
    if kind in ("bank", "bits_bank"):
        raise InvalidArgument(f"{name}: is a bank, not a filter: load it by load_bank()")
    if kind == "counters" and wanted is BloomFilter:
        raise InvalidArgument(f"{name}: has counters: load it as a Filter, and take BloomFilter.of() it")
    if kind == "bits" and wanted is Filter:
        raise InvalidArgument(f"{name}: has only bits: load it as a BloomFilter, or the file of the Filter that they "
                              "came from")
    return (Filter if kind == "counters" else BloomFilter).load(local)


def _bank_of(local: Path, name: str) -> Bank | BloomBank | GroupBank:
    kind = read_file_info(local).kind
    if kind not in ("bank", "bits_bank"):
        what = "is a delta" if kind == "delta" else "is a filter, not a bank: load it by load()"
        raise InvalidArgument(f"{name}: {what}")
    bank = Bank.load(local) if kind == "bank" else BloomBank.load(local)
    return GroupBank.of(bank) if is_labelled(bank) else bank


def _name(path: Any) -> str:
    """The path as a string. Raises InvalidArgument."""
    name = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"path {path!r}: must be a string that is not empty, or a pathlib.Path")
    if isinstance(path, PurePath) and re.match(r"[A-Za-z][\w+.-]*:/", name):
        raise InvalidArgument(f"path {path!r}: a pathlib.Path makes one slash of the two of a scheme: give a string")
    return name


def _read(local: Path, name: str, read: Callable[[Path, str], _T]) -> _T:
    try:
        return read(local, name)
    except CorruptFile as error:
        raise CorruptFile(_renamed(str(error), local, name)) from None
    except IoError as error:
        raise _io_error(_renamed(str(error), local, name), error.errno or 0, name) from None


def _renamed(message: str, local: Path, name: str) -> str:
    """The message with the caller's name of the file."""
    shown = f"'{local}'"
    return message.replace(shown, f"'{name}'") if shown in message else f"'{name}': {message}"


# ---- Spark Classic: the driver's own file system --------------------------------------------------


def _local(system: Any, target: Any, name: str) -> Path | None:
    """Where the file lies, if that is on the driver's own file system."""
    try:
        if system.getUri().getScheme() != "file":
            return None
        return Path(system.makeQualified(target).toUri().getPath())
    except Exception as error:
        raise _java_error(name, error) from error


def _save_locally(filter: _Saved, local: Path, compress: bool) -> None:
    if not local.name:  # the root
        raise _is_a_folder(str(local))
    try:
        local.parent.mkdir(parents=True, exist_ok=True)
        # Hadoop's checksums of an old file, by which it would find the new one damaged.
        local.with_name(f".{local.name}.crc").unlink(missing_ok=True)
    except OSError as error:
        path = str(error.filename or local)
        raise _io_error(f"'{path}': {error.strerror}", error.errno or 0, path) from error
    filter.save(local, compress=compress)


# ---- Spark Classic: the JVM's file systems -------------------------------------------------------


def _hadoop(spark: SparkSession) -> tuple[Any, Any]:
    """The packages of Hadoop, and the configuration of the session."""
    jvm: Any = spark.sparkContext._jvm
    java_session: Any = spark._jsparkSession
    return jvm.org.apache.hadoop.fs, java_session.sessionState().newHadoopConf()


def _resolved(spark: SparkSession, name: str) -> tuple[Any, Any]:
    """The file system of a path, and Hadoop's Path."""
    fs, configuration = _hadoop(spark)
    try:
        path = fs.Path(name)
        return path.getFileSystem(configuration), path
    except Exception as error:
        raise _java_error(name, error) from error


def _java_path(spark: SparkSession, local: Path) -> Any:
    """Hadoop's Path of a local file. The constructor of one string would take "a:b" for a scheme and keep "%20"."""
    return _hadoop(spark)[0].Path("file", None, str(local))


def _is_folder(system: Any, path: Any, name: str) -> bool:
    try:
        return system.exists(path) and system.getFileStatus(path).isDirectory()
    except Exception as error:
        raise _java_error(name, error) from error


def _upload(spark: SparkSession, system: Any, complete: Path, target: Any, name: str) -> None:
    fs, _ = _hadoop(spark)
    replaces, kept = False, ""
    try:
        # Without the file's name, which may have a colon: Hadoop would take what precedes that for a scheme.
        beside = fs.Path(target.getParent(), f".scbf-{uuid.uuid4().hex}.tmp")
        try:
            # delete the source: no; overwrite: yes
            system.copyFromLocalFile(False, True, _java_path(spark, complete), beside)
            replaces = system.exists(target)
            _rename_over(spark, system, beside, target)
        except BaseException as error:
            if replaces and not system.exists(target):
                kept = f": the old file is gone; the complete new one is {beside.toString()}: rename it, or save again"
                error.add_note(name + kept)  # Ctrl-C is raised as it is
            else:
                system.delete(beside, False)
            raise
    except Exception as error:
        raise _java_error(name, error, kept) from error


def _rename_over(spark: SparkSession, system: Any, source: Any, target: Any) -> None:
    """Renames a file over another, in one step if the file system can. The old one may be gone after an error."""
    fs, configuration = _hadoop(spark)
    gateway: Any = spark.sparkContext._gateway
    options: Any = getattr(gateway.jvm, "org.apache.hadoop.fs.Options$Rename")
    overwrite = gateway.new_array(options, 1)
    overwrite[0] = options.OVERWRITE
    qualified = system.makeQualified(target)
    try:
        context = fs.FileContext.getFileContext(qualified.toUri(), configuration)
    except Exception as error:
        if _java_class(error) != "org.apache.hadoop.fs.UnsupportedFileSystemException":
            raise
        # The scheme has only a FileSystem, whose rename() does not replace.
        system.delete(target, False)
        if not system.rename(source, target):
            raise RuntimeError("the new file could not be renamed to it") from None
    else:
        context.rename(system.makeQualified(source), qualified, overwrite)


def _download(spark: SparkSession, system: Any, source: Any, local: Path, name: str) -> None:
    try:
        folder = system.getFileStatus(source).isDirectory()
        if not folder:
            # delete the source: no; without checksum files beside the copy: yes
            system.copyToLocalFile(False, source, _java_path(spark, local), True)
    except Exception as error:
        raise _java_error(name, error) from error
    if folder:
        raise _is_a_folder(name)


_NUMBERS = {
    "java.io.FileNotFoundException": errno.ENOENT,
    "java.nio.file.NoSuchFileException": errno.ENOENT,
    "java.nio.file.AccessDeniedException": errno.EACCES,
    "org.apache.hadoop.fs.FileAlreadyExistsException": errno.EEXIST,
    "org.apache.hadoop.fs.ParentNotDirectoryException": errno.ENOTDIR,
    "org.apache.hadoop.security.AccessControlException": errno.EACCES,
}


def _java_class(error: Exception) -> str:
    """The class of the JVM's exception; empty for one of Python."""
    java: Any = getattr(error, "java_exception", None)
    return "" if java is None else str(java.getClass().getName())


def _java_error(name: str, error: Exception, more: str = "") -> IoError:
    """What the JVM said, in one line."""
    java: Any = getattr(error, "java_exception", None)
    reason = java.toString() if java is not None else str(error)
    number = _NUMBERS.get(_java_class(error), 0)
    return _io_error(f"{name}: {(reason or type(error).__name__).splitlines()[0]}{more}", number, name)


def _is_a_folder(name: str) -> IoError:
    return _io_error(f"{name}: is a folder: give the path of one filter file", errno.EISDIR, name)


# ---- Spark Connect: what its protocol offers -----------------------------------------------------


def _save_through_connect(spark: SparkSession, filter: _Saved, name: str, compress: bool) -> None:
    if "://" in name or not name.startswith("/"):
        raise InvalidArgument(f"{name}: through Spark Connect, a filter is saved to an absolute path without a scheme, "
                              "on the server's default file system; or save it with Filter.save() and copy it")
    try:
        _file(spark, name)  # into a folder, the server would write a file of the folder's name
    except FileNotFoundError:
        pass
    with tempfile.TemporaryDirectory(prefix="scbf-") as folder:
        complete = Path(folder) / "filter.scbf"
        filter.save(complete, compress=compress)
        try:
            spark.copyFromLocalToFs(str(complete), name)
        except Exception as error:  # those of gRPC, too
            raise _connect_error(name, error) from error


def _file(spark: SparkSession, name: str) -> DataFrame:
    """A frame of the one file of this name.

    Raises FileNotFound if there is none, and IsADirectory if it is a folder.
    """
    if posixpath.basename(name).startswith(("_", ".")):
        raise InvalidArgument(f"{name}: through Spark Connect, files whose names begin with '_' or '.' cannot be read: "
                              "choose another name")
    literal = re.sub(r"([\\{}\[\]*?])", r"\\\1", name)  # no pattern
    try:
        files = spark.read.format("binaryFile").load(literal)
        found = [unquote(urlsplit(file).path) for file in files.inputFiles()]
    except PySparkException as error:
        raise _connect_error(name, error) from error
    # Of a folder, these are the files in it, and none if it is empty.
    path = re.sub(r"^//+", "/", posixpath.normpath(re.sub(r"^[A-Za-z][\w+.-]*:(//[^/]*)?", "", name)))
    if len(found) != 1 or not (found[0] == path or not path.startswith("/") and found[0].endswith("/" + path)):
        raise _is_a_folder(name)
    return files


def _download_through_connect(spark: SparkSession, name: str, local: Path) -> None:
    files = _file(spark, name)
    try:
        begins = F.explode(F.sequence(F.lit(0), F.floor((F.length("content") - 1) / _PIECE_BYTES).cast("int")))
        pieces = files.select("length", "content", begins.alias("piece")).select(
            "length", F.col("piece"),
            F.substring("content", F.col("piece") * _PIECE_BYTES + 1, F.lit(_PIECE_BYTES)).alias("data"))
        written = 0
        length = 0
        with open(local, "wb") as out:
            for row in pieces.toLocalIterator():
                length = row.length
                out.seek(row.piece * _PIECE_BYTES)
                written += out.write(row.data)
    except PySparkException as error:
        raise _connect_error(name, error) from error
    if written != length:
        raise IoError(f"{name}: {written} of {length} bytes came; was the file replaced meanwhile?")


def _connect_error(name: str, error: Exception) -> IoError:
    """What the server said, in one line."""
    missing = isinstance(error, PySparkException) and error.getCondition() == "PATH_NOT_FOUND"
    details: Any = getattr(error, "details", None)  # of gRPC
    reason = details() if callable(details) else str(error)
    message = f"{name}: {(reason or type(error).__name__).splitlines()[0]}"
    return _io_error(message, errno.ENOENT if missing else 0, name)
