"""TwinServer: questions about a cluster over HTTP, each answered by a child process of its own."""

from __future__ import annotations

import gc
import json
import logging
import os
import resource
import select
import signal
import socket
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from io import BufferedWriter, BytesIO, FileIO, TextIOWrapper
from pathlib import Path
from threading import Condition
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl
from weakref import finalize

from moorage.answers.bounds.linear_program import SOLVER
from moorage.errors import MoorageError, number_of
from moorage.lazy import NamedTuple

from .http_common import JSON as JSON
from .shares import Limits
from .web_server import HEALTH, Check, HttpRequest, Reply, WebServer, server_context

if TYPE_CHECKING:
    from .health import DelegatedAuthorization

# ---- forked answers ----------------------------------------------------------------------------------------
#
# A child shares the pages of its parent until one of the two writes. So a question costs neither a copy of
# the cluster nor its reading, waits for no other one, and can neither change nor stop what the parent does.

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
_MESSAGE, _FILES = 1 << 18, 4
PATIENCE, IDLE = 600.0, 300.0
"""Seconds for which a question waits for a template, and after which one ends that nobody has asked."""
MOST_KEPT = 100
"""How many answers about one state are kept."""
Work = Callable[[Sequence[str]], int]
"""Answers a question, which is the arguments of a command, and returns the exit code."""
_WRITES = os.O_WRONLY | os.O_RDWR
_NOWHERE = "/proc/self/fdinfo"
"""Where an answer is worked out: a folder in which no name that a question may give leads to a file."""


