"""Cython modules to C, one at a time, in the processes of a pool. Needs Cython."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from Cython.Build import cythonize
from setuptools import Extension

from building.flags import SHARED

HELPER = "int __Pyx_ListComp_AppendAndDecref(PyObject* list, PyObject* x) {"
FAULTY = "int result = PyList_Append(list, x);\n    Py_DECREF(x);\n    return result;"
MENDED = "int result = PyList_Append(list, x);\n    if (!result) Py_DECREF(x);\n    return result;"


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
    """Generated C without a fault of Cython 3.3.0 and 3.3.1.

    Since Cython's pull request 7748, `__Pyx_ListComp_AppendAndDecref` takes over the reference to an item,
    and releases it even if PyList_Append fails; the function that called it then releases it as well. A list
    comprehension that has no memory to grow thus frees an item that is in use. As far as known this is not
    reported to Cython yet: a search of its issues found nothing. A report would name that pull request, and
    say what this paragraph says. Here the first of the two releases is taken out.

    Parameters
    ----------
    must_have
        Whether the text has to have the fault: the shared module has everything that Cython adds to modules.

    Raises
    ------
    SystemExit
        The fault is not there, or not in each variant of the function. Cython has changed: whoever upgrades
        it has to see whether an item is still released twice. If not, this function goes.
    """
    helpers, faults = text.count(HELPER), text.count(FAULTY)
    if helpers != faults or (must_have and not faults):
        raise SystemExit(
            f"building/translation.py: {faults} of {helpers} variants of __Pyx_ListComp_AppendAndDecref have "
            "the known fault; see whether Cython still releases the item twice where PyList_Append fails"
        )
    return text.replace(FAULTY, MENDED)
