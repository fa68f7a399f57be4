"""The core, called as nobody should: with None, with what is no row, class or ledger, and half made,
by private names too. An exception is an answer; the end of the process, or a call without end, is none."""

from __future__ import annotations

import gc
import mmap
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.conftest import NIGHTLY
from tests.core.child import limited, outcome_of
from tests.core.one_of_each import instances, kinds, modules
from tests.core.placing import place_run
from tests.make import node, pod

from moorage import Scheduler
from moorage.errors import CacheError
from moorage.kube import Cluster

# Bytes of address space that a call may take beyond what there is; filling much of it takes a second.
ROOM = 4 << 30 if NIGHTLY else 256 << 20
FAR, NOWHERE = 10**8, -(2**31)
VALUES = (None, 0, -1, FAR, "x", [], np.array([FAR, -1], np.int32))
MORE = (NOWHERE, (), {}, np.zeros(0, np.int32), np.zeros(3, np.int32), object())
INTEGERS = (0, -1, FAR, 2**31 - 1, NOWHERE, 2**63 - 1, -(2**63))
# What a parameter of a type gets beside an odd one, and its odd values; other types: an object, and None.
OF_TYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "": (None, ("", [None], (), (None, None), {}, 0.5)),
    "str": ("x", ("", None)),
    "list": ([], ([None], None)),
    "tuple": ((), ((None,), (FAR, -1, -1), None)),
    "dict": ({}, ({None: None}, {0: FAR}, {FAR: 0}, None)),
    **dict.fromkeys(("int", "int32_t", "int64_t", "uint64_t", "Py_ssize_t"), (0, INTEGERS)),
}
DTYPES = {"double": "f8", "signed char": "i1", "unsigned char": "u1"}
SECONDS = 20
"""Of processor time that the calls of one function may take; they take a thousandth of it."""
NAMES = "len getitem setitem delitem contains call eq iter repr hash bool reduce reduce_ex setstate deepcopy"
SPECIAL = {f"__{name}__" for name in NAMES.split()}
EVERY = VALUES + MORE
# The values of one or two arguments, of three (and for half-made objects), and of more, which are alike but
# for the first two.
ONE_OR_TWO, THREE, ALIKE = (EVERY, VALUES, EVERY) if NIGHTLY else (VALUES, VALUES[:4:3], VALUES[:4])


def functions() -> Iterator[Callable[..., Any]]:
    for module in modules():
        for one in vars(module).values():
            is_function = type(one).__name__ == "cython_function_or_method"
            if is_function and one.__module__ == module.__name__ and not one.__name__.startswith("__"):
                yield one


def arguments() -> Iterator[tuple[Any, ...]]:
    """All of up to three of a few values, and the same ones several times; at night, of more values."""
    for count in range(3):
        yield from product(ONE_OR_TWO, repeat=count)
    yield from product(THREE, repeat=3)
    for count in range(4, 9):
        for value in ALIKE:
            yield (value,) * count
            yield (0, *[value] * (count - 1))
            yield (0, 0, *[value] * (count - 2))


