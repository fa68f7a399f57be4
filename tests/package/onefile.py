"""``python -m tests.package.onefile WHEEL OUT``: a folder in a tar.gz, which needs no Python where it runs.

PyInstaller puts the interpreter, the wheel and what it requires into the folder. The archive has plain files
alone, as krew unpacks nothing else, sorted and with the time of the last commit. The folder answers the tour
in a Debian without Python, and takes at most 0.2 s of processor time longer than the installed command.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.house.source import ROOT

from . import debian
from .wheels import environment, time_of_commit

EXTRAS = "cli,kube"
LIMIT = 60_000_000
"""Bytes of the archive."""
SLOWER = 0.2
"""Seconds of processor time that a start may take longer than that of the installed command."""
PROGRAMS = ("moorage", "kubectl-moorage", "kubectl_complete-moorage")
SIMULATE = ("simulate", "-f", str(ROOT / "examples"), "-o", "name")
START = """
import sys
from multiprocessing import freeze_support
from pathlib import Path

freeze_support()  # for the processes of sweeps
from moorage.cli import complete, main, plugin

programs = {"kubectl-moorage": plugin, "kubectl_complete-moorage": complete}
sys.exit(programs.get(Path(sys.executable).name, main)())
"""
# What compiled modules import shows only when they are imported.
IMPORTED = """
import json, pkgutil, sys
import moorage._core
for found in pkgutil.walk_packages(moorage._core.__path__, "moorage._core."):
    if not found.name.endswith("libmoorage_kernels"):
        __import__(found.name)
print(json.dumps([one for one in sys.modules if not one.startswith(("_", "moorage"))]))
"""


def main(wheel: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="moorage-") as directory:
        place = Path(directory)
        python = environment(sys.executable, place / "venv", [f"{wheel}[{EXTRAS}]", "pyinstaller"])
        folder = packed(python, place)
        version = wheel.name.split("-")[1]
        archive = out / f"moorage-{version}-linux-amd64.tar.gz"
        write_archive(folder, archive, int(time_of_commit()))
        if (size := archive.stat().st_size) > LIMIT:
            sys.exit(f"{archive.name} has {size} bytes, more than {LIMIT}")
        ask_in_bare_root(archive, place / "root")
        later = processor_time(folder / "moorage") - processor_time(python.with_name("moorage"))
        if later > SLOWER:
            sys.exit(f"{archive.name} starts {later:.2f} s later than the installed command")
        glibc = ".".join(map(str, oldest_glibc(one for one in folder.rglob("*") if one.is_file())))
        print(f"{archive.name}: {size} bytes, glibc {glibc} or later, starts {later:+.2f} s later")
    print(f"version {version}\nsha256 {hashlib.sha256(archive.read_bytes()).hexdigest()}")


def packed(python: Path, place: Path) -> Path:
    """Have PyInstaller make the folder, with all programs."""
    (place / "start.py").write_text(START)
    listed = subprocess.run([python, "-c", IMPORTED], check=True, capture_output=True, text=True, cwd=place)
    hidden = [f"--hidden-import={one}" for one in json.loads(listed.stdout)]
    command = [str(python), "-m", "PyInstaller", "--onedir", "--name=moorage", "--log-level=ERROR"]
    # The programs share their modules if these are files. To import setuptools takes longer than all others.
    command += ["--debug=noarchive", "--exclude-module=setuptools"]
    command += ["--collect-submodules=moorage", "--collect-data=moorage", *hidden, "start.py"]
    steady = {"PYTHONHASHSEED": "0", "SOURCE_DATE_EPOCH": time_of_commit()}
    subprocess.run(command, check=True, cwd=place, env=os.environ | steady)
    folder = place / "dist/moorage"
    for program in PROGRAMS[1:]:
        shutil.copy2(folder / PROGRAMS[0], folder / program)
    for link in [one for one in folder.rglob("*") if one.is_symlink()]:
        link.unlink()  # to a library that its own package finds without it
    return folder


def write_archive(folder: Path, archive: Path, time: int) -> None:
    """Pack the files of a folder; the same files give the same bytes."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime, member.mode = time, 0o755 if member.mode & 0o100 else 0o644
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    files = sorted(one for one in folder.rglob("*") if one.is_file())
    with (
        archive.open("wb") as raw,
        gzip.GzipFile("", "wb", 6, raw, mtime=time) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for one in files:
            tar.add(one, f"{folder.name}/{one.relative_to(folder)}", filter=plain)


def oldest_glibc(files: Iterable[Path]) -> tuple[int, ...]:
    """The newest version of glibc whose symbols files name: the oldest on which all of them run."""
    pattern = re.compile(rb"\0GLIBC_(\d+)\.(\d+)(?=[\0.])")
    return max(
        (int(major), int(minor)) for one in files for major, minor in pattern.findall(one.read_bytes())
    )


def ask_in_bare_root(archive: Path, root: Path) -> None:
    """Take the tour in a Debian that has no Python."""
    debian.system(root, platform.machine(), platform.freedesktop_os_release()["VERSION_CODENAME"])
    with tarfile.open(archive) as tar:
        tar.extractall(root, filter="data")
    debian.inside(root, "/moorage/moorage", "demo")
    debian.inside(root, "/moorage/kubectl-moorage", "version")
    debian.inside(root, "/moorage/kubectl_complete-moorage", "che")


def processor_time(program: Path) -> float:
    """Seconds of the fastest of five starts."""
    found = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([str(program), *SIMULATE], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
