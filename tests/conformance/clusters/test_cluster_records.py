"""The committed records of a real control plane agree; any change to one of them is noticed."""

from __future__ import annotations

import gzip
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moorage.kube import Object, dump
from moorage.store import NotFoundError
from tests.conformance.clusters import cluster_mode
from tests.conformance.clusters.cluster_mode import record_failures, wrong_in
from tests.conformance.clusters.cluster_record import read, refusal
from tests.conformance.runner import run
from tests.doors.kube import decode_as
from tests.doors.live import list_cluster

DATA = Path(__file__).parents[1] / "data" / "cluster"
RECORDS = sorted(DATA.glob("*.json.gz"))

Json = dict[str, Any]


@pytest.mark.share(2)
@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_pods_are_those_of_a_recorded_control_plane(path: Path) -> None:
    assert record_failures(path) == []


class Server:
    """Lists the objects of a record, as an API server does for ``moorage dump``."""

    def __init__(self, items: list[Json]) -> None:
        self.items, self.connection = items, self

    def request(self, method: str, path: str, query: Json) -> bytes:
        raise NotFoundError(f"{method} {path}: a record has no events of before")

    def list(self, kind: type[Object]) -> tuple[list[Object], str]:
        its = [one for one in self.items if one["kind"] == kind.__name__]
        return [decode_as(json.dumps(one).encode(), kind) for one in its], "1"


@pytest.mark.share(4)
@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_record_agrees_with_a_dump_of_moorage_in_place_of_kubectls(path: Path) -> None:
    record = read(path)
    objects, _ = list_cluster(Server(record["dump"]["items"]))  # type: ignore[arg-type]
    assert wrong_in(record | {"dump": json.loads(dump(objects))}) == []


def pods_at_the_end(record: Json) -> list[Json]:
    return [one for one in record["end"]["items"] if one["kind"] == "Pod"]


def without_one_pod(record: Json) -> None:
    pods = pods_at_the_end(record)
    record["end"]["items"].remove(next(one for one in pods if one["spec"].get("nodeName")))


def with_another_pod(record: Json) -> None:
    pod = json.loads(json.dumps(pods_at_the_end(record)[0]))
    pod["metadata"] |= {"name": "other", "uid": "other"}
    record["end"]["items"].append(pod)


def with_a_new_pod_in_place_of_an_old_one(record: Json) -> None:
    next(one for one in pods_at_the_end(record) if one["spec"].get("nodeName"))["metadata"]["uid"] = "other"


def with_another_message(record: Json) -> None:
    for pod in pods_at_the_end(record):
        for one in pod["status"].get("conditions", []):
            if one["type"] == "PodScheduled" and one["status"] == "False":
                one["message"] += "!"


def with_another_refusal(record: Json) -> None:
    for one in record["events"]:
        if one["reason"] == "FailedCreate":
            one["message"] += "!"


def with_more_replicas(record: Json) -> None:
    for one in record["end"]["items"]:
        if one["kind"] in ("ReplicaSet", "StatefulSet"):
            one["spec"]["replicas"] += 1


def with_an_accepted_manifest(record: Json) -> None:
    record["kubectl"] = [one | {"rc": 0} for one in record["kubectl"]]


def with_a_drain_that_ends(record: Json) -> None:
    with_an_accepted_manifest(record)


def with_a_drain_that_fails(record: Json) -> None:
    for one in record["kubectl"]:
        one |= {"rc": 1, "stderr": 'error when evicting pods/"a"'}


def with_another_pod_that_stays(record: Json) -> None:
    """Of a scale down by age, another one goes than the newest."""
    stays = next(one for one in pods_at_the_end(record) if one["spec"].get("nodeName"))
    names = {one["metadata"]["name"] for one in pods_at_the_end(record)}
    gone = [one for one in record["dump"]["items"] if one["kind"] == "Pod"]
    gone = [one for one in gone if one["metadata"]["name"] not in names]
    record["end"]["items"].remove(stays)
    record["end"]["items"].append(max(gone, key=lambda one: str(one["metadata"]["creationTimestamp"])))


def with_a_volume_on_the_other_node(record: Json) -> None:
    (attachment,) = (item for item in record["end"]["items"] if item["kind"] == "VolumeAttachment")
    attachment["spec"]["nodeName"] = "other"


def without_the_events_of_attaching(record: Json) -> None:
    record["events"] = [event for event in record["events"] if event["reason"] != "FailedAttachVolume"]


def with_another_user_of_the_volume(record: Json) -> None:
    for event in record["events"]:
        if event["reason"] == "FailedAttachVolume":
            event["message"] += "-other"


def with_a_volume_that_comes_free_at_once(record: Json) -> None:
    for change in record["history"]:
        if change["kind"] == "VolumeAttachment" and change.get("gone"):
            change["after"] -= 330


CHANGES: list[tuple[str, Callable[[Json], None]]] = [
    ("deploy-anti-affinity", without_one_pod),
    ("deploy-restart-full", with_another_pod),
    ("sts-scale-down-crash", with_a_new_pod_in_place_of_an_old_one),
    ("deploy-anti-affinity", with_another_message),
    ("limitrange-ratio", with_another_refusal),
    ("sts-scale-down-crash", with_more_replicas),
    ("class-missing-pod", with_an_accepted_manifest),
    ("drain-pdb-one-full", with_a_drain_that_ends),
    ("sts-claims-zone-drain", with_a_drain_that_fails),
    ("scale-down-newest", with_another_pod_that_stays),
    ("attach-recreate", with_a_volume_on_the_other_node),
    ("attach-rollout", without_the_events_of_attaching),
    ("attach-block", with_another_user_of_the_volume),
    ("attach-lost-node", with_a_volume_that_comes_free_at_once),
]


@pytest.mark.parametrize(("name", "change"), CHANGES, ids=lambda value: getattr(value, "__name__", value))
def test_a_wrong_record_is_noticed(name: str, change: Callable[[Json], None]) -> None:
    record = read(DATA / f"{name}.json.gz")
    assert wrong_in(record) == []
    change(record)
    assert wrong_in(record) != []


def test_what_does_not_end_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_mode, "ask", lambda *_: signal.raise_signal(signal.SIGALRM))
    (wrong,) = record_failures(RECORDS[0])
    assert "does not end" in wrong


def test_the_runner_takes_records_beside_vectors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = DATA / "class-missing-pod.json.gz"
    (tmp_path / good.name).write_bytes(good.read_bytes())
    assert run([str(tmp_path)]) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed\n"
    (tmp_path / "bad.json.gz").write_bytes(gzip.compress(b"{}"))
    assert run([str(tmp_path)]) == 1
    assert capsys.readouterr().out == "bad: malformed record\n1 passed, 1 failed\n"


def test_a_refusal_is_compared_without_what_depends_on_time() -> None:
    quota = "exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3"
    text = f'Error creating: pods "web-x" is forbidden: {quota}'
    other = text.replace("web-x", "web-y").replace("used: pods=3", "used: pods=4")
    assert refusal(text) == refusal(other)
    assert refusal(text) != refusal(text.replace("limited: pods=3", "limited: pods=4"))
