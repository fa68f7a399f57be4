"""Child processes that answer: what they may take up, and what they may touch."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.doors.live import Forks, Limits, Template, TwinRefusalError


def template(work: Callable[[], int], *files: Path) -> Template:
    return Template(lambda: lambda _: work(), nullcontext(), files)


def run(work: Callable[[], int], limits: Limits | None = None, *files: Path) -> Any:
    return Forks(limits or Limits()).run(template(work, *files), ["check"], b"question")


def test_what_questions_have_in_common_is_prepared_once_beside_the_parent() -> None:
    def prepare() -> Callable[[Sequence[str]], int]:
        prepared = os.getpid()

        def answer(arguments: Sequence[str]) -> int:
            print(prepared, os.getpid(), *arguments)
            return 0

        return answer

    made, forks = Template(prepare, nullcontext()), Forks(Limits())
    answers = [forks.run(made, [text], b"").stdout.split() for text in ("one", "two")]
    assert not made.has_ended
    assert [one[2] for one in answers] == [b"one", b"two"]
    assert len({one[0] for one in answers} - {str(os.getpid()).encode()}) == 1
    assert len({one[1] for one in answers} - {answers[0][0]}) == 2
    made.end()
    with pytest.raises(TwinRefusalError, match="has ended; try again"):
        forks.run(made, [], b"")


def test_a_child_has_streams_of_its_own() -> None:
    def work() -> int:
        print(sys.stdin.read(), os.getpid())
        print("note", file=sys.stderr)
        return 7

    code, stdout, stderr, _ = run(work)
    text, number = stdout.decode().split()
    assert (code, text, stderr) == (7, "question", "note\n")
    assert int(number) != os.getpid()


def test_a_child_that_fails_does_not_tell_what_it_was_asked() -> None:
    def work() -> int:
        raise KeyError("something of the question")

    code, _, stderr, _ = run(work)
    assert (code, stderr.partition(" ")[0]) == (70, "KeyError")
    assert "something" not in stderr


def endless() -> int:
    while True:
        pass


@pytest.mark.parametrize(
    ("work", "limits", "status", "text"),
    [
        (endless, Limits(seconds=0.05), 504, "the answer took longer than 0.05 s"),
        (lambda: len(bytearray(1 << 30)), Limits(memory=64 << 20), 507, "needed more than 64 MiB of memory"),
        (lambda: os.abort(), Limits(), 507, "needed more than 2048 MiB of memory"),
        (lambda: print("x" * 5000) or 0, Limits(output=4096), 507, "the answer has more than"),
    ],
)
def test_what_is_beyond_a_limit_is_refused(
    work: Callable[[], int], limits: Limits, status: int, text: str
) -> None:
    with pytest.raises(TwinRefusalError, match=text) as refused:
        run(work, limits)
    assert refused.value.status == status


def test_a_child_touches_no_file_process_or_server_of_its_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names that it is given lead nowhere: it cannot tell whether there is a file."""
    monkeypatch.chdir(tmp_path)
    for name in (str(tmp_path), "", "."):
        monkeypatch.syspath_prepend(name)
    (tmp_path / "own").mkdir()
    for name in ("own/data", "other", "code.py"):
        (tmp_path / name).write_text(name)

    def connect() -> object:
        return socket.create_connection(("127.0.0.1", 9))

    attempts: list[Callable[[], object]] = [
        lambda: (tmp_path / "other").read_text(),
        lambda: (tmp_path / "own/data").write_text("changed"),
        lambda: (tmp_path / "own/../other").read_text(),
        lambda: Path("/proc/self/environ").read_text(),
        lambda: (tmp_path / "code.py").read_text(),
        lambda: Path("code.py").read_text(),
        lambda: Path("nothing.py").read_text(),
        lambda: os.listdir(tmp_path),
        lambda: list(os.scandir(tmp_path)),
        lambda: os.listdir(),
        lambda: list(Path(".").iterdir()),
        lambda: os.remove(tmp_path / "other"),
        lambda: subprocess.run(["true"], check=False),
        connect,
    ]

    def work() -> int:
        print((tmp_path / "own/data").read_text(), os.path.exists("other"))
        for attempt in attempts:
            try:
                attempt()
            except PermissionError:
                print("refused")
        return 0

    assert run(work, None, tmp_path / "own").stdout.decode().split() == [
        *("own/data", "False"),
        *["refused"] * len(attempts),
    ]
    assert (tmp_path / "own/data").read_text() == "own/data"


