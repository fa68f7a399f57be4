"""Zig compiles wheels for another architecture, and only links those for this one."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from building import zig


def test_zig_compiles_for_another_architecture_and_only_links_for_this_one(tmp_path: Path) -> None:
    own, other = (
        zig.environment(Path(sys.executable), tmp_path, one) for one in (platform.machine(), "ppc64le")
    )
    assert own.keys() == {"LDSHARED", "LDFLAGS"}
    assert Path(own["LDFLAGS"]).name == "libgcc.a"
    assert other["SETUPTOOLS_EXT_SUFFIX"].endswith("-ppc64le-linux-gnu.so")
    assert other["_PYTHON_HOST_PLATFORM"] == "linux-ppc64le"
    assert f" -target ppc64le-linux-gnu.{zig.GLIBC} " in Path(other["CC"]).read_text()
    assert other["LDSHARED"] == f"{other['CC']} -shared -s"
