"""docs/gates.md, made of the tables of feature gates of all releases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moorage.kube.releases import RELEASES, gates_of
from tests.doors.kube import OF_NO_INTEREST, OF_OTHERS, OF_THE_SCHEDULER, Effect, Stage

HEAD = """# Feature gates

This page lists the feature gates of kube-scheduler that moorage knows, and what each does here. Set them as
there: with `--feature-gates NAME=true`, or `Scheduler(feature_gates={"NAME": True})`. The
[release](releases.md) that decides determines the defaults.

- A gate that is marked as refused can only have its default. Any other value is an error that names the
  gate.
- A locked gate keeps its default, as in kube-scheduler.
- A gate that the kube-scheduler of the release does not know is an `unrecognized feature gate`. The error
  names the releases that have it. Gates that are generally available or deprecated are known, although
  `kube-scheduler --help` does not list them.
- A gate that needs others can only be on if these are.
- `AllAlpha` and `AllBeta` set all gates of their stage, except those that you set yourself.

In the tables, ALPHA means alpha and BETA beta; gates without a letter are GA. **L** means locked, **R**
refused.

## Gates that change decisions

"""
ALPHA, BETA = "\N{GREEK SMALL LETTER ALPHA}", "\N{GREEK SMALL LETTER BETA}"
NO_EFFECT = """
## Gates without effect

All other gates of a release are accepted, and no decision depends on them:

"""
FOOT = """
Their names are in `python/moorage/kube/releases/gates/`.

<!-- Made by python -m tests.house.gates_page. -->
"""


def page() -> str:
    """The text of the page."""
    built = [name for name in _scheduler_gates() if _is_built(name)]
    refused = [name for name in _scheduler_gates() if not _is_built(name)]
    parts = [HEAD.replace("ALPHA", ALPHA).replace("BETA", BETA), *_table(built)]
    parts += ["\n## Gates that are refused in every release\n\n", *_table(refused), NO_EFFECT]
    for name, (effect, reason) in OF_THE_SCHEDULER.items():
        if effect is Effect.NONE:
            parts.append(f"- {name}: {reason}\n")
    parts += [f"- {_names(names)}: {reason}\n" for reason, names in OF_OTHERS.items()]
    parts.append(f"- All others: {OF_NO_INTEREST[1]}\n")
    return "".join((*parts, FOOT))


def _names(gates: list[str]) -> str:
    return gates[0] if len(gates) == 1 else f"{len(gates)} others"


def _scheduler_gates() -> list[str]:
    return sorted(name for name, (effect, _) in OF_THE_SCHEDULER.items() if effect is not Effect.NONE)


def _by_release(name: str) -> Mapping[str, Any | None]:
    return {version: gates_of(release).get(name) for version, release in RELEASES.items()}


def _is_built(name: str) -> bool:
    return any(gate and gate.effect in (Effect.BUILT, Effect.RULES) for gate in _by_release(name).values())


def _table(names: list[str]) -> Iterator[str]:
    yield f"| gate, and what it does if it is on | {' | '.join(RELEASES)} |\n|---|{'---|' * len(RELEASES)}\n"
    for name in names:
        gates = _by_release(name)
        needs = sorted({need for gate in gates.values() if gate for need in gate.needs})
        rule = OF_THE_SCHEDULER[name][1] + (f" Needs {', '.join(needs)}." if needs else "")
        yield f"| **{name}**<br>{rule} | {' | '.join(map(_cell, gates.values()))} |\n"


def _cell(gate: Any | None) -> str:
    if gate is None:
        return "-"
    stage = {
        Stage.ALPHA: f"{ALPHA}\N{NO-BREAK SPACE}",
        Stage.BETA: f"{BETA}\N{NO-BREAK SPACE}",
        Stage.GA: "",
    }[gate.stage]
    marks = "\N{NO-BREAK SPACE}L" * gate.is_locked + "\N{NO-BREAK SPACE}R" * (
        gate.effect is Effect.NOT_BUILT and not gate.is_locked
    )
    return f"{stage}{'on' if gate.default else 'off'}{marks}"


if __name__ == "__main__":
    print(page(), end="")
