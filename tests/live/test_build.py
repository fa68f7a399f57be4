"""The builder of the servers says in one line what is missing. Needs no server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.house.source import ROOT
from tests.live.servers.build import MODULES, stamp, version


def test_one_line_where_go_is_missing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.live.servers.build"]
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "the live tests need Go 1.26 or later to build kube-apiserver: https://go.dev/dl"
    ]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("release", MODULES)
def test_the_binaries_of_a_release_know_their_version(release: str) -> None:
    assert version(release).startswith(f"v{release}.")
    assert f"-X k8s.io/component-base/version.gitVersion={version(release)}" in stamp(release)
    assert f"-X k8s.io/component-base/version.gitMinor={release.partition('.')[2]}" in stamp(release)


@pytest.mark.parametrize(
    "file", [*MODULES.values(), ROOT / "tests/conformance/upstream/go.mod"], ids=lambda file: file.name
)
def test_staging_modules_have_the_version_of_kubernetes(file: Path) -> None:
    module = file.read_text()
    (minor, patch) = re.findall(r"k8s.io/kubernetes v1\.(\d+)\.(\d+)", module)[0]
    replaced = re.findall(r"^\t(\S+) => (\S+) v(\S+)$", module, re.MULTILINE)
    assert len(replaced) == (31 if int(minor) < 36 else 33)
    assert all(old == new and version == f"0.{minor}.{patch}" for old, new, version in replaced)
