"""docs/releases.md, made of the records of the releases."""

from __future__ import annotations

from dataclasses import fields

from moorage.releases import DEFAULT, RELEASES, Release, gates_of
from moorage.releases.behaviours import described

HEAD = """# Kubernetes releases

`--kubernetes-version {versions}` and `Scheduler(kubernetes_version=…)` decide as the
kube-scheduler of that release: {patches}. Each release is a record in
`python/moorage/releases/release.py`; `python -m tests.house.releases_page` makes this page of the records.

## Which release decides

Commands that load a cluster take the first of these that is there, and say so in `-o json` (`release`,
with the reason) and on stderr (`release: …`); the last is on stderr only with `--upgrade-from`:

1. `--kubernetes-version`
2. the tag of the image of a kube-scheduler in the namespace kube-system, else of a kube-apiserver, else of a
   kube-controller-manager, also where one image has them all (`hardened-kubernetes` of RKE2); of several,
   the newest
3. the version of the API server: that of `--kubeconfig`, `cluster_version.json` of a support bundle, or the
   output of `kubectl version -o json` among the files (`serverVersion`)
4. the newest kubelet (`status.nodeInfo.kubeletVersion`)
5. {default}

A release that is not there is decided by the nearest one, with a warning. What has no nodes of a cluster
(configurations, traces, files of scheduler_perf), `moorage replay` and `Scheduler` in Python decide as
{default} unless they are told otherwise. `moorage scheduler` decides as its API server.
"""
NOT_EXACT = """
## What is not exact

| release | |
|---|---|
| 1.34 | Devices: the allocator is that of v1.35. Pods without a node that have claims get a warning. |
| 1.35 | Devices, with gates that are off: counters that a refused device took are given back as in v1.36.3, \
and binding conditions have the texts of v1.36.3. |
| 1.37 | Pod groups: [groups](groups.md#what-is-not-exact) has the list. |
| 1.37 | Replaced nodes: when a count of claims in use falls below 0, upstream also lists the nodes anew, in \
another order; and some of these counts differ. |
| 1.37 | Pods with bindMountOptions (gate VolumeBindMountOptions, off) ask for no node that declares them. |
"""
DATA = ("version", "patch", "plugins", "refused_gates")


def page() -> str:
    """The text of the page."""
    patches = ", ".join(release.patch for release in RELEASES.values())
    parts = [
        HEAD.format(versions="|".join(RELEASES), patches=patches, default=DEFAULT),
        "\n## Behaviours\n\n",
        _head(""),
    ]
    parts += [_row(name, text) for name, text in described().items() if name not in DATA]
    parts += [NOT_EXACT, "\n## Feature gates that differ\n\n", _head("gate")]
    names = sorted({name for release in RELEASES.values() for name in gates_of(release)})
    for name in names:
        cells = [_gate(release, name) for release in RELEASES.values()]
        if len(set(cells)) > 1 and any("no effect" not in cell and cell != "-" for cell in cells):
            parts.append(f"| {name} | {' | '.join(cells)} |\n")
    parts.append("\nGates that are not listed are alike in all releases, or no decision depends on them.\n")
    return "".join(parts)


def _head(name: str) -> str:
    return f"| {name} | {' | '.join(RELEASES)} |\n|---|{'---|' * len(RELEASES)}\n"


def _row(name: str, text: str) -> str:
    values = [getattr(release, name) for release in RELEASES.values()]
    return f"| `{name}`: {text} | {' | '.join(map(_value, values))} |\n"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(value) or "-"
    return str(value) or "-"


def _gate(release: Release, name: str) -> str:
    gate = gates_of(release).get(name)
    if gate is None:
        return "-"
    locked = ", locked" if gate.is_locked else ""
    built = "" if gate.effect.value == "built" else f", {gate.effect.value}"
    return f"{'on' if gate.default else 'off'} {gate.stage.value}{locked}{built}"


assert {one.name for one in fields(Release)} == described().keys()

if __name__ == "__main__":
    print(page(), end="")
