"""What a BinderCache does, step by step: `steps.txt`."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.doors.kube import placeholder_pod
from tests.make import node
from tests.multi.binder_cache.binder_kit import GANG, TAKES, WANTS, Kit, cnr, pod, reservation
from tests.text_rows import rows
from tests.words import ASSUMED_NODE, GROUP_ANNOTATION, RESERVATION_INDEX, RESOURCE_TYPE

from moorage.compat.binder_cache import CachePodInfo, Reservation
from moorage.errors import MoorageError
from moorage.kube import Pod

TABLE = Path(__file__).with_name("steps.txt")
NOT_FOUND = "reservation info i/default/a-placeholder/n not found"


def pod_of(text: str) -> tuple[Pod, dict[str, str]]:
    """A pod in words, and what the words say."""
    place, *words = text.split()
    name, _, on = place.partition("@")
    fields = {key: value for key, _, value in (word.partition("=") for word in words)}
    marks = (WANTS if "wants" in fields else {}) | (TAKES if "takes" in fields else {})
    for word, key, value in (
        ("be", RESOURCE_TYPE, "best-effort"),
        ("group", GROUP_ANNOTATION, "g"),
        ("assumed-node", ASSUMED_NODE, fields.get("assumed-node", "")),
        ("index", RESERVATION_INDEX, fields.get("index", "")),
    ):
        marks |= {key: value} if word in fields else {}
    plain = pod(name, on, marks, requests={"cpu": fields.get("cpu", "100m"), "memory": 500})
    meta = replace(plain.metadata, uid=fields.get("uid", name), namespace=fields.get("ns", "default"))
    return replace(plain, metadata=meta), fields


def reserved(text: str) -> Reservation:
    """The reservation of a pod that is gone."""
    source, fields = pod_of(f"{text} wants")
    return reservation(source, fields.get("phase", ""), fields.get("owner", ""))


def check_placeholder(kit: Kit, state: str) -> None:
    """The placeholder of a is free and charged, or another pod has it, or it is gone."""
    stands = kit.has(placeholder_pod(pod_of("a@n wants")[0]))
    assert stands == (state == "reserved")
    asks = pod_of("b@n takes")[0]
    if stands:
        assert kit.info("n").guaranteed_reserved.milli_cpu == 100
        assert kit.cache.get_available_placeholder_pod(asks).name == "a-placeholder"
    else:
        with pytest.raises(MoorageError) as refusal:
            kit.cache.get_available_placeholder_pod(asks)
        matched = "reservation placeholder is already matched"
        assert str(refusal.value) == (matched if state == "consumed" else NOT_FOUND)


def check_pod(kit: Kit, name: str, state: str) -> None:
    cached = pod(name)
    match state:
        case "marked" | "unmarked":
            assert kit.cache.is_pod_marked_to_delete(cached) == (state == "marked")
        case _:
            actual = "assumed" if kit.is_assumed(cached) else "added" if kit.has(cached) else "gone"
            assert actual == state


def check(kit: Kit, words: list[str]) -> None:
    """A step that asks."""
    match words:
        case ["reserved" | "consumed" | "released" as state]:
            check_placeholder(kit, state)
        case ["nodes", *names]:
            assert list(kit.cache.dump().nodes) == names
        case [name, "is", "a", "ghost"]:
            assert not kit.info(name).is_live
        case [name, "is", "live"]:
            assert (kit.info(name).is_live, kit.info(name).allocatable.milli_cpu) == (True, 4000)
        case [name, "is", state]:
            check_pod(kit, name, state)
        case [name, "runs", *uids]:
            key = GANG if name == "g" else f"SinglePodUnit/default/{name}"
            assert kit.cache.get_unit_status(key).running_pods == tuple(uids)
        case [name, "gone"]:
            assert kit.cache.get_node_info(name) is None
        case [name, "offers", cpu]:
            assert kit.info(name).best_effort_allocatable.milli_cpu == int(cpu)
        case [name, cpu, pods]:
            assert (kit.info(name), kit.used(name))[1] == (int(cpu), int(pods))
        case _:
            raise ValueError(words)


def do(kit: Kit, step: str) -> None:
    cache = kit.cache
    verb, _, rest = step.partition(" ")
    first, _, second = rest.partition(" by" if verb.endswith(("mark", "-key")) else " -> ")
    match verb:
        case "at":
            kit.clock.now = float(rest)
        case "clean":
            kit.clean(float(rest))
        case "node":
            cache.add_node(node(rest))
        case "no-node":
            cache.delete_node(node(rest))
        case "cnr":
            cache.add_cnr(cnr(rest, cpu="2"))
        case "no-cnr":
            cache.delete_cnr(cnr(rest))
        case "reserve":
            cache.add_reservation(reserved(rest))
        case "unreserve":
            cache.delete_reservation(reserved(rest))
        case "change":
            cache.update_reservation(reserved(first), reserved(second))
        case "mark":
            cache.mark_pod_to_delete(pod_of(first)[0], pod(second.strip()))
        case "unmark":
            cache.remove_delete_pod_marker(pod_of(first)[0], pod(second.strip()))
        case "unmark-key":
            cache.remove_delete_pod_marker_by_key(first, second.strip())
        case "update":
            cache.update_pod(pod_of(first)[0], pod_of(second)[0])
        case "assume":
            cache.assume_pod(CachePodInfo(pod_of(rest)[0]))
        case "forget":
            cache.forget_pod(CachePodInfo(pod_of(rest)[0]))
        case "finish" | "add" | "delete" | "get" | "placeholder":
            calls = {"finish": cache.finish_binding, "placeholder": cache.get_available_placeholder_pod}
            calls |= {name: getattr(cache, f"{name}_pod") for name in ("add", "delete", "get")}
            calls[verb](pod_of(rest)[0])
        case _:
            check(kit, step.split())


GATE = "resource_reservation"


@pytest.mark.parametrize(
    ("settings", "lines"),
    [pytest.param(row.title, [row.text, *row.below], id=row.name) for row in rows(TABLE)],
)
def test_a_binder_cache_does_what_a_row_says(settings: str, lines: list[str]) -> None:
    words = (word.partition("=") for word in settings.split())
    kit = Kit(**{key: value == "1" if key == GATE else int(value) for key, _, value in words if value})
    for step in filter(None, "; ".join(lines).split("; ")):
        step, _, refusal = step.partition(" ! ")
        if refusal:
            with pytest.raises(MoorageError) as raised:
                do(kit, step)
            assert str(raised.value).startswith(refusal)
        else:
            do(kit, step)
