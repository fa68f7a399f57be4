"""Tables convert to Arrow, pandas and dicts, and fit on a screen."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any

import nanoarrow
import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.errors import MoorageError
from moorage.table import ArrowColumn, Table, Tabular, rows_of


def example() -> Table:
    return Table(
        {
            "pod": ["a", None, "ü\n"],
            "node": ["x", "y", ""],
            "count": np.array([1, 2, -3], dtype=np.int32),
            "share": np.array([0.5, 1.0, 2.0]),
            "fits": np.array([True, False, True]),
        }
    )


def html(shown: Table | Tabular) -> str:
    return shown._repr_html_()


def columns(read: nanoarrow.Array) -> dict[str, list[Any]]:
    rows = read.to_pylist()
    return {field.name: [row[field.name] for row in rows] for field in read.schema.fields}


TYPES = ["large_string", "large_string", "int64", "double", "bool"]


def test_arrow_reads_the_stream() -> None:
    read = nanoarrow.ArrayStream(example()).read_all()
    assert [field.type.name.lower() for field in read.schema.fields] == TYPES
    assert columns(read) == example().to_dict()


def test_arrow_reads_the_array_and_its_schema() -> None:
    array = nanoarrow.c_array(example())
    assert (array.length, array.null_count, array.n_children) == (3, 0, 5)
    assert [child.null_count for child in array.children] == [1, 0, 0, 0, 0]
    assert nanoarrow.Schema(example()).n_fields == 5


@given(st.lists(st.tuples(st.none() | st.text(max_size=5), st.integers(-(2**63), 2**63 - 1), st.booleans())))
def test_arrow_reads_what_the_table_has(rows: list[tuple[str | None, int, bool]]) -> None:
    texts = [text if text is None else text.encode("utf-8", "replace").decode() for text, *_ in rows]
    numbers = np.array([number for _, number, _ in rows], dtype=np.int64)
    table = Table({"t": texts, "n": numbers, "b": np.array([b for *_, b in rows], dtype=np.bool_)})
    assert columns(nanoarrow.ArrayStream(table).read_all()) == table.to_dict()


def test_memory_lives_as_long_as_it_is_read() -> None:
    arrays = [nanoarrow.c_array(example()) for _ in range(100)]
    children = [array.child(0) for array in arrays]
    del arrays
    gc.collect()
    assert [nanoarrow.Array(child).to_pylist() for child in children] == [["a", None, "ü\n"]] * 100


def test_capsules_that_nobody_reads_are_freed() -> None:
    table = example()
    column = table._arrow[0]
    before = sys.getrefcount(column)
    for _ in range(10):
        table.__arrow_c_stream__()
        table.__arrow_c_array__()
        table.__arrow_c_schema__()
    gc.collect()
    after = sys.getrefcount(column)
    assert after == before


class Stream(ctypes.Structure):
    """ArrowArrayStream, of which the test calls two functions."""

    _fields_ = (
        ("get_schema", ctypes.c_void_p),
        ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    )


def test_a_stream_has_one_batch_and_no_error_text() -> None:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    capsule = Table({"a": ["x", "y"]}).__arrow_c_stream__()
    address = pointer(capsule, b"arrow_array_stream")
    assert address is not None
    stream = Stream.from_address(address)
    found, second = (
        (ctypes.c_int64 * 10)(),
        (ctypes.c_int64 * 10)(),
    )  # ArrowArray: length first, release ninth
    assert stream.get_next(address, ctypes.addressof(found)) == 0
    assert (found[0], found[8] != 0) == (2, True)
    assert stream.get_next(address, ctypes.addressof(second)) == 0
    assert second[8] == 0  # released: there is no more
    assert stream.get_last_error(address) is None
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(found[8])(ctypes.addressof(found))
    assert found[8] == 0


def test_a_buffer_has_bytes() -> None:
    with pytest.raises(ValueError, match="Buffer dtype mismatch"):
        ArrowColumn("x", "l", 1, 0, (None, np.zeros(1, dtype=np.int64)))  # type: ignore[arg-type]


def test_an_empty_table() -> None:
    table = Table({"pod": [], "n": np.zeros(0, dtype=np.int64)})
    assert nanoarrow.ArrayStream(table).read_all().to_pylist() == []
    assert (len(table), repr(table), rows_of(table)) == (0, "POD  N", [])
    assert len(Table({})) == 0


def test_columns_of_different_length() -> None:
    with pytest.raises(ValueError, match="one length"):
        Table({"a": ["x"], "b": []})


def test_a_table_becomes_a_frame_of_pandas() -> None:
    frame = example().to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["count"].tolist() == [1, 2, -3]


def test_without_pandas_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MoorageError, match="pandas is missing: pip install pandas"):
        example().to_pandas()


def test_rows_leave_out_what_is_missing() -> None:
    assert rows_of(example())[1] == {"node": "y", "count": 2, "share": 1.0, "fits": False}


# ---- on the screen -----------------------------------------------------------------------------------------


def test_the_text_of_a_table_lines_its_columns_up() -> None:
    assert repr(example()).splitlines() == [
        "POD  NODE  COUNT  SHARE  FITS",
        "a    x     1      0.5    True",
        "     y     2      1      False",
        "ü\\n        -3     2      True",
    ]


def test_a_long_table_is_cut() -> None:
    table = Table({f"column-{n}": [["x y " * 40, "x" * 100][n == 1]] * 50 for n in range(9)})
    lines = repr(table).splitlines()
    assert (len(lines), lines[-1]) == (12, "…")
    assert lines[1] == f"{('x y ' * 40)[:59]}…  …"
    assert f"<td>{'x' * 100}</td>" in html(table)
    assert html(table).endswith("<p>…</p>")
    assert "<th>column-0</th>" in html(table)


def test_html_is_escaped() -> None:
    assert "<td>&lt;b&gt;</td>" in html(Table({"a": ["<b>"]}))


class Result(Tabular):
    def headline(self) -> str:
        return "1 < 2"

    def table(self, limit: int | None = None) -> Table:
        return Table({"n": np.arange(20)[:limit]})


def test_a_result_is_shown_by_its_first_rows() -> None:
    lines = repr(Result()).splitlines()
    assert (lines[0], lines[1], lines[-1], len(lines)) == ("1 < 2", "N", "…", 13)
    assert html(Result()).startswith("<p>1 &lt; 2</p><table>")
    assert columns(nanoarrow.ArrayStream(Result()).read_all()) == {"n": list(range(20))}
    assert len(Result().to_arrow()) == len(Result().to_pandas()) == 20


def test_remarks_follow_the_headline_each_on_a_line_of_its_own() -> None:
    result = Result()
    result.remarks = lambda: ["2 < 3", "more"]  # type: ignore[method-assign]
    assert repr(result).splitlines()[:4] == ["1 < 2", "2 < 3", "more", "N"]
    assert html(result).startswith("<p>1 &lt; 2</p><p>2 &lt; 3</p><p>more</p><table>")


def test_a_result_without_rows_is_its_headline() -> None:
    result = Result()
    result.table = lambda limit=None: Table({"n": np.arange(0)})  # type: ignore[method-assign]
    assert (repr(result), html(result)) == ("1 < 2", "<p>1 &lt; 2</p>")
