"""``python -m tests.package.debian WHEEL``: a wheel in a Debian that has nothing else.

A wheel for this machine is installed with pip in a new root, and takes the tour there. One for aarch64 is
unpacked beside Debian's Python for that architecture, and runs under qemu: the vectors of kube-scheduler and
the core's tests. Takes root, debootstrap and the network: `make wheels-debian`, `make wheels-aarch64`.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from building import zig
from building.flags import FLAGS, INCLUDES, KERNEL_FLAGS
from tests.house.source import ROOT

from .wheels import PINS, PIP

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
RELEASES = {"cp311": "bookworm", "cp313": "trixie"}
"""Debian's releases by the tag of their Python."""
COUNTS_THREADS = "tests/core/decide/test_placer.py::test_a_forked_process_starts_threads_of_its_own"
"""Qemu has a thread of its own."""
SUITES = (
    ("-m", "tests.conformance", "tests/conformance/data"),
    ("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--deselect={COUNTS_THREADS}", "tests/core"),
)
WRAPPER = '#!/bin/sh\nexec qemu-{machine}-static -L {root} -0 "$0" {root}/usr/bin/python3 "$@"\n'


def main(wheel: Path) -> None:
    machine = next(one for one in ARCHITECTURES if wheel.stem.endswith(one))
    with tempfile.TemporaryDirectory(prefix="moorage-") as directory:
        place = Path(directory)
        run = installed if machine == platform.machine() else emulated
        root = system(place / "root", machine, RELEASES[wheel.stem.split("-")[2]], "python3-venv")
        print(f"{wheel.name}: {run(wheel, root, place)}", flush=True)


def system(place: Path, machine: str, release: str, *packages: str) -> Path:
    """Debian's smallest system and packages in a folder; for another architecture only unpacked."""
    options = [
        "--variant=minbase",
        f"--arch={ARCHITECTURES[machine]}",
        *(f"--include={one}" for one in packages),
    ]
    is_native = machine == platform.machine()
    command = ["debootstrap", *options, *([] if is_native else ["--download-only"]), release, str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stdout[-3000:]}{done.stderr}")
    for package in () if is_native else (place / "var/cache/apt/archives").glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(package), str(place)], check=True)
    return place


def inside(root: Path, *command: str) -> str:
    """What a program says in a root, with no variable but a path."""
    found = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
    program = shutil.which("chroot", path=found["PATH"]) or "chroot"
    done = subprocess.run(
        [program, str(root), *command], env=found, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(
            f"{' '.join(command)} in a root of its own: exit {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def installed(wheel: Path, root: Path, place: Path) -> str:
    """Install a wheel as a user does, and take the tour; says how long that took."""
    options = [*PINS, "--only-binary=:all:", "-d", str(root / "wheels")]
    subprocess.run([sys.executable, *PIP, "download", *options, f"{wheel}[cli]"], check=True)
    began = os.times()
    inside(root, "python3", "-m", "venv", "/venv")
    pip = ["/venv/bin/pip", "install", "--no-index", "--find-links=/wheels"]
    inside(root, *pip, f"/wheels/{wheel.name}[cli]")
    inside(root, "/venv/bin/moorage", "demo")
    seconds = os.times().children_user - began.children_user
    return f"installed, and took the tour, in {seconds:.0f} s of a processor"


def emulated(wheel: Path, root: Path, place: Path) -> str:
    """Run vectors and the core's tests under qemu; says what came out."""
    site, machine = place / "site", "aarch64"
    version = wheel.stem.split("-")[2].removeprefix("cp")
    tags = [f"--platform=manylinux_2_{minor}_{machine}" for minor in range(17, 37)]
    options = [*PINS, "--only-binary=:all:", f"--python-version={version}", *tags, "--target", str(site)]
    packages = [f"{wheel}[cli]", "pytest", "hypothesis", "cffi", "nanoarrow"]
    subprocess.run([sys.executable, *PIP, "install", *options, *packages], check=True)
    compiler = kernels(site / "moorage/_core", machine, place)
    python = root / "usr/bin/emulated"
    python.write_text(WRAPPER.format(machine=machine, root=root))
    python.chmod(0o755)
    path = f"{compiler.parent}{os.pathsep}{os.environ['PATH']}"  # tests compile plugins
    found = os.environ | {"PATH": path, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    lines = []
    for suite in SUITES:
        began = os.times()
        done = subprocess.run(
            [str(python), *suite], cwd=ROOT, env=found, stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"{' '.join(suite)} under qemu: exit {done.returncode}\n{done.stdout[-5000:]}")
        seconds = os.times().children_user - began.children_user
        lines.append(f"{done.stdout.strip().splitlines()[-1]}, {seconds:.0f} s of a processor")
    return "; ".join(lines)


def kernels(core: Path, machine: str, place: Path) -> Path:
    """Compile what tests call kernels with, beside that of this machine; returns the compiler."""
    variables = zig.environment(Path(sys.executable), place / "zig", machine)
    output = f"tests/core/_kernels{variables['SETUPTOOLS_EXT_SUFFIX']}"
    folders = [f"-I{one}" for one in (*INCLUDES, sysconfig.get_path("include"))]
    linked = [f"-L{core}", "-lmoorage_kernels", f"-Wl,-rpath,{core}"]
    source = "build/cffi/tests/core/_kernels.c"
    command = [variables["CC"], "-shared", "-fPIC", *FLAGS, *KERNEL_FLAGS, *folders, source, *linked]
    subprocess.run([*command, "-o", output], cwd=ROOT, check=True)
    return Path(variables["CC"])


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