def test_the_end_ends_the_children() -> None:
    forks, errors = Forks(Limits()), list[TwinRefusalError]()

    def ask() -> None:
        with pytest.raises(TwinRefusalError) as refused:
            forks.run(template(endless), [], b"")
        errors.append(refused.value)

    thread = Thread(target=ask)
    thread.start()
    while thread.is_alive():
        forks.end()
        thread.join(0.01)
    assert len(errors) == 1
    with pytest.raises(TwinRefusalError, match="the twin ends"):
        forks.run(template(lambda: 0), [], b"")


def test_equal_questions_are_answered_once_by_a_template() -> None:
    def prepare() -> Callable[[Sequence[str]], int]:
        return lambda arguments: print(os.getpid(), "x" * 400) or len(arguments)

    made, forks, found = Template(prepare, nullcontext()), Forks(Limits(at_once=1, output=1000)), list[Any]()
    threads = [Thread(target=lambda: found.append(forks.run(made, ["a"], b""))) for _ in range(3)]
    with forks.turn():
        for thread in threads:
            thread.start()
        while not forks.waiting:
            pass
    for thread in threads:
        thread.join()
    again = forks.run(made, ["a"], b"")
    assert {each.stdout for each in found} == {again.stdout}
    assert ({each.before for each in found} <= {0, 1}, again.before) == (True, 0)
    others = [forks.run(made, *question) for question in ((["a", "b"], b""), (["a"], b"text"))]
    assert len({again.stdout, *(each.stdout for each in others)}) == 3
    assert forks.run(made, ["a"], b"").stdout != again.stdout  # they took too much memory
    made.answers |= {((str(at),), b""): made.answers[("a",), b""] for at in range(100)}
    forks.limits = Limits()
    forks.run(made, ["b"], b"")
    assert not made.answers  # they were too many


def test_a_question_that_was_refused_is_asked_again() -> None:
    made, late = template(lambda: 3), Forks(Limits(seconds=0.01, at_once=1))
    with late.turn(), pytest.raises(TwinRefusalError, match="1 question is before this one"):
        late.run(made, [], b"")
    assert Forks(Limits()).run(made, [], b"").code == 3


def test_a_question_does_not_fail_with_another_one() -> None:
    """Its error may be there a moment before it is taken out."""
    made, failed = template(lambda: 3), Future[Any]()
    failed.set_exception(TwinRefusalError(503, "another one"))
    made.answers[("another",), b""] = failed
    assert Forks(Limits()).run(made, [], b"").code == 3


def test_a_question_waits_for_its_turn_and_is_told_its_place() -> None:
    forks, places = Forks(Limits(at_once=1)), list[int]()

    def ask(at: int) -> None:
        assert forks.run(template(lambda: 0), [], b"").before == at
        places.append(at)

    threads = [Thread(target=ask, args=(at,)) for at in (1, 2, 3)]
    with forks.turn() as before:
        assert before == 0
        for at, thread in enumerate(threads, 1):
            thread.start()
            while forks.waiting < at:
                pass
        assert (forks.answering, places) == (1, [])
    for thread in threads:
        thread.join()
    assert (forks.answering, forks.waiting, places) == (0, 0, [1, 2, 3])


def test_a_question_whose_turn_does_not_come_is_refused_with_its_place() -> None:
    forks = Forks(Limits(seconds=0.01, at_once=1))
    with forks.turn(), pytest.raises(TwinRefusalError, match="1 question is before this one") as refused:
        forks.run(template(lambda: 0), [], b"")
    assert refused.value.status == 503
    assert forks.waiting == 0


def test_a_question_that_waits_ends_with_the_twin() -> None:
    forks = Forks(Limits(at_once=1))

    def ask() -> None:
        with pytest.raises(TwinRefusalError, match="the twin ends"):
            forks.run(template(lambda: 0), [], b"")

    with forks.turn():
        thread = Thread(target=ask)
        thread.start()
        while not forks.waiting:
            pass
        forks.end()
        thread.join()
