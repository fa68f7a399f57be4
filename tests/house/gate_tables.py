"""``python -m tests.house.gate_tables VERSION KUBERNETES CLIENT-GO``: the feature gates of a release.

Prints ``python/moorage/kube/releases/gates/vVERSION.txt`` from the sources of a release, which
``go mod download k8s.io/kubernetes@vVERSION.PATCH`` and ``… k8s.io/client-go@…`` leave on the disk.
With two arguments, ``VECTORS BEFORE``, it prints it from ``gates.jsonl.gz`` (a gate per line, with the
errors of setting it alone) and the file of the release before. docs/guide/adding_a_release.md says when
this is done.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.conformance.vectors import decode, lines

LIST = "test/compatibility_lifecycle/reference/versioned_feature_list.yaml"
NAMES = {"RuntimeClassInImageCriAPI": "RuntimeClassInImageCriApi"}
"""Gates that the list calls by their identifier, and what users write."""

SPEC = re.compile(r'MustParse\("(?P<version>[\d.]+)"\), Default: (?P<default>\w+), (?P<rest>[^\n]*)\}')


class Spec(NamedTuple):
    """What a release says of a gate."""

    since: tuple[int, ...]
    stage: str
    is_on: bool
    is_locked: bool


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def listed(folder: Path) -> Iterator[tuple[str, Spec]]:
    """The gates of the list, a pair for each of their versions."""
    for gate in yaml.safe_load((folder / LIST).read_text()):
        for one in gate["versionedSpecs"]:
            if "minCompatibilityVersion" in one:
                continue  # --min-compatibility-version is one minor version lower by default
            spec = Spec(_version(one["version"]), one["preRelease"], one["default"], one["lockToDefault"])
            yield NAMES.get(gate["name"], gate["name"]), spec


def of_client(folder: Path) -> Iterator[tuple[str, Spec]]:
    """The gates of client-go, which the list leaves out."""
    text = (folder / "features/known_features.go").read_text()
    for name, default, stage in re.findall(r"\n\t(\w+): +\{Default: (\w+), PreRelease: (\w+)\}", text):
        yield name, Spec((1, 0), stage, default == "true", False)  # up to v1.34
    table = text.partition("var defaultVersionedKubernetesFeatureGates")[2]
    for name, specs in re.findall(r"\n\t(\w+): \{\n(.*?)\n\t\}", table, re.DOTALL):
        for one in SPEC.finditer(specs):
            stage = re.search(r"PreRelease: (\w+)", one["rest"])
            assert stage is not None
            locked = "LockToDefault: true" in one["rest"]
            yield name, Spec(_version(one["version"]), stage[1], one["default"] == "true", locked)


def needs(folder: Path) -> dict[str, list[str]]:
    """The gates that a gate depends on."""
    text = (folder / "pkg/features/kube_features.go").read_text()
    table = text.partition("GateDependencies = map")[2]
    found = {}
    for name, body in re.findall(r"\n\t([\w.]+): +\{(.*?)\}", table, re.DOTALL):
        names = re.sub(r"featuregate\.Feature\(\w+\.(\w+)\)", r"\1", re.sub(r"//[^\n]*", "", body))
        found[name.rpartition(".")[2]] = [one.rpartition(".")[2] for one in re.findall(r"[\w.]+", names)]
    return found


def table(version: str, kubernetes: Path, client: Path) -> str:
    """The text of the file: a gate per line, with its stage, its default, and what it needs."""
    newest: dict[str, Spec] = {}
    for name, spec in (*listed(kubernetes), *of_client(client)):
        if spec.since <= _version(version) and (name not in newest or spec.since >= newest[name].since):
            newest[name] = spec  # of two specifications of one version the last counts
    depends, rows = needs(kubernetes), []
    for name, spec in sorted(newest.items()):
        wanted = sorted(one for one in depends.get(name, ()) if not newest[one].is_locked)
        words = name, spec.stage, "on" if spec.is_on else "off", "locked" * spec.is_locked
        rows.append(" ".join((*filter(None, words), *(f"needs:{one}" for one in wanted))))
    return "\n".join(rows) + "\n"


NEEDS = re.compile(r"(\w+) is enabled, but depends on features that are disabled: \[([\w ]+)\]")


def recorded(vectors: Path, before: Path) -> str:
    """The text of the file, from recorded gates. Errors do not tell what each gate needs; of the others it is
    what they needed in the release before."""
    gates = {gate["name"]: gate for gate in map(decode, lines(vectors))}
    needed: dict[str, set[str]] = {}
    for gate in gates.values():
        for name, off in NEEDS.findall(f"{gate['on']} {gate['off']}"):
            needed.setdefault(name, set()).update(off.split())
    for line in before.read_text().splitlines():
        name, *words = line.split()
        wanted = {word.removeprefix("needs:") for word in words if word.startswith("needs:")}
        needed.setdefault(name, set()).update(
            one for one in wanted & gates.keys() if not gates[one]["locked"]
        )
    rows = []
    for name, gate in sorted(gates.items()):
        if name not in ("AllAlpha", "AllBeta"):
            stage = gate["stage"].title() if gate["stage"] else "GA"
            words = name, stage, "on" if gate["default"] else "off", "locked" * gate["locked"]
            rows.append(
                " ".join((*filter(None, words), *(f"needs:{one}" for one in sorted(needed.get(name, ())))))
            )
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(recorded(Path(sys.argv[1]), Path(sys.argv[2])), end="")
        sys.exit()
    print(table(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])), end="")
