"""Forks: child processes that answer one question each, over the memory of this process as it is then.

A child shares the pages of its parent until one of the two writes. So a question costs neither a copy of the
cluster nor its reading, waits for no other one, and can neither change nor stop what the parent does.
"""

from __future__ import annotations

import gc
import os
import resource
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from io import BufferedWriter, BytesIO, FileIO, TextIOWrapper
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any, NamedTuple

from moorage.errors import MoorageError

BUSY, TOO_LONG, TOO_LARGE = 503, 504, 507
"""Of HTTP: too many questions at once; an answer took too long; it needed too much memory."""
DEFECT = 70
"""The exit code of a child in which something has failed that is no fault of the question (sysexits.h)."""
_SHUT = (
    *("socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.system", "os.kill"),
    *("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"),
    *("shutil.", "ctypes.dlopen", "urllib."),
)
"""Audit events, or beginnings of them, that no answer needs."""
_READABLE = (
    *("/dev/null", "/dev/urandom", "/proc/self/statm", "/proc/cpuinfo", "/proc/meminfo", "/sys"),
    *("/etc/localtime", "/usr/share/zoneinfo"),
)
"""What Python and its libraries read by themselves."""
_WRITES = os.O_WRONLY | os.O_RDWR
_CODE = (".py", ".pyc", ".so")


class TwinRefusalError(MoorageError):
    """A question is beyond the limits.

    Attributes
    ----------
    status : int
        Of HTTP.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Limits(NamedTuple):
    """What one question may take up.

    Attributes
    ----------
    seconds : float
    memory : int
        Bytes beyond those of the parent.
    output : int
        Bytes of the answer.
    at_once : int
        Questions that are answered at the same time; one more is refused.
    """

    seconds: float = 60.0
    memory: int = 2 << 30
    output: int = 64 << 20
    at_once: int = 4


class Output(NamedTuple):
    """What a child has written, and its exit code."""

    code: int
    stdout: bytes
    stderr: str


class Forks:
    """Answers questions in child processes. Thread-safe.

    Parameters
    ----------
    limits : Limits
    files : iterable of Path
        The files and folders that an answer may read, besides those of Python itself.
    """

    def __init__(self, limits: Limits, files: Iterable[Path] = ()) -> None:
        self.limits, self._slots = limits, BoundedSemaphore(limits.at_once)
        self._children: set[int] = set()
        code = Path(__file__).resolve().parents[2]
        own = [sys.prefix, sys.base_prefix, *map(str, (code, *files))]
        self._readable = (*_READABLE, *map(os.path.abspath, own))

    def run(self, work: Callable[[], int], stdin: bytes, held: AbstractContextManager[object]) -> Output:
        """Run a function in a child, with a standard input of its own, and return what it has printed.

        Parameters
        ----------
        work : callable
            Returns the exit code. It is called in the child.
        held : context manager
            Of a lock that is held while the process forks.

        Raises
        ------
        TwinRefusalError
            Too many questions are being answered, or the answer was beyond a limit.
        """
        with self.slot(), ExitStack() as stack:
            files = [stack.enter_context(open(os.memfd_create(name), "w+b")) for name in ("out", "err")]
            with held:
                child = os.fork()
                if not child:
                    self._answer(work, stdin, [one.fileno() for one in files])
            self._children.add(child)
            code = self._wait(child)
            texts = [os.pread(one.fileno(), self.limits.output, 0) for one in files]
        return self._judged(code, texts[0], texts[1].decode(errors="replace"))

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Be one of the questions that are answered at once, or raise a TwinRefusalError."""
        if not self._slots.acquire(blocking=False):
            raise TwinRefusalError(BUSY, f"{self.limits.at_once} questions are being answered; try again")
        try:
            yield
        finally:
            self._slots.release()

    def end(self) -> None:
        """End the children that answer now."""
        for child in list(self._children):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    def _wait(self, child: int) -> int:
        """Return the exit code of a child, or minus the signal that has ended it."""
        handle = os.pidfd_open(child)
        try:
            is_late = not select.select([handle], [], [], self.limits.seconds)[0]
            if is_late:
                os.kill(child, signal.SIGKILL)
            self._children.discard(child)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if is_late or code == -signal.SIGXCPU:
                raise TwinRefusalError(TOO_LONG, f"the answer took longer than {self.limits.seconds:g} s")
            return code
        finally:
            os.close(handle)

    def _judged(self, code: int, stdout: bytes, stderr: str) -> Output:
        limits = self.limits
        if len(stdout) >= limits.output:
            raise TwinRefusalError(TOO_LARGE, f"the answer has more than {limits.output >> 20} MiB")
        if code < 0 or "out of memory" in stderr:
            raise TwinRefusalError(
                TOO_LARGE, f"the answer needed more than {limits.memory >> 20} MiB of memory"
            )
        return Output(code, stdout, stderr)

    # ---- in the child --------------------------------------------------------------------------------------

    def _answer(self, work: Callable[[], int], stdin: bytes, files: list[int]) -> None:
        """Answer, and end the process."""
        code = DEFECT
        try:
            self._become_a_child(stdin, files)
            code = work()
            sys.stdout.flush()
        except MemoryError:
            os.write(2, b"error: out of memory\n")
        except BaseException as error:  # told without its text, which may have something of the question
            place = traceback.extract_tb(error.__traceback__)[-1]
            with suppress(OSError):
                os.write(2, f"{type(error).__name__} in {place.filename}, line {place.lineno}\n".encode())
        finally:
            with suppress(Exception):
                sys.stderr.flush()
            os._exit(code)

    def _become_a_child(self, stdin: bytes, files: list[int]) -> None:
        """Leave what is the parent's: its files, connections and signals; take what is the question's."""
        gc.freeze()  # to look for cycles among what the parent has would copy it
        for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU):
            signal.signal(one, signal.SIG_DFL)
        for at, file in enumerate((os.open(os.devnull, os.O_RDONLY), *files)):
            os.dup2(file, at)
        os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        sys.stdin = TextIOWrapper(BytesIO(stdin), "utf-8")
        sys.stdout, sys.stderr = (
            TextIOWrapper(BufferedWriter(FileIO(at, "w", closefd=False)), "utf-8") for at in (1, 2)
        )
        limits = self.limits
        seconds = max(1, round(limits.seconds))
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        for what, most in (
            (resource.RLIMIT_CPU, seconds),
            (resource.RLIMIT_AS, size + limits.memory),
            (resource.RLIMIT_FSIZE, limits.output),
            (resource.RLIMIT_CORE, 0),
        ):
            resource.setrlimit(what, (most, most))
        sys.addaudithook(self._guard)

    def _guard(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Refuse what no answer needs: a question names no file of this machine, and no other server."""
        if event == "open":
            path, _, flags = arguments
            if not isinstance(path, int) and (flags & _WRITES or not self._may_read(os.path.abspath(path))):
                raise PermissionError(13, "a question may not name files; send a manifest, and write -")
        elif event.startswith(_SHUT):
            raise PermissionError(13, f"an answer may not call {event}")

    def _may_read(self, path: str | bytes) -> bool:
        text = os.fsdecode(path)
        return text.endswith(_CODE) or any(
            text == one or text.startswith(f"{one.rstrip('/')}/") for one in self._readable
        )
