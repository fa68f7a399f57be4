"""Reads files: directories, standard input, compressed files, archives."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from importlib import import_module
from io import BytesIO
from pathlib import Path, PurePath
from typing import BinaryIO, cast

from moorage.errors import InputError, shorten
from moorage.lazy import NamedTuple

# ---- unpacking ---------------------------------------------------------------------------------------------
#
# Compressed data: gzip, bzip2, xz, and zstd where the standard library has it.

MAX_SIZE = 4 << 30
"""Maximum number of bytes in a file, packed or not: a device may have no end, and a small file may unpack to
more than fits into memory."""
ALWAYS_UNPACKED = 16 << 20
"""Size in bytes to which any file is unpacked, whatever its ratio."""
_PIECE = 1 << 20


class Compression(NamedTuple):
    """A form of compressed data.

    Attributes
    ----------
    name, tool : str
        The name, and the command that unpacks it.
    magic : bytes
        With which data begin.
    module : str
        Module of the standard library whose `open` reads a file.
    max_ratio : int
        Maximum compression ratio beyond `ALWAYS_UNPACKED`: dumps of clusters have 10 to 100 with gzip, and up
        to 1,000 with forms that look at more of the file at once; zeros have more.
    """

    name: str
    tool: str
    magic: bytes
    module: str
    max_ratio: int

    def open(self, packed: BinaryIO, source: str) -> BinaryIO:
        """Open a file of this form.

        Raises
        ------
        InputError
            This Python cannot read it.
        """
        try:
            module = import_module(self.module)
        except ImportError:
            since = " before 3.14" if self.name == "zstd" else ""
            message = (
                f"compressed with {self.name}, which Python{since} does not read; unpack it: {self.tool}"
            )
            raise InputError(message, source=source) from None
        return cast(BinaryIO, module.open(packed))

    def most(self, size: int) -> int:
        """Return to how many bytes a file may unpack.

        Parameters
        ----------
        size : int
            Its size in bytes.
        """
        return min(MAX_SIZE, max(ALWAYS_UNPACKED, self.max_ratio * size))


GZIP = Compression("gzip", "gunzip", b"\x1f\x8b", "gzip", 250)
PACKINGS = (
    GZIP,
    Compression("bzip2", "bunzip2", b"BZh", "bz2", 2500),
    Compression("xz", "unxz", b"\xfd7zXZ\x00", "lzma", 2500),
    Compression("zstd", "unzstd", b"\x28\xb5\x2f\xfd", "compression.zstd", 2500),
)
PACKED_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")


def packing_of(head: bytes) -> Compression | None:
    """Return the form of compressed data, None for other data.

    Parameters
    ----------
    head : bytes
        With which the data begin.
    """
    return next((packing for packing in PACKINGS if head.startswith(packing.magic)), None)


def broken() -> tuple[type[Exception], ...]:
    """Return what readers raise for broken data."""
    errors: list[type[Exception]] = [EOFError, OSError, ValueError]
    for module, name in (("zlib", "error"), ("lzma", "LZMAError"), ("compression.zstd", "ZstdError")):
        try:
            errors.append(getattr(import_module(module), name))
        except ImportError:
            continue
    return tuple(errors)


def too_large(most: int, source: str) -> InputError:
    """Return the error about a file that is, or unpacks to, more than a number of bytes."""
    if most < MAX_SIZE:
        return InputError(f"unpacks to more than {most} bytes", source=source)
    way_out = "write JSON without indentation (jq -c), or only what moorage reads (moorage dump)"
    return InputError(f"more than {most} bytes; {way_out}", source=source)


def unpack(data: bytes, source: str) -> bytes:
    """Decompress data; other data are returned as they are.

    Parameters
    ----------
    source : str
        Name of the file, for errors.

    Raises
    ------
    InputError
        The data are broken, unpack to too much, or this Python cannot read their form.
    """
    packing = packing_of(data)
    return data if packing is None else b"".join(_pieces(packing, data, source))


def _pieces(packing: Compression, data: bytes, source: str) -> Iterator[bytes]:
    most, size = packing.most(len(data)), 0
    try:
        with packing.open(BytesIO(data), source) as file:
            while piece := file.read(_PIECE):
                size += len(piece)
                if size > most:
                    raise too_large(most, source)
                yield piece
    except broken():
        raise InputError(f"broken {packing.name} data", source=source) from None


# ---- files -------------------------------------------------------------------------------------------------

A_FOLDER = "a folder; name the files in it"
STDIN = "-"
_HEAD = 8

YAML_SUFFIXES = (".yaml", ".yml")
MANIFEST_SUFFIXES = (".json", *YAML_SUFFIXES)
_ARCHIVES = (".tar", ".tgz", ".zip")
_SCHEMES = ("http://", "https://")
_CHART = "Chart.yaml"
RENDERS = "for a Helm chart, use helm template FOLDER | moorage … -f -"
# Insights archives have objects as Go clients list them: without kind and apiVersion.
_INSIGHTS = {
    "node": "Node",
    "pod": "Pod",
    "persistentvolumes": "PersistentVolume",
    "storage/storageclasses": "StorageClass",
}
# Old support bundles of Troubleshoot have plain lists of such objects.
_CLUSTER_RESOURCES = {
    "nodes": "Node",
    "namespaces": "Namespace",
    "storage-classes": "StorageClass",
    "pvs": "PersistentVolume",
    "pvcs": "PersistentVolumeClaim",
    "pods": "Pod",
    "deployments": "Deployment",
    "replicasets": "ReplicaSet",
    "statefulsets": "StatefulSet",
    "daemonsets": "DaemonSet",
    "jobs": "Job",
}
# Sonobuoy up to 0.10 has plain lists, too.
_SONOBUOY = (
    *("Node", "Namespace", "PersistentVolume", "PersistentVolumeClaim", "Pod", "Deployment", "ReplicaSet"),
    *("StatefulSet", "DaemonSet", "Job", "ReplicationController", "PodDisruptionBudget", "LimitRange"),
    *("ResourceQuota", "Service", "StorageClass"),
)
_PLACE = (
    r"(?:^|[/!])(?:"
    r"config/(?:(node|persistentvolumes|storage/storageclasses)|(pod)/[^/]+)/[^/]+"
    rf"|cluster-resources/({'|'.join(_CLUSTER_RESOURCES)})(?:/[^/]+)?"
    rf"|resources/(?:cluster|ns/[^/]+)/({'|'.join(_SONOBUOY)})e?s"
    r")\.json$"
)
"""Where files of well-known archives stand, with the names of their kinds."""


def list_files(path: str | Path, recursive: bool = False) -> list[str]:
    """List the files of a path: those of a directory by name, or the file itself.

    Parameters
    ----------
    path : str or Path
        A file, ``-`` (standard input), or a directory.
    recursive : bool
        Whether the directories in a directory are listed too; hidden ones and links to directories are not.

    Returns
    -------
    list of str
        Paths; of a directory, those of its JSON and YAML files.

    Raises
    ------
    InputError
        The path is empty or a URL, or the directory has no such file.
    """
    if not str(path):
        raise InputError("the name of a file is empty", source="-f")
    if str(path).startswith(_SCHEMES):
        raise InputError(f"URLs are not read; use curl -sSL {path} | moorage … -f -", source="-f")
    path = Path(path)
    if not is_directory(path):
        return [str(path)]
    files = []
    for folder, inner, names in os.walk(path):
        inner[:] = sorted(name for name in inner if not name.startswith(".")) if recursive else []
        paths = (Path(folder, name) for name in sorted(names) if has_suffix(name, MANIFEST_SUFFIXES))
        files += [str(file) for file in paths if file.is_file()]
    if not files:
        hint = unread_hint(path, recursive)
        raise InputError(f"no .json, .yaml or .yml file in this directory{hint}", source=str(path))
    return files


def unread_hint(path: str | Path, recursive: bool) -> str:
    """Return what an error adds about what is in a directory and has not been read: the templates of a Helm
    chart, archives, and other directories.

    Parameters
    ----------
    path : str or Path
        Of a directory; any other has none.
    recursive : bool
        Whether the directories in it have been read.

    Returns
    -------
    str
        "" if there is nothing of the kind.
    """
    if hint := chart_hint(path):
        return hint
    inside = sorted(Path(path).iterdir()) if is_directory(path) else []
    archives = [entry for entry in inside if has_suffix(entry.name, _ARCHIVES) and entry.is_file()]
    if archives:
        return f"; give each archive with its own -f, as -f {archives[0]}"
    if not recursive and any(entry.is_dir() and entry.name[0] != "." for entry in inside):
        return "; -R also reads the directories in it"
    return ""


def is_chart(file: str) -> bool:
    """Whether a file is what names a Helm chart.

    Parameters
    ----------
    file : str
        Its name, with that of its archive.
    """
    return PurePath(file.rpartition("!")[2]).name == _CHART


def chart_hint(path: str | Path) -> str:
    """Return what an error adds about the directory of a Helm chart, or of its templates.

    Returns
    -------
    str
        "" for any other path.
    """
    folder = Path(path)
    return f"; {RENDERS}" if any((place / _CHART).is_file() for place in (folder, folder.parent)) else ""


def is_directory(path: str | Path) -> bool:
    """Whether a path is that of a directory."""
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):  # the name is too long or has a zero byte; reading reports it
        return False


def has_suffix(name: str, suffixes: tuple[str, ...]) -> bool:
    """Whether a file name has a suffix, before an optional one of compressed files."""
    return _unpacked_name(name).endswith(suffixes)


def _unpacked_name(name: str) -> str:
    for suffix in PACKED_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def kind_of_path(source: str) -> str:
    """Return the kind that the place of a file in a well-known archive tells, for objects that name none.

    Parameters
    ----------
    source : str
        The name of the file, with that of its directory or archive.

    Returns
    -------
    str
        "" for other places.
    """
    place = re.search(_PLACE, _unpacked_name(source))
    if place is None:
        return ""
    name = place[place.lastindex or 0]
    return (_INSIGHTS | _CLUSTER_RESOURCES).get(name, name)


def source_name(file: str) -> str:
    """Return the name of a file in errors.

    Parameters
    ----------
    file : str
        A path, or ``-``.
    """
    return "stdin" if file == STDIN else shorten(file)


def is_input(name: str) -> bool:
    """Whether a name is that of an input: a file or directory that exists, standard input, or a URL.

    Returns
    -------
    bool
        False for a name that is too long for a file.
    """
    return name == STDIN or "://" in name or os.path.exists(name)


def read_file(file: str) -> bytes:
    """Read and decompress a file, or standard input (``-``).

    Parameters
    ----------
    file : str
        A path, or ``-``.

    Raises
    ------
    InputError
        The file cannot be read or decompressed, or its content is larger than `MAX_SIZE` bytes.
    """
    source = source_name(file)
    if file == STDIN and sys.stdin is None:
        raise InputError("cannot be read: it is closed", source=source)
    try:
        data = _read_whole(sys.stdin.buffer) if file == STDIN else _read(file)
    except FileNotFoundError:
        raise InputError("no such file", source=source) from None
    except IsADirectoryError:
        raise InputError(A_FOLDER, source=source) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=source) from None
    except ValueError as error:  # the name has a zero byte or is not text
        raise InputError(f"cannot be read: {error}", source=source) from None
    if len(data) > MAX_SIZE:
        raise too_large(MAX_SIZE, source)
    return unpack(data, source)


def read_text(file: str) -> str:
    """Read and decompress a file of text; see `read_file`.

    Raises
    ------
    InputError
        Also if it is not UTF-8.
    """
    try:
        return read_file(file).decode()
    except UnicodeDecodeError:
        raise InputError("not a text file", source=source_name(file)) from None


def open_regular(file: str) -> BinaryIO | None:
    """Open a regular file that is not compressed, to be read in pieces.

    Parameters
    ----------
    file : str
        A path, or ``-``.

    Returns
    -------
    file object or None
        None for anything else, also for what cannot be read or is too large: `read_file` reads or refuses it.
    """
    try:
        status = None if file == STDIN else os.stat(file)
        if status is None or not stat.S_ISREG(status.st_mode) or status.st_size > MAX_SIZE:
            return None
        with ExitStack() as stack:
            opened = stack.enter_context(open(file, "rb"))
            if packing_of(opened.peek(_HEAD)[:_HEAD]) is None:
                stack.pop_all()  # the caller closes it
                return opened
    except (OSError, ValueError):
        pass
    return None


def _read_whole(opened: BinaryIO) -> bytes:
    """Read up to a byte more than `MAX_SIZE`, in pieces: Python makes room for all that it is asked for, and
    a process may have a limit of its memory."""
    with BytesIO() as data:
        while piece := opened.read(min(_PIECE, MAX_SIZE + 1 - data.tell())):
            data.write(piece)
        return data.getvalue()


def _read(file: str) -> bytes:
    """Read a regular file, or a pipe with a writer (a shell's ``<(command)``)."""
    # Non-blocking, because a named pipe without a writer would block the process forever.
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
        mode = os.fstat(opened.fileno()).st_mode
        if stat.S_ISREG(mode):
            return _read_whole(opened)
        if not stat.S_ISFIFO(mode):
            raise InputError("not a file or a directory", source=file)
        try:
            first = os.read(opened.fileno(), _PIECE)
            if not first:  # the pipe has no writer
                return b""
        except BlockingIOError:
            first = b""
        os.set_blocking(opened.fileno(), True)
        return first + _read_whole(opened)


# ---- archives ----------------------------------------------------------------------------------------------
#
# Reads the members of tar and zip archives one after another, with limits on their size.

_ZIP = b"PK\x03\x04", b"PK\x05\x06"
"""With which a zip archive begins, and one without a file."""
_TAR, _TAR_AT = b"ustar", 257
_RECORD = 10_240
"""Size in bytes of a tar archive without a file, which is all zeros."""
_TAR_HEAD = _RECORD + 1
MAX_MEMBERS = 1_000_000
"""Maximum number of files in an archive, since empty ones take no space in it."""


class Member(NamedTuple):
    """A file of an archive."""

    name: str
    data: bytes


class _LimitedReader:
    """A stream that refuses to give more than a number of bytes."""

    def __init__(self, stream: BinaryIO, most: int, source: str) -> None:
        self._stream = stream
        self._most = self._left = most
        self._source = source

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise too_large(self._most, self._source)
        return data


def read_archive(file: str) -> Generator[Member] | None:
    """Return the JSON and YAML files of an archive: tar, also compressed, or zip.

    Parameters
    ----------
    file : str
        A path, or ``-``.

    Returns
    -------
    generator of Member or None
        In the order of a tar archive, and sorted by name of a zip archive; None for a file that is no
        archive. It raises InputError if the archive is broken, or unpacks to too much (see `Compression`).
    """
    opened = _open(file)
    if opened is None:
        return None
    try:
        head = opened.read(_TAR_HEAD)
        opened.seek(0)
    except OSError:  # whoever reads it as a file says why
        opened.close()
        return None
    packing = packing_of(head)
    if head.startswith(_ZIP) or _is_tar(head) or (packing is not None and _is_packed_tar(opened, packing)):
        return _members(opened, head, source_name(file))
    opened.close()
    return None


def _open(file: str) -> BinaryIO | None:
    """Open a regular file; None for any other, and for one that cannot be opened."""
    try:
        if file != STDIN and stat.S_ISREG(os.stat(file).st_mode):
            return open(file, "rb")
    except (OSError, ValueError):
        pass
    return None


def _broken() -> tuple[type[Exception], ...]:
    import tarfile
    import zipfile

    return *broken(), tarfile.TarError, zipfile.BadZipFile, NotImplementedError, RuntimeError


def _is_tar(head: bytes) -> bool:
    return head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR or (0 < len(head) <= _RECORD and not any(head))


def _is_packed_tar(opened: BinaryIO, packing: Compression) -> bool:
    try:
        return _is_tar(packing.open(opened, "").read(_TAR_HEAD))
    except InputError:  # reading the file reports it
        return False
    except _broken():
        return False
    finally:
        opened.seek(0)


def _members(opened: BinaryIO, head: bytes, source: str) -> Generator[Member]:
    with opened:
        size, packing = os.fstat(opened.fileno()).st_size, packing_of(head)
        try:
            if head.startswith(_ZIP):
                yield from _of_zip(opened, GZIP.most(size), source)
            elif packing is not None:
                yield from _of_tar(packing.open(opened, source), packing.most(size), source)
            else:
                yield from _of_tar(opened, MAX_SIZE, source)
        except _broken() as error:
            raise InputError(f"a broken archive: {error}", source=source) from None


def _of_tar(stream: BinaryIO, most: int, source: str) -> Iterator[Member]:
    import tarfile  # takes long to import, and most input is no archive

    limited = cast(BinaryIO, _LimitedReader(stream, most, source))
    with tarfile.open(fileobj=limited, mode="r|") as archive:
        for number, member in enumerate(archive):
            _check_number(number, source)
            archive.members = []  # type: ignore[attr-defined]  # they would be kept
            if member.isreg() and has_suffix(member.name, MANIFEST_SUFFIXES):
                data = archive.extractfile(member)
                assert data is not None
                yield _unpacked(member.name, data.read(), source)


def _of_zip(opened: BinaryIO, most: int, source: str) -> Iterator[Member]:
    import zipfile

    with zipfile.ZipFile(opened) as archive:
        _check_number(len(archive.filelist) - 1, source)
        left = most
        for member in sorted(archive.infolist(), key=lambda info: info.filename):
            if not has_suffix(member.filename, MANIFEST_SUFFIXES):  # which no folder has
                continue
            with archive.open(member) as file:  # a lie about the size does not help: zipfile reads no more
                left -= member.file_size
                if left < 0:
                    raise too_large(most, source)
                data = file.read(member.file_size)
            yield _unpacked(member.filename, data, source)


def _check_number(number: int, source: str) -> None:
    if number >= MAX_MEMBERS:
        raise InputError(f"more than {MAX_MEMBERS} files", source=source)


def _unpacked(name: str, data: bytes, source: str) -> Member:
    return Member(name, unpack(data, member_source(source, name)))


def member_source(source: str, name: str) -> str:
    """Return the name of a member in errors.

    Parameters
    ----------
    source, name : str
        Names of the archive and of the member.
    """
    return f"{source}!{source_name(name)}"
