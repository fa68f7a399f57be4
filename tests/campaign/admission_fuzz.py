"""Changes valid objects and asks a real API server and moorage about them: each difference is a vector.

``python -m tests.campaign.admission_fuzz`` starts etcd and kube-apiserver of the folder MOORAGE_SERVERS. All
requests are dry runs. The seed is printed; with it, the same objects come again. The differences are written
as lines that ``python -m tests.conformance FILE`` plays, and counted by rule. Rules that are known to differ
stand in admission_known.txt; a run fails on others alone.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import os
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from pathlib import Path
from typing import Any

from tests.conformance.admission import check_admission, wrong_rules
from tests.doors.kube import unknown_fields
from tests.live.kit.api_answers import ApiAnswers
from tests.live.kit.control_plane import ControlPlane

Json = dict[str, Any]
Answers = Callable[[Json], Json]
"""Returns the answer of an API server to a request."""
BASES = Path(__file__).with_name("valid_objects.jsonl.gz")
"""Objects that kube-apiserver v1.36.2 accepted: some of each kind of the vectors of family `validate`."""
KNOWN = Path(__file__).with_name("admission_known.txt")
"""The rules by which moorage is known to differ, one a line; see `wrong_rules`."""
LEAST = 20_000
"""Number of objects of a whole run."""
_NAMES = ("", "a", "UPPER", "a.b", "-a", "a-", "a_b", "a/b", "x" * 63, "x" * 64, "x" * 254, "example.com/a")
_TEXTS = (
    *_NAMES,
    "*",
    "10%",
    "101%",
    "0",
    "-1",
    "1.5",
    "8Gi",
    "1Z",
    "/abs",
    "../up",
    "Always",
    "Never",
    "null",
)
_NUMBERS = (-1, 0, 1, 2, 63, 255, 1023, 65535, 65536, 2**31 - 1, 2**31, 2**53)
_TYPES: tuple[Any, ...] = ("text", 3, True, 1.5, [], {}, ["a"], {"a": "b"})


# ---- objects -----------------------------------------------------------------------------------------------


def base_objects() -> list[Json]:
    """Return objects that the API server accepts."""
    with gzip.open(BASES, "rt") as lines:
        return [*map(json.loads, lines)]


def namespaces_of(objects: Sequence[Json]) -> list[str]:
    """Return the names of the namespaces of objects."""
    names = (obj["metadata"].get("namespace") for obj in objects)
    return sorted({name for name in names if name})


class Changes:
    """Makes changed objects, about half of which a server refuses.

    Parameters
    ----------
    bases : sequence of dict
        Valid objects.
    seed : int
        The same one makes the same objects, for the same answers.
    """

    def __init__(self, bases: Sequence[Json], seed: int) -> None:
        self._bases, self._random = list(bases), random.Random(seed)
        self._values: dict[tuple[str, str], list[Any]] = {}  # by struct and field, as valid objects have them
        for obj in self._bases:
            for struct, value in _parts(obj, struct_of(obj["kind"], obj["apiVersion"])):
                for name, item in value.items():
                    self._values.setdefault((struct, name), []).append(item)
        self._balance = 0  # refused objects less accepted ones

    def note(self, is_refused: bool) -> None:
        """Note an answer: the next object is changed in a milder or in a harsher way."""
        self._balance += 1 if is_refused else -1

    def object(self) -> Json:
        """Return the next object."""
        chance = self._random
        obj = copy.deepcopy(chance.choice(self._bases))
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            parts = [part for part in _parts(obj, struct_of(obj["kind"], obj["apiVersion"])) if part[0]]
            struct, value = chance.choice(parts)
            if self._balance > 0:
                self._change_mildly(struct, value)
            else:
                self._change(struct, value)
        return obj

    def _change_mildly(self, struct: str, value: Json) -> None:
        """Give a field a value that another valid object has there."""
        names = [name for name in _changeable(struct) if (struct, name) in self._values]
        if names:
            name = self._random.choice(names)
            value[name] = copy.deepcopy(self._random.choice(self._values[struct, name]))

    def _change(self, struct: str, value: Json) -> None:
        chance = self._random
        name = chance.choice(_changeable(struct) or ["name"])
        if name not in value and chance.random() < 0.3:
            self._change_mildly(struct, value)
        elif name in value and chance.random() < 0.3:
            del value[name]
        elif isinstance(value.get(name), list) and value[name] and chance.random() < 0.5:
            value[name].append(copy.deepcopy(chance.choice(value[name])))
        elif chance.random() < 0.03:
            value[f"{name}x"] = "unknown"
        else:
            value[name] = self._other(value.get(name))

    def _other(self, item: Any) -> Any:
        """Return another value in the place of one, mostly of its type."""
        chance = self._random
        if chance.random() < 0.05:
            return chance.choice(_TYPES)
        if isinstance(item, bool):
            return not item
        if isinstance(item, int):
            return chance.choice(_NUMBERS)
        if isinstance(item, dict) and item and all(isinstance(each, str) for each in item.values()):
            return item | {chance.choice(_NAMES): chance.choice(_TEXTS)}
        if isinstance(item, dict | list):
            return type(item)()
        if isinstance(item, str) and item and chance.random() < 0.5:
            return chance.choice((f"{item}x", item.upper(), item[:-1], f" {item}"))
        return chance.choice(_TEXTS)


fields_of, struct_of = unknown_fields.fields_of, unknown_fields.struct_of
_HEAD = ("apiVersion", "kind", "status", "managedFields")
_OF_SERVER = ("namespace", "uid", "resourceVersion", "creationTimestamp", "selfLink")
"""Fields of metadata that a path has, or that tell objects of a server from manifests."""


def _changeable(struct: str) -> list[str]:
    """Return the fields of a struct that a run changes."""
    kept = (*_HEAD, *_OF_SERVER) if struct == "meta.v1.ObjectMeta" else _HEAD
    return [name for name in fields_of(struct) if name not in kept]


def _parts(value: Any, struct: str) -> Iterator[tuple[str, Json]]:
    """Yield the structs of an object with their names."""
    if not isinstance(value, dict):
        return
    yield struct, value
    for name, target in fields_of(struct).items():
        item, part = value.get(name), target.rstrip("[]{}")
        if not part or name in _HEAD:
            continue
        items = item if isinstance(item, list) else [item]
        if target.endswith("{}"):
            items = [*item.values()] if isinstance(item, dict) else []
        for each in items:
            yield from _parts(each, part)


# ---- a run -------------------------------------------------------------------------------------------------


class Report:
    """What a run has found.

    Attributes
    ----------
    refused, objects : int
    differences : list of dict
        Vectors, with what moorage says in ``difference`` and the rules in ``rules``.
    """

    def __init__(self) -> None:
        self.objects = self.refused = 0
        self.differences: list[Json] = []

    def rules(self) -> Counter[str]:
        """Return how often each rule differs."""
        return Counter(rule for vector in self.differences for rule in vector["rules"])

    def unknown(self, known: Set[str]) -> list[str]:
        """Return the rules that differ and are not among known ones."""
        return sorted(self.rules().keys() - known)

    def text(self) -> str:
        """Return the numbers, and the rules that differ."""
        share = 100 * self.refused / max(self.objects, 1)
        lines = [f"{self.objects} objects, {self.refused} refused ({share:.0f} %)"]
        lines.append(f"{len(self.differences)} differences")
        return "\n".join(lines + [f"{number:6} {rule}" for rule, number in self.rules().most_common()])


def run(changes: Changes, answers: Answers, setup: Sequence[Json], is_over: Callable[[int], bool]) -> Report:
    """Compare answers until it is over."""
    report = Report()
    while not is_over(report.objects):
        obj = changes.object()
        request = {"verb": "create", "object": obj}
        result = answers(request)
        is_refused = not 0 < result["code"] < 400
        changes.note(is_refused)
        report.objects += 1
        report.refused += is_refused
        vector = {"name": f"fuzz-{report.objects:06}-{obj['kind']}", "family": "validate", "release": ""}
        vector |= {"note": "", "setup": [*setup], "request": request, "result": result}
        report.differences += _differences(vector)
    return report


def _differences(vector: Json) -> Iterator[Json]:
    """Yield a vector if moorage answers otherwise; an error that is no refusal is a difference, too."""
    try:
        for text in check_admission(vector, 1):
            yield vector | {"difference": text, "rules": [*wrong_rules(vector)]}
    except Exception as error:  # a fuzzer looks for these
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"fails {vector['request']['object']['kind']} {type(error).__name__} in {frame.name}"
        yield vector | {"difference": f"{type(error).__name__}: {error}", "rules": [where]}


def _namespace(server: ApiAnswers, name: str) -> Iterator[Json]:
    """Make a namespace and its service account, and yield them as they are stored."""
    space: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    account: Json = {"apiVersion": "v1", "kind": "ServiceAccount"}
    for obj in (space, account | {"metadata": {"name": "default", "namespace": name}}):
        result = server.answer({"verb": "create", "object": obj}, is_dry=False)
        if "object" in result:  # the server makes the namespace `default` itself
            yield result["object"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run for some seconds; 1 if there are new differences, or too few objects."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--least", type=int, default=LEAST, help="number of objects that a run has to reach")
    parser.add_argument("--out", type=Path, default=Path("admission_differences.jsonl"))
    given = parser.parse_args(arguments)
    folder = os.environ.get("MOORAGE_SERVERS")
    if not folder:
        parser.error("MOORAGE_SERVERS names no folder of binaries; make fuzz-admission builds them")
    given.out.touch()  # an error now, not after the run
    print(f"seed {given.seed}", flush=True)
    bases = base_objects()
    with tempfile.TemporaryDirectory() as scratch:
        plane = ControlPlane(Path(folder), Path(scratch))
        try:
            plane.start_etcd()
            plane.start_apiserver(disabled="")
            server = ApiAnswers(plane.port)
            setup = [obj for name in ("default", *namespaces_of(bases)) for obj in _namespace(server, name)]
            end = time.monotonic() + given.seconds
            report = run(Changes(bases, given.seed), server.answer, setup, lambda _: time.monotonic() > end)
        finally:
            plane.stop()
    print(report.text(), flush=True)
    unknown = report.unknown({*KNOWN.read_text().splitlines()})
    with given.out.open("w") as file:
        file.writelines(json.dumps(vector) + "\n" for vector in report.differences)
    if report.differences:
        print(f"python -m tests.conformance {given.out} plays them", flush=True)
    if unknown:
        print("\n".join([f"{len(unknown)} of the rules are not in {KNOWN.name}:", *unknown]), flush=True)
    if report.objects < given.least:
        print(f"fewer than {given.least} objects", flush=True)
    return int(bool(unknown) or report.objects < given.least)


if __name__ == "__main__":
    sys.exit(main())
