"""Signals to a command that does not end."""

from __future__ import annotations

import os
import resource
import signal
import sys

import pytest
from tests.doors.cli import ENDS, IN_A_HURRY, allow_many_connections, ending_on_signals


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", ENDS)
def test_the_first_ends_gracefully_and_the_second_at_once(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, codes, before = list[str](), list[int](), signal.getsignal(number)
    monkeypatch.setattr(os, "_exit", codes.append)
    with ending_on_signals(lambda: calls.append("end")):
        send(number)
        assert (calls, codes) == (["end"], [])
        send(signal.SIGTERM)
    assert codes == [IN_A_HURRY]
    assert signal.getsignal(number) is before


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
