"""Cython modules to C, one at a time, in the processes of a pool. Needs Cython."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from Cython.Build import cythonize
from setuptools import Extension

from building.flags import SHARED


class Fault(NamedTuple):
    """A fault of Cython in what it adds to modules.

    Attributes
    ----------
    function
        The function that has it.
    head
        How each variant of the function begins in generated C.
    faulty, mended
        The place, and what stands there instead.
    effect
        What the fault does: whoever upgrades Cython has to see whether it still does.
    """

    function: str
    head: str
    faulty: str
    mended: str
    effect: str


_CHUNK, _ARRAY = "__Pyx_BufFmt_ProcessTypeChunk", "__pyx_buffmt_parse_array"
_EXPECTED = "Cython still reads the field after the last one where an array has records"
FAULTS = (
    Fault(
        "__Pyx_ListComp_AppendAndDecref",
        "int __Pyx_ListComp_AppendAndDecref(PyObject* list, PyObject* x) {",
        "int result = PyList_Append(list, x);\n    Py_DECREF(x);\n    return result;",
        "int result = PyList_Append(list, x);\n    if (!result) Py_DECREF(x);\n    return result;",
        "Cython still releases the item twice where PyList_Append fails",
    ),
    Fault(
        _CHUNK,
        f"static int {_CHUNK}(__Pyx_BufFmt_Context* ctx) {{",
        "if (ctx->enc_type == 0) return 0;\n",
        "if (ctx->enc_type == 0) return 0;\n"
        "  if (ctx->head == NULL) { __Pyx_BufFmt_RaiseExpected(ctx); return -1; }\n",
        _EXPECTED,
    ),
    Fault(
        _ARRAY,
        f"{_ARRAY}(__Pyx_BufFmt_Context* ctx, const char** tsp)\n{{",
        "ndim = ctx->head->field->type->ndim;\n",
        'if (ctx->head == NULL) { PyErr_SetString(PyExc_ValueError, "Buffer dtype mismatch, expected end but '
        'got an array"); return -1; }\n    ndim = ctx->head->field->type->ndim;\n',
        _EXPECTED,
    ),
)
"""The faults of Cython 3.3.0 and 3.3.1. As far as known they are not reported yet.

Since Cython's pull request 7748, `__Pyx_ListComp_AppendAndDecref` takes over the reference to an item, and
releases it even if PyList_Append fails; the function that called it then releases it as well. A list
comprehension that has no memory to grow thus frees an item that is in use. Here the first of the two releases
is taken out.

The check of a buffer's type goes on after the only field of a plain type has matched. An array of records
ends the process there, wherever a function takes a typed memoryview. Here it is refused.
"""


def translate(name: str, source: str, folder: str, directives: dict[str, Any]) -> None:
    """Write the C of a module, or of the shared one, below a folder."""
    cythonize(
        [Extension(name, [source])],
        include_path=["pyx"],
        compiler_directives=directives,
        build_dir=folder,
        shared_utility_qualified_name=SHARED,
        force=True,
        quiet=True,
    )
    generated = Path(folder, source).with_suffix(".c")
    generated.write_text(mended(generated.read_text(), must_have=name == SHARED))


def mended(text: str, *, must_have: bool) -> str:
    """Generated C without the faults.

    Parameters
    ----------
    must_have
        Whether the text has to have them: the shared module has everything that Cython adds to modules.

    Raises
    ------
    SystemExit
        A fault is not there, or not in each variant of its function. Cython has changed: whoever upgrades it
        has to see whether it still has the fault. If not, its row goes.
    """
    for fault in FAULTS:
        heads, places = text.count(fault.head), text.count(fault.faulty)
        if heads != places or (must_have and not places):
            raise SystemExit(
                f"building/translation.py: {places} of {heads} variants of {fault.function} have the known "
                f"fault; see whether {fault.effect}"
            )
        text = text.replace(fault.faulty, fault.mended)
    return text
