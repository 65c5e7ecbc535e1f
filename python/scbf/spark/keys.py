# SPDX-License-Identifier: Apache-2.0
"""Which columns of a data frame can be keys. Checked before any job runs.

The rules are those of the package: integers of all widths, strings and binary. Equal keys are equal whatever
column they come in, so a filter built here answers for NumPy, Arrow and Python, and the other way round.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from scbf.errors import InvalidArgument, InvalidKey
from scbf.spark.sessions import check_running

_KEYS = (T.IntegralType, T.StringType, T.CharType, T.VarcharType, T.BinaryType, T.NullType)

# The first that fits counts.
_WAYS_OUT: list[tuple[type[T.DataType], str]] = [
    (T.BooleanType, "true and false are no keys; was a condition given for the column?"),
    (T.DecimalType, "cast it to string or to bigint, the same for all data of a filter"),
    (T.FractionalType, "floating-point numbers cannot be keys: round them to bigint"),
    (T.DateType, "use unix_date() of it, for all data of a filter"),
    (T.TimestampType, "use unix_micros() of it, for all data of a filter"),
    (T.TimestampNTZType, "cast it to timestamp and use unix_micros() of that, for all data of a filter"),
    (T.ArrayType, "explode() it first"),
    (T.MapType, "choose one of its values"),
    (T.StructType, "choose one of its fields, or use xxhash64() of several"),
]


def is_binary_string(data_type: T.DataType) -> bool:
    """Is it a string type whose values are equal only if their bytes are?"""
    return not isinstance(data_type, T.StringType) or data_type.isUTF8BinaryCollation()


def kind_of(data_type: T.DataType) -> str | None:
    """What the keys of a column are: "numbers", "text" or "bytes"; None if all are null."""
    if isinstance(data_type, T.IntegralType):
        return "numbers"
    if isinstance(data_type, (T.StringType, T.CharType, T.VarcharType)):
        return "text"
    return "bytes" if isinstance(data_type, T.BinaryType) else None


def check_key_type(name: str, data_type: T.DataType) -> None:
    """Raises InvalidKey, with the way out, for a type that cannot be keys."""
    shown = data_type.simpleString()
    if not is_binary_string(data_type):
        raise InvalidKey(f"column {name} of type {shown} cannot be keys: equal strings have different bytes; "
                         "use collation_key() of it")
    if isinstance(data_type, _KEYS):
        return
    for refused, way_out in _WAYS_OUT:
        if isinstance(data_type, refused):
            raise InvalidKey(f"column {name} of type {shown} cannot be keys: {way_out}")
    raise InvalidKey(f"column {name} of type {shown} cannot be keys: cast it to bigint, string or binary")


def column(name: str, value: str | Column) -> Column:
    """The column of this name, or the expression itself. Raises InvalidArgument if it is neither."""
    if not isinstance(value, (str, Column)):
        raise InvalidArgument(f"{name} {value!r}: must be the name of a column, or an expression")
    return F.col(value) if isinstance(value, str) else value


def check_frame(df: DataFrame) -> None:
    """Raises InvalidArgument unless it is a data frame of a session that runs."""
    if not isinstance(df, DataFrame):
        raise InvalidArgument(f"data frame {df!r}: must be a pyspark.sql.DataFrame")
    check_running(df.sparkSession)


def key_frame(df: DataFrame, key: str | Column) -> DataFrame:
    """A frame of one column, ``key``, whose values can be keys.

    Raises:
        InvalidKey: if they cannot.
        InvalidArgument: if ``df`` is no data frame, or ``key`` no column.
    """
    check_frame(df)
    chosen = df.select(column("key", key))
    if len(chosen.columns) != 1:
        raise InvalidKey(f"keys are one column, and this has {len(chosen.columns)} ({', '.join(chosen.columns)}): "
                         "choose one, or use xxhash64() of several")
    field = chosen.schema.fields[0]
    check_key_type(field.name, field.dataType)
    return chosen.toDF("key")


def all_keys(df: DataFrame, key: str | Column) -> DataFrame:
    """key_frame() of a frame that has an end. Raises InvalidArgument for a streaming one."""
    keys = key_frame(df, key)
    if df.isStreaming:
        raise InvalidArgument("a filter is built of all rows, and a streaming data frame has no end: use "
                              "foreachBatch, and scbf.spark.update() in it")
    return keys
