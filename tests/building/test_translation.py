"""The faults of Cython are mended, and are missed when they are gone."""

from __future__ import annotations

import pytest

from building.translation import FAULTS, Fault, mended


def generated(fault: Fault) -> str:
    variant = f"{fault.head}\n    {fault.faulty}\n}}\n"
    return f"#if X\n{variant}#else\n{variant}#endif\n"


WHOLE = "".join(map(generated, FAULTS))


def test_each_variant_of_the_functions_is_mended() -> None:
    text = mended(WHOLE, must_have=True)
    assert [text.count(fault.mended) for fault in FAULTS] == [2] * len(FAULTS)


def test_a_module_without_the_functions_stays_as_it_is() -> None:
    assert mended("int f(void);\n", must_have=False) == "int f(void);\n"


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_cython_with_other_code_is_refused(fault: Fault, is_gone: bool) -> None:
    text = WHOLE.replace(generated(fault), "") if is_gone else WHOLE.replace(fault.faulty, "return 0;", 1)
    with pytest.raises(SystemExit, match=fault.function):
        mended(text, must_have=is_gone)
