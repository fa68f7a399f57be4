"""Builds etcd, kube-apiserver and kube-scheduler from Go modules into a cache; prints the folder.

``python -m tests.live.servers.build`` needs Go and its module proxy. The folder's name follows from the two
go.sum files and the version of Go, so that nothing is built twice.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
VERSION = "v1.36.2"
_STAMP = {
    "k8s.io/component-base/version.gitVersion": VERSION,
    "k8s.io/component-base/version.gitMajor": "1",
    "k8s.io/component-base/version.gitMinor": "36",
    "k8s.io/client-go/pkg/version.gitVersion": VERSION,
}
BINARIES = {
    "etcd": ("etcd", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": ("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-scheduler": ("kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
}
"""Name of the binary to the folder of its module and its package."""


class MissingGoError(Exception):
    """Go is not installed."""


def go_version() -> str:
    """The version of Go on the path."""
    if shutil.which("go") is None:
        raise MissingGoError(
            "the live tests need Go 1.26 or later to build kube-apiserver: https://go.dev/dl"
        )
    return subprocess.run(
        ["go", "env", "GOVERSION"], check=True, capture_output=True, text=True
    ).stdout.strip()


def folder() -> Path:
    """The folder of the binaries, whether or not they are built."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256(go_version().encode())
    for module in ("etcd", "kubernetes"):
        digest.update((HERE / module / "go.sum").read_bytes())
    return cache / "moorage" / "servers" / digest.hexdigest()[:16]


def build(jobs: int = 2) -> Path:
    """Build what is missing, and return the folder."""
    target = folder()
    target.mkdir(parents=True, exist_ok=True)
    missing = {name: where for name, where in BINARIES.items() if not (target / name).exists()}
    flags = " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in _STAMP.items())])
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-modcacherw -buildvcs=false"}
    with tempfile.TemporaryDirectory(dir=target) as made:
        for name, (module, package) in missing.items():
            print(f"building {name}", file=sys.stderr, flush=True)
            command = ["go", "build", "-p", str(jobs), "-mod=readonly", "-trimpath", "-ldflags", flags]
            subprocess.run(
                [*command, "-o", f"{made}/{name}", package], cwd=HERE / module, env=environment, check=True
            )
            os.replace(f"{made}/{name}", target / name)
    return target


if __name__ == "__main__":
    try:
        print(build())
    except (MissingGoError, subprocess.CalledProcessError) as error:
        sys.exit(str(error))
