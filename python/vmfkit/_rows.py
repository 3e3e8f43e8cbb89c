"""Converts arrays, sparse matrices, columns of lists and file names to the form that the extension module takes."""

from __future__ import annotations

import numbers
import os
import warnings
from typing import Any, NamedTuple

import numpy as np

from . import _vmfkit


class Rows(NamedTuple):
    """Rows for the extension module, with their shape."""

    # A C-contiguous array, (starts, columns, values, dim) for sparse rows, or (names, options) for files.
    argument: Any
    # None for files.
    length: int | None
    dim: int | None

    @property
    def is_files(self) -> bool:
        return self.dim is None


class Files:
    """Files of rows with options for reading them, accepted wherever rows are.

    Parameters
    ----------
    *locations : str or path
        Files, folders or patterns.
    columns : str or list of str, optional
        The columns that are the coordinates, or the column of lists.
    weight_column : str, optional
        The column of weights.
    array : str, optional
        The array to read from .npz and .safetensors files.
    angles : str, optional
        Read rows as angles, such as "lat,lon" (see `vmfkit.angles`), from columns of these names or from `columns`.
    format : str, optional
        "csv", "parquet" and so on, if it cannot be detected from the name and the first bytes.
    header : bool, optional
        Whether the first line of a CSV file names the columns.
    """

    def __init__(
        self,
        *locations: str | os.PathLike[str],
        columns: list[str] | str | None = None,
        weight_column: str | None = None,
        array: str | None = None,
        angles: str | None = None,
        format: str | None = None,
        header: bool | None = None,
    ) -> None:
        if not locations:
            raise ValueError("at least one file is required, found: `0`")
        self.locations = [os.fspath(location) for location in locations]
        columns = [columns] if isinstance(columns, str) else columns
        options = {
            "columns": columns,
            "weight_column": weight_column,
            "array": array,
            "angles": angles,
            "format": format,
            "header": header,
        }
        self.options = {name: value for name, value in options.items() if value is not None}

    def __repr__(self) -> str:
        arguments = [repr(location) for location in self.locations]
        return f"Files({', '.join(arguments + [f'{name}={value!r}' for name, value in self.options.items()])})"


def is_path(rows: Any) -> bool:
    """Whether `rows` is one or several names of files, folders or patterns."""
    if isinstance(rows, (str, os.PathLike, Files)):
        return True
    return isinstance(rows, (list, tuple)) and len(rows) > 0 and all(isinstance(row, (str, os.PathLike)) for row in rows)


def _check_names(names: list[str]) -> None:
    """Raises if no string looks like a file name: texts were passed instead of embeddings."""
    known = (os.path.exists(name) or "://" in name or any(mark in name for mark in "*?[") for name in names)
    texts = any(" " in name.strip() for name in names) or not any(mark in name for mark in "./\\" for name in names)
    if texts and not any(known):
        raise FileNotFoundError(
            f"strings are read as file names, but there is no file `{shown(names[0])}`. "
            "If they are texts, pass their embeddings, an array with one row per text."
        )


def shown(text: str) -> str:
    """The beginning of a string, for messages."""
    return text if len(text) <= 60 else text[:57] + "..."


def is_column(rows: Any) -> bool:
    """Whether `rows` is a pyarrow, pandas or polars column of lists, or a table with only such a column."""
    return _column_of(rows) is not None