def typed_arguments(function: Callable[..., Any], held: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Arguments of the types that the first line of a docstring names, of which one is odd."""
    signature = re.match(
        r"[\w.]+\((?:self(?:, )?)?(.*)\)(?: -> .*)?$", (function.__doc__ or "").split("\n")[0]
    )
    plain, odd = list[Any](), list[tuple[Any, ...]]()
    for parameter in re.split(r", (?![^\[]*\])", signature[1]) if signature else ():
        declared = re.match(r"(?:const )?([\w ]*?) ?(\[::1\] )?(\*?\w+)(?:: ?(\w+).*)?(?:=.*)?$", parameter)
        if declared is None or declared[3].startswith("*") or declared[1] == "NewPod":
            break
        if declared[2]:
            array = np.zeros(3, DTYPES.get(declared[1]) or declared[1].removesuffix("_t"))
            values: tuple[Any, tuple[Any, ...]] = array, (array[:0], array[:2] - 1, None)
        else:
            name = declared[1] or declared[4] or ""
            values = OF_TYPES.get(name, (held.get(name), (None, 0)))
        plain.append(values[0])
        odd.append(values[1])
    yield tuple(plain)
    for at, values_at in enumerate(odd):
        for value in values_at:
            yield (*plain[:at], value, *plain[at + 1 :])


class Call:
    """What a child is about to do, for whoever reads of its end."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, 4096)

    def note(self, *what: object) -> None:
        text = repr(what).encode()[:4000]
        self.memory[: len(text) + 1] = text + b"\0"

    def __str__(self) -> str:
        return self.memory[:].split(b"\0", 1)[0].decode()


def attempts(call: Call, what: str, function: Callable[..., Any], held: Mapping[str, Any]) -> None:
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # the signal ends the process
    for given in (*typed_arguments(function, held), *arguments()):
        call.note(what, given)
        try:
            function(*given)
        except Exception:
            continue


def survives(work: Callable[[Call], object]) -> str:
    """Empty, or what the last call of a child was that ended by a signal, and which."""
    call = Call()

    def child() -> None:
        gc.freeze()  # or a collection would walk the objects of earlier tests, and copy their memory
        limited(ROOM)
        work(call)

    outcome = outcome_of(child)
    return "" if outcome == 0 else f"{call}: {outcome}"


def together() -> dict[str, list[str]]:
    """Names of classes by child: at night each has a child of its own, by day those of a room share one."""
    children: dict[str, list[str]] = {}
    for name, kind in sorted(kinds().items()):
        children.setdefault(name if NIGHTLY else kind.__module__.split(".")[2], []).append(name)
    return children


@pytest.fixture(params=together().values(), ids=together().keys())
def names(request: pytest.FixtureRequest) -> list[str]:
    """The classes that a child misuses."""
    return request.param  # type: ignore[no-any-return]


def methods(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("__") or name in SPECIAL]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return instances()


def test_no_argument_of_a_method_ends_the_process(found: dict[str, Any], names: list[str]) -> None:
    def work(call: Call) -> None:
        for name in names:
            for method in methods(kinds()[name]):
                call.note(name, method)
                what = getattr(found[name], method, None)
                if callable(what):
                    attempts(call, f"{name}.{method}", what, found)
            gc.collect()

    assert survives(work) == ""


def test_targets_of_too_few_numbers_are_refused(found: dict[str, Any]) -> None:
    changes = [(0, [], [], None)]
    for call in (
        lambda: found["DryRuns"].dry_run((), []),
        lambda: found["Preemptor"].dry_run((), []),
        lambda: found["Preemptor"].place_run((), []),
        lambda: found["Search"].verdict_after(changes, 1, ()),
        lambda: found["Search"].verdict_after([], 1, (0, 0, 0)),
    ):
        with pytest.raises(ValueError, match=r"need more than 0 values|no row"):
            call()


def misuse_half_made(call: Call, name: str, kind: type) -> None:
    try:
        one = kind.__new__(kind)
    except Exception:
        return
    for method in methods(kind):
        call.note(name, "__new__", method)
        try:
            what = getattr(one, method)
        except Exception:
            continue
        if callable(what):
            for given in [(), *product(VALUES, repeat=1), *product(THREE, repeat=2)]:
                call.note(name, "__new__", method, given)
                try:
                    what(*given)
                except Exception:
                    continue


def test_no_argument_of_a_class_and_no_half_made_object_ends_the_process(
    found: dict[str, Any], names: list[str]
) -> None:
    """With wrong arguments; and made, but not set up."""

    def work(call: Call) -> None:
        for name in names:
            attempts(call, name, kinds()[name], found)
            misuse_half_made(call, name, kinds()[name])

    assert survives(work) == ""


def settable(kind: type) -> list[str]:
    return [name for name in methods(kind) if type(getattr(kind, name)).__name__ == "getset_descriptor"]


def test_no_value_of_an_attribute_ends_the_process(found: dict[str, Any], names: list[str]) -> None:
    """An attribute, and then placing pods."""
    placer = found["Placer"]

    def work(call: Call) -> None:
        placer.search.parallel_from = 0
        for name in names:
            for attribute, value in product(settable(kinds()[name]), (*EVERY, 2**31 - 1, 2**63 - 1, 2**64)):
                call.note(name, attribute, value)
                try:
                    setattr(found[name], attribute, value)
                except Exception:
                    continue
                for use in (
                    placer.decider.decide,
                    placer.decider.find,
                    lambda pod_class: place_run(placer, pod_class, 3),
                ):
                    for pod_class in range(4):
                        try:
                            use(pod_class)
                        except Exception:
                            continue

    assert survives(work) == ""


@pytest.mark.parametrize(
    ("misuse", "error", "text"),
    [
        (lambda of: of["BackoffQueue"].until(None), TypeError, "a pod is None"),
        (lambda of: of["PodQueue"].entry_of(None), TypeError, "a pod is None"),
        (lambda of: of["rejection_of"](None), TypeError, "a pod is None"),
        (
            lambda of: of["PodQueue"].give_back([], [None], []),
            ValueError,
            "a state and rejectors of each pod",
        ),
        (lambda of: of["PodQueue"].requeue([(None, None)], ""), TypeError, "a pod is None"),
        (lambda of: of["PodQueue"].end_attempts([None], True, False), AttributeError, "'group'"),
        (lambda of: of["PodQueue"].pop(0), ValueError, "a pod at least is wanted"),
        (lambda of: of["PodBatch"].cut(1, -1), IndexError, "there is no pod -1"),
        (lambda of: of["Decider"].pick(np.zeros(0, np.int64)), ValueError, "there is nothing to choose from"),
        (lambda of: of["ObjectMap"]["?"], KeyError, "?"),
        (lambda of: of["DryRun"].victims(1), IndexError, "there is no row 1 among the 1 that were tried"),
        (lambda of: of["LowerUnits"].pods(FAR), IndexError, f"there is no unit {FAR} among"),
        (lambda of: of["DeviceView"].device(FAR), IndexError, f"there is no device {FAR} among"),
        (
            lambda of: of["NodeTable"].column("free", "cpu"),
            ValueError,
            "free is none of allocatable, requested",
        ),
        (
            lambda of: of["NodeTable"].column("requested", "cpus"),
            KeyError,
            "nodes have no resource cpus; nearest: cpu",
        ),
        (lambda of: of["NodeTable"].allocatable["x"], KeyError, "no resource x; they have cpu, memory, pods"),
        (
            lambda of: of["NodeTable"].column("requested", "cpu", 8),
            IndexError,
            "there is no ledger 8 among 1",
        ),
        (lambda of: of["NodeTree"].remove("?", 1), KeyError, "?"),
        (lambda of: of["NodeTree"].remove(of["NodeTree"].zones[0], FAR), ValueError, f"has no node {FAR}"),
        (lambda of: kinds()["VolumeCounts"]().resolve("?"), RuntimeError, "read_by was not called"),
        (lambda of: of["misfits"](of["ClusterState"], pod("x"), "?"), CacheError, "node ? is not found"),
        (lambda of: kinds()["Preemptor"](of["Decider"]).choose(), ValueError, "begin comes first"),
        (lambda of: of["Journal"].commit(0), ValueError, "there is no such transaction"),
        (lambda of: of["Buffer"].array(np.uint8, FAR), ValueError, f"{FAR} items of a buffer of"),
        (lambda of: of["GpuShares"].clustering(np.zeros(0, np.int32), 0), ValueError, "most 0: at least 1"),
        (
            lambda of: kinds()["Plan"](of["NodeTable"], [], [], colour=1),
            TypeError,
            "a plan takes no argument colour",
        ),
        (
            lambda of: kinds()["Plan"](of["NodeTable"], [], [], fit=[("cpu", 1)] * 99),
            ValueError,
            "too many plugins or",
        ),
        (lambda of: of["Preemptor"].begin(0, (), FAR), IndexError, f"there is no symbol {FAR} among"),
    ],
)
def test_misuse_is_answered_by_what_is_wrong(
    found: dict[str, Any], misuse: Callable[[dict[str, Any]], object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=re.escape(text)):
        misuse(found | {function.__name__: function for function in functions()})


@pytest.mark.parametrize(
    ("kind", "attribute", "least", "most"),
    [
        ("Decider", "start", 0, 2**31 - 1),
        ("Search", "threads", 1, 1024),
        ("Search", "parallel_from", 0, (2**31 - 1) // 20),
        ("Preemptor", "classes", 1, 2**31 - 1),
    ],
)
def test_settings_have_a_range(
    found: dict[str, Any], kind: str, attribute: str, least: int, most: int
) -> None:
    one = found[kind]
    before = getattr(one, attribute)
    for value in (least - 1, most + 1, 2**70):
        with pytest.raises(ValueError, match=rf"^{attribute} {value}: {least} to {most}$"):
            setattr(one, attribute, value)
    with pytest.raises(TypeError):
        setattr(one, attribute, None)
    assert getattr(one, attribute) == before
    for value in (least, most, before):
        setattr(one, attribute, value)
        assert getattr(one, attribute) == value


def test_no_argument_of_a_function_ends_the_process(found: dict[str, Any]) -> None:
    called = list(functions())
    assert len(called) > 30

    def work(call: Call) -> None:
        for one in called:
            attempts(call, one.__name__, one, found)

    assert survives(work) == ""


def test_functions_of_a_state(found: dict[str, Any]) -> None:
    """The first argument is right."""

    def work(call: Call) -> None:
        for one, first in product(functions(), (found["ClusterState"], found["NodeTable"])):
            attempts(call, f"{one.__name__} of {type(first).__name__}", partial(one, first), {})

    assert survives(work) == ""


def test_what_results_hold_for_pods_without_a_node_is_no_row() -> None:
    scheduler = Scheduler(Cluster(nodes=[node("a")]))
    result = scheduler.schedule_pods([pod("p", requests={"cpu": 99})])
    with pytest.raises(IndexError, match="there is no row -1 among 1"):
        scheduler.table.row_name(int(result.rows[0]))
    with pytest.raises(IndexError, match="pod 0 has no node"):
        result.nodes_of([0])
