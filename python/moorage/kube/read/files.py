"""Reads files: directories, standard input, compressed files."""

from __future__ import annotations

import os
import re
import stat
import sys
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path, PurePath
from typing import BinaryIO

from moorage.errors import InputError, shorten

from .unpacking import MAX_SIZE, packing_of, too_large, unpack
from .unpacking import SUFFIXES as PACKED_SUFFIXES

STDIN = "-"
_PIECE, _HEAD = 1 << 20, 8

YAML_SUFFIXES = (".yaml", ".yml")
SUFFIXES = (".json", *YAML_SUFFIXES)
_ARCHIVES = (".tar", ".tgz", ".zip")
_SCHEMES = ("http://", "https://")
_CHART = "Chart.yaml"
RENDERS = "for a Helm chart, use helm template FOLDER | moorage … -f -"
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
_SONOBUOY = (
    *("Node", "Namespace", "PersistentVolume", "PersistentVolumeClaim", "Pod", "Deployment", "ReplicaSet"),
    *("StatefulSet", "DaemonSet", "Job", "ReplicationController", "PodDisruptionBudget", "LimitRange"),
    *("ResourceQuota", "Service", "StorageClass"),
)
_KINDS_BY_PATH = (
    # Insights archives have objects as Go clients list them: without kind and apiVersion.
    (re.compile(r"(?:^|[/!])config/node/[^/]+\.json$"), "Node"),
    (re.compile(r"(?:^|[/!])config/pod/[^/]+/[^/]+\.json$"), "Pod"),
    (re.compile(r"(?:^|[/!])config/persistentvolumes/[^/]+\.json$"), "PersistentVolume"),
    (re.compile(r"(?:^|[/!])config/storage/storageclasses/[^/]+\.json$"), "StorageClass"),
    # Old support bundles of Troubleshoot have plain lists of such objects.
    *(
        (re.compile(rf"(?:^|[/!])cluster-resources/{name}(?:/[^/]+)?\.json$"), kind)
        for name, kind in _CLUSTER_RESOURCES.items()
    ),
    # Sonobuoy up to 0.10 has plain lists, too.
    *(
        (re.compile(rf"(?:^|[/!])resources/(?:cluster|ns/[^/]+)/{kind}e?s\.json$"), kind)
        for kind in _SONOBUOY
    ),
)


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
        paths = (Path(folder, name) for name in sorted(names) if has_suffix(name, SUFFIXES))
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
    archives = [one for one in inside if has_suffix(one.name, _ARCHIVES) and one.is_file()]
    if archives:
        return f"; give each archive with its own -f, as -f {archives[0]}"
    if not recursive and any(one.is_dir() and one.name[0] != "." for one in inside):
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
    return f"; {RENDERS}" if any((one / _CHART).is_file() for one in (folder, folder.parent)) else ""


def is_directory(path: str | Path) -> bool:
    """Whether a path is that of a directory."""
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):  # the name is too long or has a zero byte; reading reports it
        return False


def has_suffix(name: str, suffixes: tuple[str, ...]) -> bool:
    """Whether a file name has a suffix, before an optional one of compressed files.

    Parameters
    ----------
    name : str
        The file name.
    suffixes : tuple of str
        Suffixes with their dots.
    """
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
    path = _unpacked_name(source)
    return next((kind for pattern, kind in _KINDS_BY_PATH if pattern.search(path)), "")


def source_name(file: str) -> str:
    """Return the name of a file in errors.

    Parameters
    ----------
    file : str
        A path, or ``-``.
    """
    return "stdin" if file == STDIN else shorten(file)


def read_file(file: str) -> bytes:
    """Read and decompress a file, or standard input (``-``).

    Parameters
    ----------
    file : str
        A path, or ``-``.

    Returns
    -------
    bytes
        The decompressed content.

    Raises
    ------
    InputError
        The file cannot be read or decompressed, or its content is larger than `MAX_SIZE` bytes.
    """
    source = source_name(file)
    try:
        data = _read_stdin() if file == STDIN else _read(file)
    except FileNotFoundError:
        raise InputError("no such file", source=source) from None
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


def _read_stdin() -> bytes:
    if sys.stdin is None:
        raise InputError("cannot be read: it is closed", source=source_name(STDIN))
    return _read_whole(sys.stdin.buffer)


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
