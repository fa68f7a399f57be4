"""The builder of the servers says in one line what is missing. Needs no server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.house.source import ROOT

HERE = Path(__file__).parent / "servers"


def test_one_line_where_go_is_missing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.live.servers.build"]
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "the live tests need Go 1.26 or later to build kube-apiserver: https://go.dev/dl"
    ]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", [HERE / "kubernetes", ROOT / "tests/conformance/upstream"], ids=str)
def test_staging_modules_have_the_version_of_kubernetes(folder: Path) -> None:
    module = (folder / "go.mod").read_text()
    (minor, patch) = re.findall(r"k8s.io/kubernetes v1\.(\d+)\.(\d+)", module)[0]
    replaced = re.findall(r"^\t(\S+) => (\S+) v(\S+)$", module, re.MULTILINE)
    assert len(replaced) == 33
    assert all(old == new and version == f"0.{minor}.{patch}" for old, new, version in replaced)