def _column_of(rows: Any) -> Any:
    # Older pandas versions lack the Arrow interface.
    known = hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__") or type(rows).__module__.split(".")[0] == "pandas"
    if not known:
        return None
    names = getattr(rows, "column_names", getattr(rows, "columns", None))
    if names is None:
        return rows
    names = list(names)
    firsts = {name: _first(rows[name]) for name in names} if len(set(names)) == len(names) else {}
    lists = [name for name, first in firsts.items() if np.ndim(first) == 1]
    if len(names) == 1 and lists:
        return rows[names[0]]
    # numpy converts a table of numbers.
    others = [name for name, first in firsts.items() if name not in lists and not _is_number(first)]
    if lists:
        which = f"pass it alone, table[{lists[0]!r}]" if len(lists) == 1 else f"pass one of {lists} alone, as table[{lists[0]!r}]"
        raise ValueError(f"a table must have coordinates only, or one column of lists: {which}. Columns found: `{_listed(names)}`")
    if others:
        coordinates = [name for name in names if name not in others]
        hint = f": pass table[{_listed(coordinates)}]" if coordinates else ", or one column of lists"
        raise ValueError(f"a table must have coordinates only{hint}. Columns that have no numbers: `{_listed(others)}`")
    return None


def _first(column: Any) -> Any:
    """The first entry that is not None."""
    for entry in column:
        entry = entry.as_py() if hasattr(entry, "as_py") else entry
        if entry is not None:
            return entry
    return None


def _is_number(entry: Any) -> bool:
    return entry is None or isinstance(entry, (numbers.Number, np.bool_))


def _listed(names: list[Any]) -> str:
    return str(names) if len(names) <= 8 else f"[{', '.join(map(repr, names[:6]))}, ..., {names[-1]!r}]"


def as_numbers(values: Any, name: str) -> np.ndarray:
    """Converts numbers to float64. Strings, booleans and dates, which numpy would also convert, raise TypeError."""
    array = np.asarray(values)
    kind = array.dtype.kind
    if kind == "O":
        right = all(isinstance(value, numbers.Real) and not isinstance(value, bool) for value in array.flat)
    else:
        # numpy treats dtypes such as bfloat16 as void.
        right = kind in "iuf" or (kind == "V" and array.dtype.names is None and np.can_cast(array.dtype, np.float64, "same_kind"))
    if not right:
        what = type(values).__name__ if array.ndim == 0 else f"array of {array.dtype}"
        raise TypeError(f"{name} must be numbers, found: `{what}`")
    return array.astype(np.float64, copy=False)


def as_rows(rows: Any, *, normalize: bool = False) -> Rows:
    """Converts a 2-d array, a scipy sparse matrix, a column of lists of pyarrow, pandas or polars, or file names.

    C-contiguous float32 and float64 arrays are not copied.
    """
    if is_path(rows):
        if not isinstance(rows, Files):
            rows = Files(*([rows] if isinstance(rows, (str, os.PathLike)) else rows))
            _check_names(rows.locations)
        return Rows((rows.locations, {"normalize": normalize, **rows.options}), None, None)
    if hasattr(rows, "tocsr"):
        return _of_sparse(rows)
    if normalize:
        warn_of_angles(rows)
    array = _as_array(rows)
    if array.ndim != 2:
        raise ValueError(f"rows must have two axes, rows and coordinates, found shape: `{array.shape}`")
    length, dim = array.shape
    return Rows(array, length, dim)


def warn_of_angles(table: Any) -> None:
    """Warns if the columns look like angles, which must not be normalised as coordinates."""
    names = getattr(table, "column_names", getattr(table, "columns", None))
    kind = None if names is None else _vmfkit.guess_angles([str(name) for name in names])
    if kind is not None:
        warnings.warn(
            f"the columns look like angles, but are read as coordinates. Convert them with vmfkit.angles.to_unit({kind!r}, ...)",
            UserWarning,
            stacklevel=2,
        )


def _as_array(rows: Any) -> np.ndarray:
    if not isinstance(rows, np.ndarray):
        column = _column_of(rows)
        rows = rows if column is None else _of_column(column)
    if np.iscomplexobj(rows):
        raise ValueError("Complex data not supported")
    rows = np.asarray(rows)
    refuse_texts(rows)
    wanted = np.float32 if rows.dtype.kind == "f" and rows.dtype.itemsize <= 4 else np.float64
    return np.require(rows, wanted, ["C_CONTIGUOUS", "ALIGNED"])


