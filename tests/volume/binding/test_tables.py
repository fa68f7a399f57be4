"""Upstream's tables of the volume binder: `tables.txt`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doors.engine import metrics, with_annotations
from tests.volume.binding.binder_kit import (
    NAMED,
    NODE1,
    Kit,
    at,
    pod,
    pod_volumes,
    put,
    section,
    storage_class,
)
from tests.volume.samples import value
from tests.words import BIND_CONFLICT, NODE_CONFLICT, SELECTED_NODE, VOLUME_MISSING

from moorage.engine.volume import BindingInfo, RunningBinding, VolumeError
from moorage.errors import MoorageError

REASONS = {"bind-conflict": BIND_CONFLICT, "node-conflict": NODE_CONFLICT, "missing": VOLUME_MISSING}
Row = list[str]


def table(title: str) -> pytest.MarkDecorator:
    """The rows of a section, each a list of its columns."""
    cells = {name: [cell.strip() for cell in f"{rest} ".split("|")] for name, rest in section(title)}
    return pytest.mark.parametrize("row", cells.values(), ids=cells)


def objects(text: str) -> list[Any]:
    """Named objects; ``~2`` is another version, and a name after a question mark is that of no object."""
    read = []
    for name, _, version in (word.partition("~") for word in text.split()):
        obj = name[1:] if name.startswith("?") else NAMED[name]
        read.append(at(obj, version) if version else obj)
    return read


def bindings(text: str) -> list[BindingInfo]:
    """Claims with their volumes."""
    pairs = [word.split("=") for word in text.split()]
    return [BindingInfo(objects(volume)[0], objects(claim)[0]) for claim, volume in pairs]


def decided(bound: str, provisioned: str) -> tuple[list[BindingInfo] | None, list[Any] | None]:
    """What was decided about a pod; "none" is a list that is missing."""
    claims = None if provisioned == "none" else objects(provisioned)
    return None if bound == "none" else bindings(bound), claims


def key(obj: Any) -> str:
    return f"{obj.kind}/{obj.key}"


OLD = pytest.mark.parametrize("old", [False, True], ids=["v1.36", "v1.14"])


@OLD
@table("find")
def test_volumes_of_a_pod_are_found_in_upstreams_cases(row: Row, old: bool) -> None:
    claims, there, bound, provisioned, outcome = row
    kit, wanted = Kit(), pod(*objects(claims))
    kit.fill(*(each for each in objects(claims) if not isinstance(each, str)), *objects(there))
    put(kit.classes, storage_class("odd", None, "test-provisioner"))
    reasons = tuple(REASONS[word] for word in outcome.split() if word in REASONS)
    error = "" if reasons else outcome
    if old and VOLUME_MISSING in reasons:
        error = 'could not find v1.PersistentVolume "pv-bound"'
    if error == "immediate" and not old:
        assert kit.binder.get_pod_volume_claims(wanted).unbound_immediate
    elif error:
        with pytest.raises(VolumeError) as caught:
            (kit.old.find_pod_volumes(wanted, NODE1) if old else kit.binder.get_pod_volume_claims(wanted))
        text = "pod has unbound immediate PersistentVolumeClaims" if error == "immediate" else error
        assert str(caught.value) == text
        assert kit.decisions.get_decisions(wanted) is None
    elif old:
        answer = kit.old.find_pod_volumes(wanted, NODE1)
        assert answer == (BIND_CONFLICT not in reasons, NODE_CONFLICT not in reasons)
        assert kit.decisions.get_bindings(wanted, "node1") == (bindings(bound) or None)
        assert kit.decisions.get_provisioned_pvcs(wanted, "node1") == (objects(provisioned) or None)
    else:
        answer = kit.binder.find_pod_volumes(wanted, kit.binder.get_pod_volume_claims(wanted), NODE1)
        found = bindings(bound) or None, objects(provisioned) or None
        assert answer == (pod_volumes(found), reasons)


@OLD
@table("assume")
def test_volumes_of_a_pod_are_assumed_in_upstreams_cases(row: Row, old: bool) -> None:
    bound, claims, held, outcome = bindings(row[0]), objects(row[1]), objects(row[2]), row[3]
    kit, wanted = Kit().fill(*held), pod(*(each.pvc for each in bound), *claims, node="")
    found = pod_volumes((bound, claims or None))
    kit.decisions.update_bindings(wanted, "node1", list(bound), claims or None)

    def assume() -> bool:
        return (
            kit.old.assume_pod_volumes(wanted, "node1")
            if old
            else kit.binder.assume_pod_volumes(wanted, "node1", found)
        )

    if outcome == "fails":
        failed = value(metrics.VOLUME_SCHEDULING_STAGE_FAILED, "assume")
        with pytest.raises(VolumeError):
            assume()
        assert value(metrics.VOLUME_SCHEDULING_STAGE_FAILED, "assume") == failed + 1
        expected, provisions = bound, claims or None
        assert [kit.cache_of(obj).get(obj.key) for obj in held] == held
    else:
        assert not assume()
        volumes = objects(outcome)
        expected = [BindingInfo(volume, each.pvc) for volume, each in zip(volumes, bound, strict=True)]
        provisions = [with_annotations(each, {SELECTED_NODE: "node1"}) for each in claims]
        assert [kit.pvs.get_pv(volume.name) for volume in volumes] == volumes
        assert [kit.pvcs.get_pvc(each.key) for each in claims] == provisions
        assert [kit.pvs.get_api_pv(each.pv.name) for each in bound] == [each.pv for each in bound]
    if old:
        assert kit.decisions.get_bindings(wanted, "node1") == expected
        assert kit.decisions.get_provisioned_pvcs(wanted, "node1") == provisions
    else:
        assert found == pod_volumes((expected, provisions))


@table("write")
def test_bindings_are_written_in_upstreams_cases(row: Row) -> None:
    """What was written is the server's, known, and still assumed; the rest is as the informers have it."""
    decisions = decided(row[0], row[1])
    kit, volumes = Kit().fill(*objects("pv-1a pv-1b provisioned provisioned2")), pod_volumes(decisions)
    assumed = [*(each.pv for each in decisions[0] or ()), *(decisions[1] or ())]
    for obj in assumed:
        kit.cache_of(obj).assume(obj)
    kit.api.objects.update({key(obj): obj for obj in objects(row[2])})
    before = dict(kit.api.objects)
    if row[3]:
        with pytest.raises(MoorageError) as caught:
            kit.binder.begin(pod(), volumes)
        assert str(caught.value) == row[3]
    else:
        kit.binder.begin(pod(), volumes)
    written = {key(obj): at(obj, 2) for obj in objects(row[4])}
    assert kit.api.objects == before | written
    lists = [each.pv for each in volumes.static_bindings or ()]
    lists += [each.pvc for each in volumes.dynamic_provisions or ()]
    if None not in decisions:
        for obj, original in zip(lists, assumed, strict=True):
            cache, known = kit.cache_of(obj), key(obj) in written
            assert obj == (at(original, 2) if known else original)
            assert cache.get(obj.key) is (original if known else cache.get_api_obj(obj.key))


@table("check")
def test_bindings_are_checked_in_upstreams_cases(row: Row) -> None:
    kit = Kit().fill(pod(), *objects(row[2]))
    running = RunningBinding(pod(), "node1", pod_volumes(decided(row[0], row[1])), 10.0)
    if row[3] in ("done", "wait"):
        assert kit.binder.check(running) is (row[3] == "done")
    else:
        with pytest.raises(VolumeError) as caught:
            kit.binder.check(running)
        assert str(caught.value) == f"binding volumes: {row[3]}"
