"""Tables: what results convert to for other libraries, and how they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from moorage._core.base.arrow_export import ArrowColumn, array_capsule, schema_capsule, stream_capsule

from .document import Document
from .errors import MoorageError, missing, printable

if TYPE_CHECKING:
    import pandas

Column = npt.NDArray[Any] | list[str | None] | list[str]
"""Numbers or truth values as an array, or texts as a list, with None for a missing one."""

ROWS, WIDTH, TEXT = 10, 110, 60
"""Rows, and characters of a line and of a prose cell, that a representation shows: one screen at most. A name
is never cut, but columns for which there is no room are left out."""
GAP = "  "


class Table:
    """Columns of one length.

    A table is passed to ``pyarrow.table``, ``polars.DataFrame``, DuckDB and others as it is: they read it
    through the Arrow PyCapsule interface.

    Parameters
    ----------
    columns : mapping of str to Column
        Texts become Arrow's large_string, integers int64, other numbers float64.

    Raises
    ------
    ValueError
        The columns differ in length.
    """

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.columns = dict(columns)
        if len({len(column) for column in self.columns.values()}) > 1:
            raise ValueError("the columns of a table have one length")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __reduce__(self) -> tuple[type[Table], tuple[dict[str, Column]]]:
        return Table, (self.columns,)

    def part(self, start: int, stop: int) -> Table:
        """Return some rows."""
        return Table({name: column[start:stop] for name, column in self.columns.items()})

    # ---- conversion ----------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the values of each column by its name."""
        return {name: column_values(column) for name, column in self.columns.items()}

    def to_pandas(self) -> pandas.DataFrame:
        """Return the table as a DataFrame.

        Raises
        ------
        MoorageError
            pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise MoorageError(missing("pandas")) from None
        return pandas.DataFrame(self.columns)

    @cached_property
    def _arrow(self) -> tuple[ArrowColumn, ...]:
        """The columns in the layout of Arrow."""
        return tuple([_arrow_column(name, column) for name, column in self.columns.items()])

    def __arrow_c_schema__(self) -> object:
        return schema_capsule(self._arrow)

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        # The protocol allows a producer of one schema to return that one.
        return schema_capsule(self._arrow), array_capsule(self._arrow)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return stream_capsule(self._arrow)

    # ---- representation ------------------------------------------------------------------------------------

    def _cells(self) -> list[list[str]]:
        """Return the texts of the first rows, each cell short enough to be shown."""
        columns = [column_values(column[:ROWS]) for column in self.columns.values()]
        return [[_shown(value) for value in row] for row in zip(*columns, strict=True)]

    def __repr__(self) -> str:
        """Return the first rows as aligned text; a last line says that there are more."""
        cells = [[name.upper() for name in self.columns], *self._cells()]
        columns, room = list[list[str]](), WIDTH
        for column in zip(*cells, strict=True):
            width = max(map(len, column))
            if columns and width > room:  # what is left out, as a whole column
                columns.append(["…"] * len(column))
                break
            columns.append([f"{cell:<{width}}" for cell in column])
            room -= width + len(GAP)
        lines = [GAP.join(row).rstrip() for row in zip(*columns, strict=True)]
        return "\n".join([*lines, "…"] if len(self) > ROWS else lines)

    def _repr_html_(self) -> str:
        from html import escape  # takes long to import, and only notebooks need it

        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self._cells()
        )
        after = "<p>…</p>" if len(self) > ROWS else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{after}"


class Tabular:
    """Base of results that convert to a table."""

    __slots__ = ()

    def headline(self) -> str:
        """Return what the result says, in one line."""
        raise NotImplementedError

    def remarks(self) -> list[str]:
        """Return what else the result says, a line each; nothing by default."""
        return []

    def table(self, limit: int | None = None) -> Table:
        """Return the result as a table.

        Parameters
        ----------
        limit : int, optional
            Number of rows, from the first on; by default all.
        """
        raise NotImplementedError

    def document(self) -> Document:
        """Return the result as its document."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a JSON value."""
        return self.document().to_dict()

    def to_arrow(self) -> Table:
        """Return the table of the result, which Arrow libraries read:
        ``pyarrow.table(result.to_arrow())``."""
        return self.table()

    def to_pandas(self) -> pandas.DataFrame:
        """Return the table of the result as a DataFrame.

        Raises
        ------
        MoorageError
            pandas is not installed.
        """
        return self.table().to_pandas()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        first = self.table(ROWS + 1)
        return "\n".join([self.headline(), *self.remarks(), *([repr(first)] if len(first) else [])])

    def _repr_html_(self) -> str:
        from html import escape

        first = self.table(ROWS + 1)
        lines = "".join(f"<p>{escape(line)}</p>" for line in (self.headline(), *self.remarks()))
        return lines + (first._repr_html_() if len(first) else "")


class TabularDocument(Document, Tabular, frozen=True):
    """A result that is its own document."""

    __repr__ = Tabular.__repr__

    def document(self) -> Self:
        """Return the result, which is its document."""
        return self


def rows_of(table: Table) -> list[dict[str, Any]]:
    """Return the rows of a table as JSON objects, without missing values."""
    names, columns = list(table.columns), list(table.to_dict().values())
    rows = zip(*columns, strict=True)
    return [
        {name: value for name, value in zip(names, row, strict=True) if value is not None} for row in rows
    ]


def column_values(column: Column) -> list[Any]:
    """Return the values of a column as Python objects."""
    values: list[Any] = column.tolist() if isinstance(column, np.ndarray) else list(column)
    return values


def _shown(value: Any) -> str:
    """Return a value as a cell shows it."""
    if value is None:
        return ""
    text = printable(f"{value:g}" if isinstance(value, float) else str(value))
    return text if len(text) <= TEXT or " " not in text else f"{text[: TEXT - 1]}…"


def _arrow_column(name: str, column: Column) -> ArrowColumn:
    """Return a column in the layout of Arrow."""
    if not isinstance(column, np.ndarray):
        return _arrow_text(name, column)
    if column.dtype == np.bool_:
        bits = np.packbits(column, bitorder="little")
        return ArrowColumn(name, "b", len(column), 0, (None, bits))
    kind = "l" if np.issubdtype(column.dtype, np.integer) else "g"
    values = np.ascontiguousarray(column, dtype=np.int64 if kind == "l" else np.float64)
    return ArrowColumn(name, kind, len(values), 0, (None, values.view(np.uint8)))


def _arrow_text(name: str, texts: list[str | None] | list[str]) -> ArrowColumn:
    """Return a column of texts in the layout of large_string: validity, int64 offsets, UTF-8."""
    encoded = [b"" if text is None else text.encode("utf-8", "replace") for text in texts]
    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    present = np.array([text is not None for text in texts], dtype=np.bool_)
    nulls = len(texts) - int(present.sum())
    validity = np.packbits(present, bitorder="little") if nulls else None
    data = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    return ArrowColumn(name, "U", len(texts), nulls, (validity, offsets.view(np.uint8), data))
