"""What a process needs to import a variant of the core."""

from __future__ import annotations

import pytest

from building import variants
from building.flags import VARIANTS


@pytest.mark.parametrize("variant", [one for one in VARIANTS if one])
def test_its_package_and_its_kernels_are_found_first(variant: str) -> None:
    found = variants.environment(variant)
    library = variants.folder(variant) / "lib"
    assert found["PYTHONPATH"] == str(library)
    assert found["LD_LIBRARY_PATH"] == str(library / "moorage/_core")


def test_sanitizers_are_loaded_before_python_and_report_into_its_folder() -> None:
    report = variants.folder("asan") / "report"
    found = variants.environment("asan")
    names = [path.rpartition("/")[2].partition(".")[0] for path in found["LD_PRELOAD"].split()]
    assert names == ["libasan", "libubsan"]
    assert found["ASAN_OPTIONS"].endswith(f":log_path={report}")
    assert "log_path" not in found["UBSAN_OPTIONS"]
    assert "LD_PRELOAD" not in variants.environment("debug")
