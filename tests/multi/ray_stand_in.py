"""A stand-in for Ray: actors and tasks of this process, whose arguments and results are pickled."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

ONE_AT_A_TIME = threading.Lock()


class RayActorError(Exception):
    """The process of an actor has ended."""


class RayTaskError(Exception):
    """A call has raised; `cause` is what."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


def copied(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


class Reference:
    """A result to come, or a value that was put."""

    def __init__(self, result: Future[Any]) -> None:
        self._result = result

    def future(self) -> Future[Any]:
        return self._result


class Caller:
    """What has the method ``remote``."""

    def __init__(self, remote: Callable[..., Any]) -> None:
        self.remote = remote


class Process:
    """A process: calls one after the other."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self.is_dead = False

    def submit(self, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Reference:
        given = copied([one.future().result() if isinstance(one, Reference) else one for one in arguments])
        return Reference(self._thread.submit(self._run, call, given))

    def _run(self, call: Callable[..., Any], arguments: list[Any]) -> Any:
        if self.is_dead:
            raise RayActorError
        with ONE_AT_A_TIME:
            try:
                return copied(call(*arguments))
            except Exception as error:
                raise RayTaskError(copied(error)) from None


class Actor:
    """The handle of an actor."""

    def __init__(self, kind: type, arguments: tuple[Any, ...]) -> None:
        self.process = Process()
        self._instance: list[Any] = []
        given = [one.future().result() if isinstance(one, Reference) else one for one in arguments]
        self._made = self.process.submit(lambda: self._make(kind, copied(given)), ())

    def _make(self, kind: type, arguments: list[Any]) -> None:
        self._instance.append(kind(*arguments))

    def __getattr__(self, name: str) -> Caller:
        def call(*arguments: Any) -> Any:
            return getattr(self._instance[0], name)(*arguments)

        return Caller(lambda *arguments: self.process.submit(call, arguments))


class Ray:
    """The functions of the module ``ray`` that moorage calls."""

    exceptions = SimpleNamespace(RayActorError=RayActorError, RayTaskError=RayTaskError)

    def __init__(self, *, is_connected: bool) -> None:
        self.is_connected = is_connected
        self.options: list[dict[str, Any]] = []

    def is_initialized(self) -> bool:
        return self.is_connected

    def init(self, **options: Any) -> None:
        assert not self.is_connected
        self.is_connected = True

    def shutdown(self) -> None:
        assert self.is_connected
        self.is_connected = False

    def put(self, value: Any) -> Reference:
        made: Future[Any] = Future()
        made.set_result(copied(value))
        return Reference(made)

    def get(self, reference: Reference) -> Any:
        return reference.future().result()

    def kill(self, actor: Actor) -> None:
        actor.process.is_dead = True

    def remote(self, **options: Any) -> Callable[[Any], Caller]:
        self.options.append(options)

        def made(of: Any) -> Caller:
            if isinstance(of, type):
                return Caller(lambda *arguments: Actor(of, arguments))
            return Caller(lambda *arguments: Process().submit(of, arguments))

        return made