def refuse_texts(rows: Any) -> None:
    """Raises for strings, with a hint that numpy's own error lacks."""
    if isinstance(rows, (list, tuple)):
        first = rows
        while isinstance(first, (list, tuple)) and first:
            first = first[0]
        rows = np.asarray(first)
    if not isinstance(rows, np.ndarray):
        return
    if rows.dtype.kind in "US" or (rows.dtype.kind == "O" and rows.size and isinstance(rows.flat[0], str)):
        text = shown(str(rows.flat[0])) if rows.size else ""
        raise ValueError(f"rows must be numbers, found text: `{text}`. Pass the embeddings of texts.")


def _of_column(column: Any) -> np.ndarray:
    """A column of lists as one array."""
    try:
        import pyarrow as pa
    except ImportError:
        return np.stack([np.asarray(row) for row in column])
    if hasattr(column, "__arrow_c_stream__"):
        column = pa.chunked_array(column)
    elif not isinstance(column, pa.ChunkedArray):
        column = pa.chunked_array([pa.array(column)])
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view":
        text = shown(str(column[0])) if len(column) else ""
        raise ValueError(f"a column of rows must have lists of numbers, found text: `{text}`. Pass the column of embeddings.")
    if not (pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        raise ValueError(f"a column of rows must have lists of numbers, found: `{kind}`")
    if len(column) == 0:
        raise ValueError("there must be a row, found: `0`")
    return np.concatenate([_of_list_array(pa, chunk) for chunk in column.chunks if len(chunk)])


def _of_list_array(pa: Any, chunk: Any) -> np.ndarray:
    if chunk.null_count:
        raise ValueError(f"rows must not be null, null rows: `{chunk.null_count}`")
    lengths = [chunk.type.list_size] if pa.types.is_fixed_size_list(chunk.type) else chunk.value_lengths().unique().to_pylist()
    if len(lengths) != 1:
        raise ValueError(f"rows must be lists of equal length, found lengths: `{lengths}`")
    values = chunk.flatten()
    if values.null_count:
        raise ValueError(f"coordinates must not be null, null coordinates: `{values.null_count}`")
    return values.to_numpy(zero_copy_only=False).reshape(-1, lengths[0])


def _of_sparse(rows: Any) -> Rows:
    matrix = rows.tocsr()
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if np.iscomplexobj(matrix):
        raise ValueError("Complex data not supported")
    values = matrix.data if matrix.data.dtype in (np.float32, np.float64) else matrix.data.astype(np.float64)
    starts = matrix.indptr.astype(np.uintp)
    columns = np.ascontiguousarray(matrix.indices, np.int32).view(np.uint32)
    length, dim = matrix.shape
    return Rows((starts, columns, np.ascontiguousarray(values), dim), length, dim)


def as_weights(weights: Any, length: int | None) -> np.ndarray | None:
    """Row weights as an array, or None."""
    if weights is None:
        return None
    if np.ndim(weights) == 0:
        if length is None:
            raise ValueError(f"weights of files must be an array with one weight per row, found: `{weights}`")
        weights = np.full(length, weights, np.float64)
    weights = np.ascontiguousarray(weights, np.float64)
    if weights.ndim != 1:
        raise ValueError(f"weights must have one axis, found shape: `{weights.shape}`")
    return weights


def as_generator(seed: Any) -> Any:
    """The generator for a seed; None is numpy's global generator."""
    if seed is None:
        return np.random.mtrand._rand
    if isinstance(seed, (int, np.integer)):
        return np.random.RandomState(seed)
    if isinstance(seed, (np.random.Generator, np.random.RandomState)):
        return seed
    raise ValueError(f"{seed!r} cannot be used to seed a numpy.random.RandomState instance")


def as_seed(random_state: Any) -> int:
    """An integer seed drawn from None, an integer, a RandomState or a Generator; an integer stands for the RandomState it seeds."""
    generator = as_generator(random_state)
    if isinstance(generator, np.random.Generator):
        return int(generator.integers(2**63))
    return int(generator.randint(2**63, dtype=np.int64))
