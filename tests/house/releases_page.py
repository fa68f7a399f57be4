"""docs/releases.md, made of the records of the releases."""

from __future__ import annotations

import re
from pathlib import Path

from moorage.kube.releases import DEFAULT, RELEASES, Release
from tests.doors.kube import described

HEAD = """# Kubernetes releases

moorage makes the decisions of kube-scheduler {patches}.
Choose the release with
`--kubernetes-version {versions}`, or in Python with
`Scheduler(kubernetes_version="{default}")`.
{preview}
## Which release decides

If you do not choose a release, a command that loads a cluster takes the first of these that it finds:

1. The image tag of kube-scheduler in the namespace kube-system, or else of kube-apiserver, or else of
   kube-controller-manager; of several tags the newest. An image that has all of them counts too
   (`hardened-kubernetes` of RKE2).
2. The version of the API server: from the server itself, from `cluster_version.json` of a support bundle, or
   from the output of `kubectl version -o json` among the files.
3. The newest kubelet (`status.nodeInfo.kubeletVersion`).
4. Otherwise {default}, as for traces, `moorage replay` and `Scheduler` in Python.

The line `rests on` of an answer names the release; the reason is on stderr and in `release` of `-o json`. If
the release is not supported, the nearest one decides, and a warning names both. `moorage scheduler` uses the
release of its API server.

## What changed from release to release

Each difference has a name, which `moorage compare` prints to show
[what an upgrade changes](guide/before_you_upgrade.md). A behaviour is on in the releases of its heading, and
off in the others. [The tables below](#controllers-and-the-api-server) list what changed in controllers and
the API server.
"""
PREVIEW = """
Kubernetes {0.version} is not out yet: moorage follows its beta {0.patch}, so that you can ask early what an
upgrade changes. A command whose answer rests on it warns of that.
"""
OF_THE_BETA = """
## What is not exact in the beta of 1.38

The rules for plain pods, devices, volumes, the queue, preemption of single pods and configurations are
corrections that are going to stay. What moorage does not decide as v1.38.0-beta.0, as no recorded
decision shows it:

- **Errors of devices**: both spellings of a capacity in one request, an attribute that cannot be read, and
  an allocation that has consumed a negative capacity are errors, in moorage's words.
- **distinctAttribute** compares versions as texts, and does not fail where an attribute cannot be read.
- **Sums at the bound of 64 bits**: a dry run of preemption does not count the pods of such a node anew.
- **Several PlacementGenerate plugins** in one profile are refused.
- **Texts**: where CEL suggests a name for an undeclared one, moorage takes a name that differs in one
  letter. An error about the value of `KIND` calls the field `kind`; Go 1.27 has the spelling of the text.

Feature gates are read from `--feature-gates`, not from the flags of a control plane's pods.
"""
NOT_EXACT = """
## What is not exact

- **1.34**: Devices are allocated as in v1.35. Pods with claims that get no node have a warning.
- **1.35**: With some gates off, counters that a refused device took are given back as in v1.36.3, and
  binding conditions have the messages of v1.36.3.
- **1.37**: Pod groups have [a list of their own](groups.md#what-is-not-exact). Pods with bindMountOptions
  ask for no node that declares them (gate VolumeBindMountOptions, off by default).
- **1.38**: A beta: see above. Of pod groups, [some parts may change](#pod-groups-in-the-beta).

### Pod groups in the beta

moorage decides as v1.38.0-beta.0 does. Its sources call these parts unfinished, so the release may differ:

- **The cost of a node** (`nodes_are_ranked_by_victims`): all victims on the node count, though some may stay.
  Violated budgets are counted once, as if all victims of the cluster went. All nodes are searched, not only
  those of the lowest rank.
- **Nominations in trees** of groups: no placement is tried first for them.
- **Sums of a placement** wrap beyond 64 bits, where those of a node no longer do.
- **Steps of the cycle of a group** move to other extension points.
- **Texts** changed between the alphas, and may change again; the gates of groups may come to be on by
  default.

One thing moorage cannot know. Where percentageOfPlacementsToScore asks for fewer placements than there are
(by default from 56 nodes on), kube-scheduler draws them by chance; moorage takes them in the order of their
first nodes.

## Feature gates

[Feature gates](gates.md) lists the default of every gate in every release.

<!-- Made from python/moorage/kube/releases/release.py, by python -m tests.house.releases_page. -->
"""
RULES = Path(__file__).with_name("rules_by_release.md")
"""What changed outside of kube-scheduler."""
DATA = ("version", "patch", "plugins", "refused_gates", "scheme")
"""Fields that are not shown: names, data, and the place in upstream's code that errors about kinds name."""


def page() -> str:
    """The text of the page."""
    patches = [release.patch for release in RELEASES.values()]
    texts = {name: text.replace("``", "`") for name, text in described().items() if name not in DATA}
    parts = [
        HEAD.format(
            versions="|".join(RELEASES),
            patches=f"{', '.join(patches[:-1])} or {patches[-1]}",
            default=DEFAULT,
            preview="".join(PREVIEW.format(one) for one in RELEASES.values() if one.is_preview),
        )
    ]
    periods = {name: _period(name) for name in texts}
    for period in sorted({one for one in periods.values() if one}):
        parts.append(f"\n### {_title(period)}\n\n")
        parts += [f"- `{name}`: {text}\n" for name, text in texts.items() if periods[name] == period]
    parts.append(f"\n### Settings with several values\n\n| setting | {' | '.join(RELEASES)} |\n")
    parts.append(f"|---|{'---|' * len(RELEASES)}\n")
    several = [name for name in texts if not periods[name]]
    parts += [f"| `{name}` | {' | '.join(map(_value, _values(name)))} |\n" for name in several]
    parts.append("\n")
    parts += [f"- `{name}`: {texts[name]}\n" for name in several]
    rules = RULES.read_text()
    named = {name for name in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", rules) if name not in periods}
    assert not named, named
    return "".join((*parts, "\n", rules.rstrip("\n") + "\n", OF_THE_BETA, NOT_EXACT))


def _values(name: str) -> list[object]:
    return [getattr(release, name) for release in RELEASES.values()]


def _period(name: str) -> tuple[str, ...]:
    """The releases in which a behaviour is on; none for one that is more than on or off."""
    values = _values(name)
    if not all(isinstance(value, bool) for value in values):
        return ()
    return tuple(version for version, value in zip(RELEASES, values, strict=True) if value)


def _title(period: tuple[str, ...]) -> str:
    first, last = min(RELEASES), max(RELEASES)
    if len(period) == 1 and period[0] not in (first, last):
        return f"Only in {period[0]}"
    return f"Since {period[0]}" if period[-1] == last else f"Until {period[-1]}"


def _value(value: object) -> str:
    return (", ".join(value) if isinstance(value, tuple) else str(value)) or "-"


assert set(Release._fields) == described().keys()

if __name__ == "__main__":
    print(page(), end="")