class TwinRefusalError(MoorageError):
    """A question is beyond the limits."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Output(NamedTuple):
    """What a child has written, and its exit code.

    Attributes
    ----------
    before : int
        How many questions were before this one when it came.
    """

    code: int
    stdout: bytes
    stderr: str
    before: int = 0


class Template:
    """A child process that prepares what questions have in common, and forks once more for each of them.

    It ends when nobody refers to it any more.

    Parameters
    ----------
    prepare : callable
        Returns what answers; it is called in the child.
    held : context manager
        Of a lock that is held while the process forks.
    files : iterable of Path
        The files and folders that an answer may read, besides those of Python itself.

    Attributes
    ----------
    answers : dict of (tuple of str, bytes) to Future
        By the arguments and the standard input of a question; those that fail are taken out.
    """

    def __init__(
        self, prepare: Callable[[], Work], held: AbstractContextManager[object], files: Iterable[Path] = ()
    ) -> None:
        self.answers: dict[tuple[tuple[str, ...], bytes], Future[Output]] = {}
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with held:
            child = os.fork()
            if not child:
                _prepare_and_fork(theirs, prepare, files)
        theirs.close()
        self.end = finalize(self, _end, child, self._control)

    def ask(self, message: bytes, files: Sequence[int]) -> None:
        """Pass on a question: its arguments and limits, and files for its streams and for what becomes of it.

        Raises
        ------
        OSError
            It has ended.
        """
        socket.send_fds(self._control, [message], files)

    @property
    def has_ended(self) -> bool:
        """Whether it answers no more, as nobody has asked for long."""
        return bool(select.select([self._control], [], [], 0)[0])  # it hangs up, and sends nothing else


class Forks:
    """Answers questions in child processes of a template, some at once and the others in the order in which
    they come. Thread-safe.

    Attributes
    ----------
    answering : int
        How many questions are being answered.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits, self.answering = limits, 0
        self._children: set[int] = set()
        self._line, self._changed = deque[object](), Condition()
        self._has_ended = False

    @property
    def waiting(self) -> int:
        """How many questions wait for their turn."""
        return len(self._line)

    def run(self, template: Template, arguments: Sequence[str], stdin: bytes) -> Output:
        """Answer a question in a child, with a standard input of its own, and return what it has printed.
        Equal questions to one template are answered once.

        Raises
        ------
        TwinRefusalError
            Its turn did not come in time, or the answer was beyond a limit.
        """
        answers, question, own = template.answers, (tuple(arguments), stdin), Future[Output]()
        first = answers.setdefault(question, own)
        if first is not own:
            return first.result()._replace(before=0) if first.done() else first.result()
        try:
            output = self._run(template, arguments, stdin)
        except BaseException as error:  # it may be asked again
            answers.pop(question, None)
            own.set_exception(error)
            raise
        own.set_result(output)
        kept = [
            (text, each.result())
            for (_, text), each in answers.copy().items()
            if each.done() and each.exception() is None  # another thread may not have taken it out yet
        ]
        size = sum(len(text) + len(answer.stdout) + len(answer.stderr) for text, answer in kept)
        if len(kept) > MOST_KEPT or size > self.limits.output:
            answers.clear()
        return output

    def _run(self, template: Template, arguments: Sequence[str], stdin: bytes) -> Output:
        with self.turn() as before, ExitStack() as stack:
            files = [stack.enter_context(open(os.memfd_create(name), "w+b")) for name in ("in", "out", "err")]
            files[0].write(stdin)
            files[0].flush()
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with ours, theirs:
                handles = [file.fileno() for file in files]
                message = json.dumps([arguments, self.limits]).encode()
                with suppress(OSError):  # it has ended, and tells nothing
                    template.ask(message, [*handles, theirs.fileno()])
                theirs.close()
                code = self._wait(ours)
            texts = [os.pread(handle, self.limits.output, 0) for handle in handles[1:]]
        return self._judged(Output(code, texts[0], texts[1].decode(errors="replace"), before))

    @contextmanager
    def turn(self) -> Iterator[int]:
        """Wait until one may be answered, and yield how many questions were before it when it came.

        Raises
        ------
        TwinRefusalError
            That takes longer than an answer may.
        """
        own = object()

        def is_next() -> bool:
            return self._has_ended or (self._line[0] is own and self.answering < self.limits.at_once)

        with self._changed:
            before = len(self._line) + (self.answering if self.answering == self.limits.at_once else 0)
            self._line.append(own)
            in_time = self._changed.wait_for(is_next, self.limits.seconds)
            still = self._line.index(own) + self.answering
            self._line.remove(own)
            self._changed.notify_all()
            if self._has_ended:
                raise TwinRefusalError(BUSY, "the twin ends")
            if not in_time:
                are = number_of(still, "question is", "questions are")
                raise TwinRefusalError(BUSY, f"{are} before this one; try again")
            self.answering += 1
        try:
            yield before
        finally:
            with self._changed:
                self.answering -= 1
                self._changed.notify_all()

    def end(self) -> None:
        """End the children that answer now, and answer no more."""
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()
        for child in list(self._children):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    def _wait(self, channel: socket.socket) -> int:
        """Return the exit code of a child, or minus the signal that has ended it."""
        channel.settimeout(PATIENCE)
        is_late, child = False, int(channel.recv(_MESSAGE) or 0)
        if not child:
            raise TwinRefusalError(BUSY, "what the answer is prepared in has ended; try again")
        self._children.add(child)
        try:
            channel.settimeout(self.limits.seconds)
            try:
                code = channel.recv(_MESSAGE)
            except TimeoutError:
                is_late = True
                os.kill(child, signal.SIGKILL)  # it is no other process yet: nobody has waited for it
                channel.settimeout(None)
                code = channel.recv(_MESSAGE)
        finally:
            self._children.discard(child)
        if is_late or int(code or 0) == -signal.SIGXCPU:
            raise TwinRefusalError(TOO_LONG, f"the answer took longer than {self.limits.seconds:g} s")
        return int(code or -signal.SIGKILL)

    def _judged(self, output: Output) -> Output:
        limits = self.limits
        if len(output.stdout) >= limits.output:
            raise TwinRefusalError(TOO_LARGE, f"the answer has more than {limits.output >> 20} MiB")
        if output.code < 0 or "out of memory" in output.stderr:
            raise TwinRefusalError(
                TOO_LARGE, f"the answer needed more than {limits.memory >> 20} MiB of memory"
            )
        return output


