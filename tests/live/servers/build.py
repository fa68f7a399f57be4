"""Builds a control plane of a Kubernetes release from Go modules into a cache; prints the folder.

``python -m tests.live.servers.build [RELEASE]`` needs Go and its module proxy. The folder's name follows from
the go.sum files and the version of Go, so that nothing is built twice. etcd is the same for all releases.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
DEFAULT = "1.36"
MODULES = {
    "1.34": HERE / "kubernetes/v1.34.mod",
    "1.35": HERE / "kubernetes/v1.35.mod",
    DEFAULT: HERE / "kubernetes/go.mod",
    "1.37": HERE / "kubernetes/v1.37.mod",
}
"""By release: the requirements, with the go.sum beside them."""
COMMANDS = ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl")
ETCD = HERE / "etcd/go.mod"


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


def version(release: str) -> str:
    """The patch of a release that is built, such as v1.36.2."""
    (found,) = re.findall(r"^require k8s.io/kubernetes (v\S+)$", MODULES[release].read_text(), re.MULTILINE)
    return str(found)


def stamp(release: str) -> list[str]:
    """What the linker is told, so that the binaries know their version."""
    patch = version(release)
    base = "k8s.io/component-base/version"
    names = {f"{base}.gitVersion": patch, "k8s.io/client-go/pkg/version.gitVersion": patch}
    names |= dict(zip((f"{base}.gitMajor", f"{base}.gitMinor"), release.split("."), strict=True))
    return ["-s", "-w", *(f"-X {name}={value}" for name, value in names.items())]


def folder(release: str = DEFAULT) -> Path:
    """The folder of the binaries, whether or not they are built."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256(go_version().encode())
    for module in (ETCD, MODULES[release]):
        digest.update(module.with_suffix(".sum").read_bytes())
    return cache / "moorage" / "servers" / digest.hexdigest()[:16]


def build(release: str = DEFAULT, jobs: int = 2) -> Path:
    """Build what is missing, and return the folder."""
    target = folder(release)
    target.mkdir(parents=True, exist_ok=True)
    packages = {"etcd": (ETCD, "go.etcd.io/etcd/server/v3")}
    packages |= {name: (MODULES[release], f"k8s.io/kubernetes/cmd/{name}") for name in COMMANDS}
    flags = " ".join(stamp(release))
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-modcacherw -buildvcs=false"}
    command = ["go", "build", "-p", str(jobs), "-mod=readonly", "-trimpath", "-ldflags", flags]
    with tempfile.TemporaryDirectory(dir=target) as made:
        for name, (module, package) in packages.items():
            if (target / name).exists():
                continue
            print(f"building {name} of {release}", file=sys.stderr, flush=True)
            own = [*command, f"-modfile={module}", "-o", f"{made}/{name}", package]
            subprocess.run(own, cwd=module.parent, env=environment, check=True)
            os.replace(f"{made}/{name}", target / name)
    return target


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("release", nargs="?", choices=list(MODULES), default=DEFAULT)
    try:
        print(build(parser.parse_args().release))
    except (MissingGoError, subprocess.CalledProcessError) as error:
        sys.exit(str(error))
