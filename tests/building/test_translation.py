"""The fault of Cython is mended, and is missed when it is gone."""

from __future__ import annotations

import pytest

from building.translation import FAULTY, HELPER, MENDED, mended

GENERATED = f"#if X\n{HELPER}\n    {FAULTY}\n}}\n#else\n{HELPER}\n    {FAULTY}\n}}\n#endif\n"


def test_each_variant_of_the_function_is_mended() -> None:
    assert mended(GENERATED, must_have=True) == GENERATED.replace(FAULTY, MENDED) != GENERATED


def test_a_module_without_the_function_stays_as_it_is() -> None:
    assert mended("int f(void);\n", must_have=False) == "int f(void);\n"


@pytest.mark.parametrize(
    ("text", "must_have"),
    [
        (GENERATED.replace("Py_DECREF(x);", "Py_XDECREF(x);", 1), False),
        (GENERATED.replace(FAULTY, MENDED), False),
        (GENERATED.replace("ListComp_AppendAndDecref", "ListComp_AppendStolen").replace(FAULTY, ""), True),
    ],
)
def test_a_cython_with_other_code_is_refused(text: str, must_have: bool) -> None:
    with pytest.raises(SystemExit, match="__Pyx_ListComp_AppendAndDecref"):
        mended(text, must_have=must_have)
