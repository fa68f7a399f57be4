"""docs/gates.md, made of the table of feature gates."""

from __future__ import annotations

from itertools import groupby

from moorage.releases.feature_gates import GATES, Effect, Gate

HEAD = """# Feature gates

What `--feature-gates`, `Scheduler(feature_gates=…)` and the files of `moorage perf` may set: the gates of
kube-scheduler v1.36. Those of other releases, such as the gates of pod groups in 1.37, are in
[releases](releases.md#feature-gates-that-differ). This page is made of `python/moorage/releases/` by
`python -m tests.house.gates_page`.

- **Built**: decisions follow the gate. Locked gates keep their default, as upstream.
- **No effect**: the gate is accepted; no decision depends on it.
- **Not built**: only the default is accepted, any other value is refused by name.

`AllAlpha` and `AllBeta` set all gates of their stage that are not set themselves. Anything else is an
`unrecognized feature gate`; so are GA and deprecated gates that the scheduler does not read, which
`kube-scheduler --help` does not list. Where a gate is on, those that it needs must be on; in the files of
`moorage perf` it is off otherwise, unless it is set.
"""


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    for effect, title in ((Effect.BUILT, "Built"), (Effect.NOT_BUILT, "Not built")):
        parts.append(f"\n## {title}\n\n| gate | stage | default | |\n|---|---|---|---|\n")
        parts += [_row(gate) for gate in _with(effect)]
    parts.append("\n## No effect\n\n| gates (on by default where marked +) | why |\n|---|---|\n")
    for reason, gates in groupby(sorted(_with(Effect.NONE), key=_reason), key=_reason):
        names = ", ".join(f"{gate.name}{'+' if gate.default else ''}" for gate in gates)
        parts.append(f"| {names} | {reason} |\n")
    return "".join(parts)


def _with(effect: Effect) -> list[Gate]:
    return [gate for gate in GATES.values() if gate.effect is effect]


def _reason(gate: Gate) -> str:
    return gate.reason


def _row(gate: Gate) -> str:
    stage = f"{gate.stage.value}, locked" if gate.is_locked else gate.stage.value
    needs = f" Needs {', '.join(gate.needs)}." if gate.needs else ""
    return f"| {gate.name} | {stage} | {'on' if gate.default else 'off'} | {gate.reason}{needs} |\n"


if __name__ == "__main__":
    print(page(), end="")
