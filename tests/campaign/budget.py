"""A plugin of pytest: state machines with a larger budget, and the number of steps that they took.

MOORAGE_BUDGET is the factor by which the examples of each machine grow, MOORAGE_STEPS the file that gets the
steps.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine

STEPS: Counter[str] = Counter()
_check_invariants = RuleBasedStateMachine.check_invariants


def counted(machine: RuleBasedStateMachine, *arguments: object, **options: object) -> None:
    """Check the invariants, as after each step, and count it."""
    STEPS[type(machine).__name__] += 1
    _check_invariants(machine, *arguments, **options)  # type: ignore[arg-type]


def pytest_configure(config: pytest.Config) -> None:
    RuleBasedStateMachine.check_invariants = counted  # type: ignore[method-assign, assignment]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the machines alone, with their larger budget."""
    factor = int(os.environ["MOORAGE_BUDGET"])
    kept = []
    for item in items:
        case = getattr(item, "cls", None)
        held = getattr(case, "settings", None)
        if item.name == "runTest" and isinstance(held, settings):
            kept.append(item)
    for case in {item.cls for item in kept}:  # type: ignore[attr-defined]
        case.settings = settings(
            case.settings,
            max_examples=case.settings.max_examples * factor,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
    items[:] = kept


def pytest_sessionfinish() -> None:
    Path(os.environ["MOORAGE_STEPS"]).write_text(json.dumps(STEPS))
