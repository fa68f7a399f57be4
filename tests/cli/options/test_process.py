"""Signals to a command that does not end."""

from __future__ import annotations

import os
import resource
import signal
import sys
from threading import Event, Lock

import pytest
from tests.doors.cli import allow_many_connections, ending_on_signals


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_first_ends_gracefully_and_the_second_at_once(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, codes, before = Event(), list[int](), signal.getsignal(number)
    monkeypatch.setattr(os, "_exit", codes.append)
    with ending_on_signals(ended.set):
        send(number)
        assert ended.wait(60)
        assert codes == []
        send(signal.SIGTERM)
    assert codes == [1]
    assert signal.getsignal(number) is before


def test_a_signal_while_a_lock_is_held_waits_for_nobody() -> None:
    """As where it comes while the main thread is within the wait of an Event."""
    lock, ended = Lock(), Event()

    def end() -> None:
        if lock.acquire(timeout=60):
            ended.set()

    with ending_on_signals(end):
        with lock:
            send(signal.SIGTERM)
            assert not ended.is_set()
        assert ended.wait(60)


def test_stacks_are_written(capfd: pytest.CaptureFixture[str]) -> None:
    ended = list[int]()
    before = signal.signal(signal.SIGQUIT, lambda number, _: ended.append(number))
    try:
        with ending_on_signals(lambda: None):
            send(signal.SIGUSR1)
            send(signal.SIGUSR2)
            assert capfd.readouterr().err.count("most recent call first") >= 1
            assert ended == []
            send(signal.SIGQUIT)
            assert "test_stacks_are_written" in capfd.readouterr().err
            assert ended == [signal.SIGQUIT]
    finally:
        signal.signal(signal.SIGQUIT, before)


def test_stderr_may_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "__stderr__", None)
    with ending_on_signals(lambda: None):
        assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN


def test_there_may_be_as_many_connections_as_the_system_allows() -> None:
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before, 512), most))
    try:
        allow_many_connections()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))
