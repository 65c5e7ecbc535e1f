# SPDX-License-Identifier: Apache-2.0
"""The exceptions of scbf. All derive from :class:`Error`; most also from the built-in exception that
a Python programmer would expect. Each message names the value, the limit and the way out."""

import errno
import typing


class Error(Exception):
    """Base class of all exceptions of this package."""


class InvalidArgument(Error, ValueError):
    """An argument is outside its documented range. Nothing was changed."""


class InvalidKey(Error, TypeError):
    """Something that cannot be a key, such as a floating-point number. No key of a column in memory was
    inserted or removed; of an iterator's keys, those before the last 65,536 may have been."""


class Incompatible(Error, ValueError):
    """Two filters cannot be combined: geometry, seed or contents differ. Nothing was changed."""


class CorruptFile(Error, ValueError):
    """A file or a message is not a filter, is damaged, or has an unknown version."""


class IoError(Error, OSError):
    """The operating system refused an operation; the message gives path and reason.

    Where the system gave an error number, it is also the built-in exception for that number, such as
    FileNotFoundError, with ``errno`` and ``filename``.
    """

    def __str__(self) -> str:
        return str(self.args[0]) if len(self.args) == 1 else str(self.args[1])


class FileNotFound(IoError, FileNotFoundError):
    """There is no such file or folder."""


class PermissionDenied(IoError, PermissionError):
    """This user may not access the file or folder."""


class FileExists(IoError, FileExistsError):
    """The file or folder exists already."""


class IsADirectory(IoError, IsADirectoryError):
    """The path is a folder, and a file was expected."""


class NotADirectory(IoError, NotADirectoryError):
    """The path is a file, and a folder was expected."""


_BY_NUMBER = {
    errno.ENOENT: FileNotFound,
    errno.EACCES: PermissionDenied,
    errno.EPERM: PermissionDenied,
    errno.EEXIST: FileExists,
    errno.EISDIR: IsADirectory,
    errno.ENOTDIR: NotADirectory,
}


def _io_error(message: str, number: int, path: str) -> IoError:
    """What the extension module raises. number: 0 if there is none."""
    if number == 0:
        return IoError(message)
    return _BY_NUMBER.get(number, IoError)(number, message, path)


class BackendUnavailable(Error, RuntimeError):
    """The backend asked for does not exist or cannot run here; the message says why."""


class NotOnHost(Error, BufferError):
    """Direct access to counters was requested, but they are in the memory of a device."""


class ReadOnly(Error, PermissionError):
    """An operation would have changed a filter that is mapped, or an index open for reading only."""


class FilterFull(Error):
    """No stage has room, and none can be added.

    Attributes:
        processed: how many keys of the call were processed, nulls included; continue with the key at
            this index.
        inserted: how many of those were inserted.
        nulls: how many of those were null.
    """

    processed: int
    inserted: int
    nulls: int


class OverfullWarning(UserWarning):
    """A filter holds clearly more keys than it was made for, so that its false-positive rate is more than
    a quarter above the plan. Issued once per filter, after the keys have been inserted; for copies, unions and
    members of a bank, too. Of a loaded filter, the plan is known if the command built it; what scbf.spark builds
    for a capacity knows it."""


class KeyKindWarning(UserWarning):
    """A filter or bank that holds only numbers was asked for text, or the other way round, and none of it was found:
    5 and ``'5'`` are two keys. Issued once for each, if it is known what it holds: because it was made empty here, or
    built by the command, or, a filter, by scbf.spark. Bytes may be either. scbf.spark.contains() goes by the type of
    the column, before any job runs."""


class RemovalStopped(Error):
    """Memory, usually of a device, ran out in the middle of a removal.

    Attributes:
        processed: how many keys of the call were processed, nulls included; continue with the key at this
            index.
        removed, absent, ambiguous, nulls, kept: how many of those had each outcome.
    """

    processed: int
    removed: int
    absent: int
    ambiguous: int
    nulls: int
    kept: int


class KeysAbsent(Error, KeyError):
    """More keys of a removal were absent than ``most_absent`` allows. Nothing was changed.

    Attributes:
        removed, absent, ambiguous, nulls, kept: what the removal would have done.
    """

    removed: int
    absent: int
    ambiguous: int
    nulls: int
    kept: int

    __str__ = Exception.__str__  # KeyError's would put the message in quotes


class MembersFull(FilterFull):
    """Some members of a bank had no room for all their keys.

    Attributes:
        left: from insert_each() only: ascending indices of the keys that were not inserted. Insert these again once
            there is room; ``processed`` and ``batch`` mean nothing in this case. Otherwise None.
    """

    batch: int
    left: typing.Any = None


class DeviceError(Error, RuntimeError):
    """The CUDA runtime reported an error. The filter is still usable; if the call was part of a batch that
    changes counters, they may hold any of its keys."""


class OutOfDeviceMemory(DeviceError, MemoryError):
    """The device has too little memory; the message says how much was needed and how much is free. Nothing
    was changed."""


class DeviceLost(DeviceError):
    """The device failed in a way that ends all work with it in this process. The filters there are lost."""