def _end(child: int, control: socket.socket) -> None:
    control.close()
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(child, 0)


# ---- in the template ---------------------------------------------------------------------------------------


def _prepare_and_fork(control: socket.socket, prepare: Callable[[], Work], files: Iterable[Path]) -> None:
    """Prepare, and fork for each question, until the parent hangs up or nobody asks; end the process."""
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        own_end = control.fileno()  # all others are closed
        os.closerange(3, own_end)
        os.closerange(max(3, own_end + 1), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        code = Path(__file__).resolve().parents[2]
        modules = {os.path.abspath(path) for path in sys.path} - {os.getcwd()}
        own = [sys.prefix, sys.base_prefix, *sorted(modules), *map(str, (code, *files))]
        guard = _Guard((*_READABLE, *map(os.path.abspath, own)))
        answer = prepare()
        gc.collect()
        gc.freeze()  # to look for cycles among what there is would copy it
        children: dict[int, tuple[int, socket.socket]] = {}
        questions = control.fileno()
        while ready := select.select([questions, *children], [], [], None if children else IDLE)[0]:
            for handle in ready:
                if handle != questions:
                    os.close(handle)
                    child, channel = children.pop(handle)
                    with channel, suppress(BrokenPipeError):  # which tells what has become of the child
                        channel.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
                    continue
                message, handles, _, _ = socket.recv_fds(control, _MESSAGE, _FILES)
                if not message:
                    return
                child = os.fork()
                if not child:
                    arguments, limits = json.loads(message)
                    _answer(partial(answer, arguments), Limits(*limits), handles, guard)
                for stream in handles[:-1]:
                    os.close(stream)
                channel = socket.socket(fileno=handles[-1])
                children[os.pidfd_open(child)] = child, channel
                channel.send(str(child).encode())
    except BrokenPipeError:  # the parent has ended
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def place_of(error: BaseException) -> str:
    """Return where a defect is, without the text of the error."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {place.filename}, line {place.lineno}"


# ---- in a child of it --------------------------------------------------------------------------------------


def _answer(work: Callable[[], int], limits: Limits, handles: Sequence[int], guard: _Guard) -> None:
    """Answer, and end the process."""
    code = DEFECT
    try:
        _take_streams(handles)
        _limit(limits)
        os.chdir(_NOWHERE)
        sys.addaudithook(guard.refuse)
        code = work()
        sys.stdout.flush()
    except MemoryError:
        os.write(2, b"error: out of memory\n")
    except BaseException as error:  # told without its text, which may have something of the question
        with suppress(OSError):
            os.write(2, f"{place_of(error)}\n".encode())
    finally:
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def _take_streams(handles: Sequence[int]) -> None:
    """Leave what is the parent's: its files and connections; take what is the question's."""
    stdin, *files = handles[:-1]
    text = os.pread(stdin, os.fstat(stdin).st_size, 0)
    for at, file in enumerate((os.open(os.devnull, os.O_RDONLY), *files)):
        os.dup2(file, at)
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    sys.stdin = TextIOWrapper(BytesIO(text), "utf-8")
    sys.stdout, sys.stderr = (
        TextIOWrapper(BufferedWriter(FileIO(at, "w", closefd=False)), "utf-8") for at in (1, 2)
    )


def _limit(limits: Limits) -> None:
    """Let the process take up no more than the limits."""
    seconds = max(1, round(limits.seconds))
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    for what, most in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, size + limits.memory),
        (resource.RLIMIT_FSIZE, limits.output),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))


class _Guard(NamedTuple):
    """Refuses what no answer needs: a question names no file of this machine, and no other server."""

    readable: Sequence[str]

    def refuse(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Raise a PermissionError about an audit event."""
        if event in ("open", "os.listdir", "os.scandir"):
            path, flags = arguments[0] or "", arguments[2] if event == "open" else 0
            if not isinstance(path, int) and (flags & _WRITES or not self._may_read(path)):
                raise PermissionError(13, "a question may not name files; send a manifest, and write -")
        elif event.startswith(_SHUT) and (event, *arguments[1:2]) != ("subprocess.Popen", [*SOLVER]):
            raise PermissionError(13, f"an answer may not call {event}")

    def _may_read(self, path: str | bytes) -> bool:
        text = os.path.normpath(os.fsdecode(path))
        return any(text == root or text.startswith(f"{root.rstrip('/')}/") for root in self.readable)


logger = logging.getLogger("moorage.serve")

MAX_BODY = 16 << 20
QUESTIONS = "/v1/"


def refusal(status: int, text: str) -> Reply:
    """Return the answer to a question that has none."""
    return Reply(status, json.dumps({"error": text}).encode() + b"\n", JSON)


Answer = Callable[[str, list[tuple[str, str]], bytes], Reply]


class TwinServer(WebServer):
    """Answers questions until it is closed.

    Parameters
    ----------
    address : (str, int)
        See `WebServer`.
    answer : callable
        Takes the path below ``/v1/``, the query and the body of a question. It is called by several threads
        at once.
    files : (str, str) or None
        Certificate and key, in PEM; without them it is plain HTTP.
    authorization : DelegatedAuthorization or None
        Decides who may ask; None where all who reach it may, which is right on loopback alone.
    page : mapping of str to Reply
        What is got by path, by everybody.
    alive, ready, metrics
        See `WebServer`. Everybody may see the checks.
    """

    def __init__(  # noqa: PLR0913
        self,
        address: tuple[str, int],
        answer: Answer,
        *,
        files: tuple[str, str] | None = None,
        authorization: DelegatedAuthorization | None = None,
        page: Mapping[str, Reply] = MappingProxyType({}),
        alive: Mapping[str, Check],
        ready: Mapping[str, Check],
        metrics: Callable[[], bytes],
        max_body: int = MAX_BODY,
    ) -> None:
        self._answer, self.authorization, self.page = answer, authorization, page
        self.alive, self.ready, self.metrics = alive, ready, metrics
        self.knows_clients, self.public = authorization is not None, {*page, *HEALTH}
        super().__init__(address, None if files is None else server_context(*files), max_body=max_body)

    async def refusal(self, request: HttpRequest) -> Reply | None:
        path = request.path
        if request.method not in ("GET", "HEAD", "POST"):
            text = b"questions are asked by GET or POST\n"
            return Reply(405, text, headers=[("allow", "GET, HEAD, POST")])
        if request.method != "POST" and path in self.public:
            return None
        if self.authorization is not None:
            reply = await self.in_thread(self._reviewed, request)
            if reply.status != 200:
                return reply
        if not (path.startswith(QUESTIONS) or request.asks_state):
            return Reply(404, f"no such path: questions are below {QUESTIONS}\n".encode())
        return None

    def _reviewed(self, request: HttpRequest) -> Reply:
        """Return whether an API server lets the client ask."""
        assert self.authorization is not None
        verb = "get" if request.method == "HEAD" else request.method.lower()
        status, text = self.authorization.status(request.path, verb, request.bearer)
        return Reply(status, f"{text}\n".encode())

    def answer(self, request: HttpRequest) -> Reply:
        if request.asks_state:
            return self.state(request)
        if (file := self.page.get(request.path)) is not None:
            return file
        path = request.path.removeprefix(QUESTIONS)
        try:
            query = parse_qsl(request.query, keep_blank_values=True, max_num_fields=1000)
            return self._answer(path, query, request.body)
        except ValueError as error:
            return refusal(400, str(error))
        except Exception as error:  # its text may have something of the body
            logger.error("%s%s was not answered: %s", QUESTIONS, path, place_of(error))
            return refusal(500, "internal error")
