"""Questions about one cluster, by commands in this process and by the library, and what differs."""

from __future__ import annotations

import hashlib
import json
import shlex
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import chdir, redirect_stderr
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import moorage as mo
from tests.agreement.clusters import Cluster
from tests.agreement.known import KNOWN
from tests.agreement.objects import Object, listed
from tests.cases.console import run

T = TypeVar("T")
CRASH = -1
"""The exit code of what ended in a traceback."""


@dataclass(frozen=True)
class Answer:
    """What a command printed, or what a program of the library found."""

    asked: str
    """The command or the program, which can be repeated in the folder of its files."""
    code: int
    out: str
    err: str
    value: Any = None
    """The document of a command, or what the program has left in `found`."""

    @property
    def is_answer(self) -> bool:
        """Whether it is an answer at all, and neither a refusal of the input nor a traceback."""
        return self.code in (0, 1) and self.value is not None

    def __getitem__(self, name: str) -> Any:
        return self.value[name]

    def get(self, name: str, default: Any = None) -> Any:
        """A field of the document; the default if there is none."""
        return self.value.get(name, default) if isinstance(self.value, dict) else default


Told = tuple[Answer, object]
"""An answer, and what of it matters."""


@dataclass(frozen=True)
class Difference:
    """Answers that should agree, and do not."""

    relation: str
    about: str
    """Which comparison of its relation it is. A smaller cluster is looked for with the same."""
    cluster: str
    text: str
    files: dict[str, str]
    known: str
    """The line of known.toml by which the answers differ; "" for none."""


class OutOfTimeError(Exception):
    """There is no more time to ask."""


@dataclass
class Asking:
    """A cluster that is asked about. Each file is written once, and each command runs once."""

    cluster: Cluster
    folder: Path
    has_time: Callable[[], bool] = lambda: True
    relation: str = ""
    comparisons: int = 0
    differences: list[Difference] = field(default_factory=list)
    _answers: dict[str, Answer] = field(default_factory=dict)
    _files: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.cluster.files.items():
            self._keep(name, text)
        self.base = self.write("cluster", self.cluster.objects)

    # ---- files ---------------------------------------------------------------------------------------------

    def write(self, name: str, objects: Sequence[Object]) -> str:
        """Write objects to a file; its name begins with the one given."""
        text = json.dumps(objects[0] if len(objects) == 1 else listed(objects), indent=1)
        return self.write_text(f"{name}.json", text)

    def write_text(self, name: str, text: str) -> str:
        """Write a text to a file of this name, or of one with a number, if that has another text."""
        stem, _, suffix = name.partition(".")
        number = 1
        while self._files.get(name, text) != text:
            number += 1
            name = f"{stem}-{number}.{suffix}"
        self._keep(name, text)
        return name

    def _keep(self, name: str, text: str) -> None:
        self._files[name] = text
        (self.folder / name).write_text(text)

    def objects_of(self, file: str) -> list[Object]:
        """The objects of a file that was written."""
        document: Object = json.loads(self._files[file])
        objects: list[Object] = document["items"] if document["kind"] == "List" else [document]
        return objects

    # ---- questions -----------------------------------------------------------------------------------------

    def ask(self, question: str, *words: str, of: str = "", form: str = "json") -> Answer:
        """Run a command about the cluster, or about the file `of`, with the options of the cluster."""
        is_of_nodes = question in ("nodes", "capacity") or question.startswith("plan drain")
        options = self.cluster.options
        if "--no-autoscale" in words or (is_of_nodes and "--instance-types" not in options):
            options = ()  # they say which nodes come
        return self.run("moorage", *question.split(), "-f", of or self.base, *options, *words, "-o", form)

    def run(self, *words: str) -> Answer:
        """Run a command as it stands."""
        command = shlex.join(words)
        return self._once(command, lambda: self._ran(command))

    def _ran(self, command: str) -> Answer:
        try:
            out, err, code = run(command, self.folder)
        except Exception:
            return Answer(command, CRASH, "", traceback.format_exc()[-600:])
        return Answer(command, code, out, err, json.loads(out) if out.startswith(("{", "[")) else None)

    def python(self, program: str) -> Answer:
        """Run a program that leaves its answer in `found`; it has `mo`, and `places`."""
        return self._once(program, lambda: self._executed(program))

    def _executed(self, program: str) -> Answer:
        names: dict[str, Any] = {"mo": mo, "places": places}
        with chdir(self.folder), redirect_stderr(StringIO()) as err:
            try:
                exec(program, names)
            except mo.InputError as error:
                return Answer(program, 2, "", str(error))
            except Exception:
                return Answer(program, CRASH, "", traceback.format_exc()[-600:])
        return Answer(program, 0, "", err.getvalue(), names["found"])

    def _once(self, asked: str, ask: Callable[[], Answer]) -> Answer:
        if asked not in self._answers:
            if not self.has_time():
                raise OutOfTimeError
            answer = self._answers[asked] = ask()
            if answer.code == CRASH:
                self._differ("crash", [(answer, answer.err)])
        return self._answers[asked]

    # ---- choices -------------------------------------------------------------------------------------------

    def some(self, what: str, items: Iterable[T], number: int, name: Callable[[T], object] = str) -> list[T]:
        """Choose some of the items, by their names and not by what else is there: when the cluster is made
        smaller, the choice stays."""
        seed = f"{self.cluster.name} {self.relation} {what}"

        def place(item: T) -> bytes:
            return hashlib.sha256(f"{seed} {name(item)}".encode()).digest()

        return sorted(items, key=place)[:number]

    def one(self, what: str, items: Iterable[T], name: Callable[[T], object] = str) -> T:
        """Choose one of the items."""
        return self.some(what, items, 1, name)[0]

    # ---- comparisons ---------------------------------------------------------------------------------------

    def same(self, about: str, one: Answer, other: Answer, view: Callable[[Answer], object]) -> None:
        """Compare what two answers say, as a function sees it."""
        here, there = view(one), view(other)
        self.expect(here == there, about, (one, _beside(here, there)), (other, _beside(there, here)))

    def expect(self, holds: bool, about: str, *told: Told, known: str = "") -> None:
        """Note a comparison, and a difference if something does not hold that should.

        Parameters
        ----------
        known : str, optional
            The line of known.toml by which the answers may differ.
        """
        if known and known not in KNOWN:
            raise LookupError(f"known.toml has no line {known}")
        self.comparisons += 1
        if not holds:
            self._differ(about, told, known)

    def _differ(self, about: str, told: Iterable[Told], known: str = "") -> None:
        text = "\n".join(f"{answer.asked}\n  {said}" for answer, said in told)
        files = {name: content for name, content in self._files.items() if name in text}
        self.differences.append(Difference(self.relation, about, self.cluster.name, text, files, known))


