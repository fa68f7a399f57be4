"""Every parameter of every public verb refuses values of other types, by its name, and changes nothing."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest
from tests.conftest import NIGHTLY
from tests.make import node, pod
from tests.scheduler.transactions.test_transactions import everything, world

import moorage as mo
from moorage.errors import MoorageError

WRONG: dict[str, Any] = {
    "None": None, "3.5": 3.5, "nan": math.nan, "-1": -1, "2**63": 2**63, "2**200": 2**200, "bytes": b"\xff",
    "object": object(), "class": mo.Pod, "[None]": [None], "[1, 2]": [1, 2], "[['x']]": [["x"]], "{1}": {1},
    "lambda": lambda: None, "slice": slice(1), "x": "x", "": "", "{}": {}, "True": True,
}  # fmt: skip
GOOD = {
    "count": 1, "like": "c", "template": pod("t"), "pod": pod("t"), "pods": [pod("t")], "n": 1,
    "nodes": ["c"], "references": "default/p0", "reference": "deploy/x", "replicas": 1, "zone": "z",
    "pod_group": "podgroup/g", "name": "c",
    "what": node("new"), "taints": "a=b:NoSchedule", "labels": "a=b", "bound": None, "other": None,
}  # fmt: skip
HOLDERS = {"": mo.Scheduler, "ask": mo.Questions, "change": mo.ClusterChanges}
VERBS = [
    (holder, name)
    for holder, kind in HOLDERS.items()
    for name, verb in inspect.getmembers(kind, inspect.isfunction)
    if not name.startswith("_")
    and name != "save"  # writes files
    and len(inspect.signature(verb).parameters) > 1
]


def verb_of(one: mo.Scheduler, holder: str, name: str) -> Callable[..., object]:
    return getattr(getattr(one, holder) if holder else one, name)


@pytest.mark.parametrize(("holder", "name"), VERBS)
def test_a_wrong_argument_is_refused(holder: str, name: str) -> None:
    one = world()
    before = everything(one)
    verb = verb_of(one, holder, name)
    for parameter in inspect.signature(verb).parameters.values():
        for told, value in list(WRONG.items())[:: 1 if NIGHTLY else 2]:
            args, kwargs = arguments(verb, parameter, value)
            try:
                verb(*args, **kwargs)
            except (MoorageError, ValueError):
                pass
            except TypeError as error:
                names = parameter.name, "<lambda>()"  # of a callable Python says it itself, when it is called
                if not any(name in str(error) for name in names):
                    raise AssertionError((parameter.name, told)) from error
            except Exception as error:
                raise AssertionError(f"{name}({parameter.name}={told}): {error!r}") from error
            else:
                one = world()
                verb = verb_of(one, holder, name)
            assert everything(one) == before, (parameter.name, told)


def test_an_item_is_told_with_its_fields() -> None:
    wanted = r"a sequence of ResourceRequest\(workload, container, requests, by\), not list of dict$"
    with pytest.raises(TypeError, match=wanted):
        world().change.set_requests([{"workload": "deploy/x"}])  # type: ignore[list-item]


def arguments(
    verb: Callable[..., Any], wrong: inspect.Parameter, value: Any
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments that are right but for one."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for each in inspect.signature(verb).parameters.values():
        given = value if each.name == wrong.name else GOOD.get(each.name)
        if each.name != wrong.name and each.default is not each.empty:
            continue
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.VAR_POSITIONAL) and each.default is each.empty:
            args.append(given)
        else:
            kwargs[each.name] = given
    return args, kwargs
