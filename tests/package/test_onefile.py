"""The archive of `make onefile` is reproducible, and what it says of glibc is what its files ask for."""

from __future__ import annotations

import tarfile
from pathlib import Path

from tests.package.onefile import oldest_glibc, write_archive


def test_the_same_files_give_the_same_archive_of_plain_files(tmp_path: Path) -> None:
    archives = []
    for name in ("one", "two"):
        folder = tmp_path / name / "moorage"
        (folder / "inside").mkdir(parents=True)
        for file in ("inside/b", "a") if name == "one" else ("a", "inside/b"):
            (folder / file).write_text(file)
        (folder / "a").chmod(0o700 if name == "one" else 0o755)
        archives.append(tmp_path / f"{name}.tar.gz")
        write_archive(folder, archives[-1], 1_000_000_000)
    assert archives[0].read_bytes() == archives[1].read_bytes()
    with tarfile.open(archives[0]) as tar:
        found = [(one.name, one.mode, one.mtime) for one in tar]
    assert found == [("moorage/a", 0o755, 1_000_000_000), ("moorage/inside/b", 0o644, 1_000_000_000)]


def test_the_newest_symbol_says_which_glibc_is_needed(tmp_path: Path) -> None:
    symbols = {"a": b"\0GLIBC_2.2.5\0GLIBC_2.9\0", "b": b"\0GLIBC_2.28\0GLIBC_PRIVATE\0", "c": b"text"}
    for name, content in symbols.items():
        (tmp_path / name).write_bytes(content)
    assert oldest_glibc(sorted(tmp_path.iterdir())) == (2, 28)
