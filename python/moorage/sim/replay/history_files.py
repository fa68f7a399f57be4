"""Writes histories to files: Parquet where pyarrow is installed, CSV otherwise."""

from __future__ import annotations

import csv
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from moorage.errors import InputError, MoorageError, missing
from moorage.kube.read.files import source_name
from moorage.table import Table

ROWS = 1 << 17
"""Rows of a table that are in memory at a time."""
Part = Callable[[int, int], Table]


def write_table(folder: Path, name: str, rows: int, part: Part, format: str) -> Path:
    """Write a table in pieces.

    Parameters
    ----------
    name : str
        Of the file, without the suffix.
    rows : int
        Length of the table.
    part : callable
        Returns the rows of a range.
    format : {"auto", "parquet", "csv"}

    Raises
    ------
    InputError
        The file cannot be written.
    MoorageError
        Parquet is asked for, and pyarrow is not installed.
    """
    has_arrow = find_spec("pyarrow") is not None
    if format == "parquet" and not has_arrow:
        raise MoorageError(missing("pyarrow"))
    if format not in ("auto", "parquet", "csv"):
        raise InputError(f'must be auto, parquet or csv, not "{format}"', path="format")
    is_parquet = format == "parquet" or (format == "auto" and has_arrow)
    path = folder / f"{name}.{'parquet' if is_parquet else 'csv'}"
    starts = range(0, max(rows, 1), ROWS)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write = _write_parquet if is_parquet else _write_csv
        write(path, [lambda at=at: part(at, at + ROWS) for at in starts])  # type: ignore[misc]
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", source=source_name(str(path))) from None
    return path


def _write_csv(path: Path, parts: list[Callable[[], Table]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for number, part in enumerate(parts):
            columns = part().to_dict()
            if not number:
                writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))


def _write_parquet(path: Path, parts: list[Callable[[], Table]]) -> None:
    import pyarrow
    from pyarrow import parquet

    writer: Any = None
    for part in parts:
        table = pyarrow.table(part())
        if writer is None:
            writer = parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()
