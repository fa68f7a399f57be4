"""Records of a real control plane: what it made of a change of a cluster."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.vectors import MalformedError

Json = dict[str, Any]
Key = tuple[str, str]
"""A namespace, and ``kind/name`` in it."""

ENDED = ("Succeeded", "Failed")
_FIELDS = {
    *("scenario", "name", "kubectl", "settled", "dump", "revisions"),
    *("before kubectl", "change", "end", "events"),
}
_OPTIONAL = {"moorage dump", "history"}
"""Some records have what that command wrote at the moment of their dump, by another version; those of
`tests/live/record_attachments.py` have when pods and attachments changed."""
_PREFIXES = ("Error creating: ", " failed error: ")
_REFUSED_APPLY = re.compile(r'Error from server \(\w+\): error when \w+ "STDIN": (.*)', re.DOTALL)
_INVALID = re.compile(r'(?:The )?\w[\w.]* "[^"]+" is invalid: ')
_POD_NAME = re.compile(r'([Pp]ods?) "[^"]+"')
_USED = re.compile(r"used: [^:]*?(, limited:)")
_JOB_IS_OVER = {"Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"}


@dataclass
class Pods:
    """The pods of one workload after a change: names of those that stayed, how many others are what, and what
    keeps those with a node from starting."""

    kept: set[str] = field(default_factory=set)
    new: int = 0
    waiting: Counter[str] = field(default_factory=Counter)
    lacking: int = 0
    refusals: set[str] = field(default_factory=set)
    held: Counter[str] = field(default_factory=Counter)
    ended: int = 0
    """Pods that a drain took, and whose Job, or index of it, fails with them."""

    def counts(self) -> tuple[int, int, int, int]:
        """Pods that stayed, that are new, that wait for a node, and that could not be made."""
        return len(self.kept), self.new, self.waiting.total(), self.lacking


def read(path: Path) -> Json:
    """One record; raises MalformedError if it has another form."""
    try:
        with gzip.open(path, "rt") as file:
            record = json.load(file)
    except (OSError, EOFError, ValueError) as error:
        raise MalformedError(f"cannot be read: {error}") from error
    if not isinstance(record, dict) or record.keys() - _OPTIONAL != _FIELDS:
        raise MalformedError("malformed record")
    return record


def multi_attach(text: str) -> str:
    """The text of an event about a volume on another node, with the users of the volume in order."""
    about, users, names = text.partition("pod(s) ")
    return about + users + ", ".join(sorted(names.split(", ")))


def refusal(text: str) -> str:
    """The text of the API server alone, without names of pods, and without a usage that depends on time."""
    for prefix in _PREFIXES:
        text = text.partition(prefix)[2] or text
    if found := _REFUSED_APPLY.match(text):
        text = found[1]
    text = _INVALID.sub("", text)
    return _USED.sub(r"used: *\1", _POD_NAME.sub(r'\1 "POD"', text)).strip()


def controller(item: Json) -> Json | None:
    """The reference to the controller of an object."""
    owners = item["metadata"].get("ownerReferences", [])
    return next((one for one in owners if one.get("controller")), None)


def by_name(items: list[Json]) -> dict[str, dict[Key, Json]]:
    """Objects by kind, namespace and name."""
    found: dict[str, dict[Key, Json]] = defaultdict(dict)
    for one in items:
        found[one["kind"]][one["metadata"].get("namespace", ""), one["metadata"]["name"]] = one
    return found


def bound_pods(record: Json) -> set[str]:
    """The UIDs of the pods that were on nodes before the change."""
    pods = (one for one in record["dump"]["items"] if one["kind"] == "Pod")
    return {one["metadata"]["uid"] for one in pods if one["spec"].get("nodeName")}


def made_by_cluster(record: Json) -> dict[Key, Pods]:
    """What the control plane made of the change, by workload."""
    after = by_name(record["end"]["items"])
    bound = bound_pods(record)
    found: dict[Key, Pods] = defaultdict(Pods)
    active: Counter[tuple[str, str, str]] = Counter()
    held = {
        (event["namespace"], event["name"]): multi_attach(event["message"])
        for event in record["events"]
        if event["reason"] == "FailedAttachVolume"
    }
    for (space, name), pod in after["Pod"].items():
        owner, meta = controller(pod), pod["metadata"]
        if pod["status"].get("phase") in ENDED or meta.get("deletionTimestamp"):
            continue
        if owner:
            active[space, owner["kind"], owner["name"]] += 1
        pods = found[_workload(space, "Pod", name, after)]
        if not pod["spec"].get("nodeName"):
            pods.waiting[_scheduled_message(pod)] += 1
        elif meta["uid"] in bound:
            pods.kept.add(name)
        else:
            pods.new += 1
        if pod["status"]["phase"] == "Pending" and (space, name) in held:
            pods.held[held[space, name]] += 1
    for kind in ("StatefulSet", "DaemonSet", "ReplicaSet", "Job", "ReplicationController"):
        for (space, name), item in after[kind].items():
            lacking = max(0, _wanted(item) - active[space, kind, name])
            found[_workload(space, kind, name, after)].lacking += lacking
    for at, ended in _ended_with_jobs(record, after["Job"]).items():
        found[at].ended = ended
    for event in record["events"]:
        if event["type"] == "Warning" and event["reason"] in ("FailedCreate", "FailedDaemonPod"):
            key = _workload(event["namespace"], event["kind"], event["name"], after)
            found[key].refusals.add(refusal(event["message"]))
    return found


def _ended_with_jobs(record: Json, jobs: dict[Key, Json]) -> Counter[Key]:
    """How many pods a drain has evicted, with which their Job fails, or an index of it, by Job."""
    evicted = {
        match[1]
        for one in record["kubectl"]
        if one["action"] == "drain"
        for match in re.finditer(r"^pod/(\S+) evicted$", one["stdout"], re.MULTILINE)
    }
    ended = Counter[Key]()
    for pod in record["dump"]["items"]:
        owner, meta = controller(pod), pod["metadata"]
        if pod["kind"] != "Pod" or meta["name"] not in evicted or owner is None or owner["kind"] != "Job":
            continue
        job = jobs.get((meta["namespace"], owner["name"]))
        index = meta.get("annotations", {}).get("batch.kubernetes.io/job-completion-index", "")
        if job and (_is_failed(job) or int(index or -1) in _failed_indexes(job)):
            ended[meta["namespace"], f"job/{owner['name']}"] += 1
    return ended


def _is_failed(job: Json) -> bool:
    conditions = job["status"].get("conditions", [])
    return any(one["type"] == "Failed" and one["status"] == "True" for one in conditions)


def _failed_indexes(job: Json) -> set[int]:
    spans = (one.split("-") for one in job["status"].get("failedIndexes", "").split(",") if one)
    return {index for one in spans for index in range(int(one[0]), int(one[-1]) + 1)}


def refused_changes(record: Json) -> list[str]:
    """What the API server said of manifests and of other changes that it refused; a drain goes on."""
    return [
        refusal(one["stderr"]) for one in record["kubectl"] if one["action"] != "drain" and one["rc"] != 0
    ]


def attached_volumes(record: Json) -> set[tuple[str, str]]:
    """Volumes and nodes of the attachments after the change; a disk without a volume as in events."""
    specs = [item["spec"] for item in record["end"]["items"] if item["kind"] == "VolumeAttachment"]
    return {(_attached_volume(spec["source"]), spec["nodeName"]) for spec in specs}


def _attached_volume(source: Json) -> str:
    if "persistentVolumeName" in source:
        return str(source["persistentVolumeName"])
    disk = source["inlineVolumeSpec"]["csi"]
    return f"{disk['driver']}-{disk['volumeHandle']}"


def kept_seconds(record: Json) -> dict[str, float]:
    """How long attachments that went outlasted the last pod on their node, by volume."""
    last, left, kept = dict[str, Json](), dict[str, float](), dict[str, float]()
    for change in record["history"]:
        before = last.get(change["name"], change)
        last[change["name"]] = change
        if change["kind"] == "Pod" and (change.get("phase") in ENDED or before != change):
            left[before.get("node", "")] = change["after"]
        elif change["kind"] == "VolumeAttachment" and "gone" in change:
            kept[before["volume"]] = change["after"] - left[before["node"]]
    return kept


def drain_was_refused(record: Json) -> bool:
    """Whether ``kubectl drain`` failed because of pods that a budget, or it itself, keeps."""
    return any(
        one["action"] == "drain" and one["rc"] != 0 and "context deadline exceeded" not in _not_waited(one)
        for one in record["kubectl"]
    )


def _not_waited(command: Json) -> str:
    """The errors of a drain, but for pods that were evicted and did not end in the time that it waited."""
    return str(command["stderr"].replace("error when waiting", ""))


def _workload(space: str, kind: str, name: str, after: dict[str, dict[Key, Json]]) -> Key:
    """The workload that an object belongs to in the end."""
    item = after[kind].get((space, name))
    owner = controller(item) if item else None
    if owner is not None:
        return _workload(space, owner["kind"], owner["name"], after)
    return space, f"{kind.lower()}/{name}"


def _scheduled_message(pod: Json) -> str:
    conditions = pod["status"].get("conditions", [])
    text = next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")
    return common_message(str(text))


def common_message(text: str) -> str:
    """A message without the names that are generated for claims."""
    return re.sub(r'"[^"]+-extended-resources-[^"]+"', '"CLAIM"', text)


def _wanted(item: Json) -> int:
    """How many pods a controller wants to be active."""
    spec, status = item["spec"], item["status"]
    if item["kind"] == "DaemonSet":
        return int(status.get("desiredNumberScheduled", 0))
    if item["kind"] != "Job":
        return int(spec.get("replicas", 1))
    conditions = {one["type"] for one in status.get("conditions", []) if one["status"] == "True"}
    if spec.get("suspend") or conditions & _JOB_IS_OVER:
        return 0
    wanted = int(spec.get("parallelism", 1))
    if spec.get("completions") is None:
        return wanted
    lost = len(_failed_indexes(item))
    return min(wanted, int(spec["completions"]) - int(status.get("succeeded", 0)) - lost)