def _beside(said: object, other: object) -> str:
    """What an answer says, as far as the other one says something else."""
    if isinstance(said, dict) and isinstance(other, dict):
        said = {name: value for name, value in said.items() if other.get(name) != value}
    elif isinstance(said, list) and isinstance(other, list):
        said = [item for item in said if item not in other]
    text = json.dumps(said, default=str)
    return text if len(text) < 700 else f"{text[:700]}…"


class Place(NamedTuple):
    """Pods of a workload on a node; "" for none."""

    namespace: str
    workload: str
    node: str
    pods: int


def places(scheduler: mo.Scheduler) -> list[Place]:
    """Where the pods of a scheduler are."""
    client = scheduler.client
    above = {one.metadata.uid: one.metadata.controller() for one in client.list("ReplicaSet")[0]}
    counts = Counter[tuple[str, str, str]]()
    for pod in client.list("Pod")[0]:
        if pod.metadata.deletion_timestamp is not None or pod.status.phase in ("Succeeded", "Failed"):
            continue
        owner = pod.metadata.controller()
        owner = (owner and above.get(owner.uid)) or owner
        workload = f"{owner.kind.lower()}/{owner.name}" if owner else f"pod/{pod.name}"
        hashed = pod.metadata.labels.get("pod-template-hash")
        if hashed and workload.endswith(f"-{hashed}"):  # the dump lacks the ReplicaSet, or its owner
            workload = workload.removesuffix(f"-{hashed}").replace("replicaset/", "deployment/")
        counts[pod.namespace, workload, pod.spec.node_name] += 1
    return [Place(*at, pods) for at, pods in sorted(counts.items())]
