"""Rows of trace files, read one by one; gzip or not."""

from __future__ import annotations

import csv
import gzip
import os
import stat
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from moorage.errors import InputError
from moorage.kube.read.decode import UNREADABLE
from moorage.kube.read.files import source_name

_MOST_FIELD = 1 << 20
_MOST_LINE = 64 << 20
"""Characters. A file may have no end, and a small one may unpack to a line that fits into no memory."""


def open_text(path: str | Path) -> IO[str]:
    """Open a text file for reading; bytes that are no UTF-8 are replaced.

    Raises
    ------
    InputError
        The file cannot be opened, or is a device or a pipe, which cannot be read twice.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise InputError("not a file", source=source_name(str(path)))
        with open(path, "rb") as raw:
            is_packed = raw.read(2) == b"\x1f\x8b"
        opener: Any = gzip.open if is_packed else open
        file: IO[str] = opener(path, "rt", encoding="utf-8-sig", errors="replace", newline="")
        return file
    except OSError as error:
        message = "no such file" if isinstance(error, FileNotFoundError) else str(error.strerror)
        raise InputError(message, source=source_name(str(path))) from None


def lines(path: str | Path) -> Iterator[str]:
    """Iterate over the lines of a text file.

    Yields
    ------
    str
        Without its end.

    Raises
    ------
    InputError
        The file cannot be read.
    """
    with open_text(path) as file:
        try:
            while line := file.readline(_MOST_LINE):
                if len(line) == _MOST_LINE:
                    text = f"a line has {_MOST_LINE:,} characters or more"
                    raise InputError(text, source=source_name(str(path)))
                yield line.rstrip("\r\n")
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"cannot be read: {error}", source=source_name(str(path))) from None


def csv_rows(path: str | Path, columns: Sequence[str] = ()) -> Iterator[dict[str, str]]:
    """Iterate over the rows of a CSV file.

    Parameters
    ----------
    columns : sequence of str, optional
        Names of the columns of a file without a heading; by default the first row has them.

    Yields
    ------
    dict of str to str
        A value of a column that the row does not reach is "".

    Raises
    ------
    InputError
        The file cannot be read, or a row is no CSV.
    """
    reader = _reader(lines(path))
    names = list(columns)
    try:
        for row in reader:
            if not names:
                names = [name.strip() for name in row]
            elif row:
                yield dict(zip(names, row + [""] * (len(names) - len(row)), strict=False))
    except csv.Error as error:
        raise InputError(str(error), source=f"{source_name(str(path))}:{reader.line_num}") from None


def heading(path: str | Path) -> list[str]:
    """Return the values of the first row of a CSV file, if its first line is one.

    Returns
    -------
    list of str
        Empty for another file.
    """
    try:
        return [name.strip() for name in next(_reader([next(lines(path), "")]), [])]
    except csv.Error:
        return []


def _reader(rows: Iterable[str]) -> Any:
    csv.field_size_limit(_MOST_FIELD)
    return csv.reader(rows)


def json_rows(path: str | Path) -> Iterator[tuple[int, Any]]:
    """Iterate over the values of a file of JSON lines.

    Yields
    ------
    number : int
        Of the line, from 1 on.
    value : object
        The value; None where the line is no JSON, as the last one of a file that is still written.
    """
    decode = msgspec.json.Decoder().decode
    for number, line in enumerate(lines(path), 1):
        if line.strip():
            try:
                yield number, decode(line)
            except UNREADABLE:
                yield number, None


def map_of(value: Any) -> dict[str, Any]:
    """Return a JSON value that is a map; an empty map for another value."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """Return a JSON value that is a list; an empty list for another value."""
    return value if isinstance(value, list) else []


def number_of(text: str) -> float | None:
    """Return a field as a number; None for an empty field or one that is none.

    Returns
    -------
    float or None
        Finite.
    """
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 1e18 else None
