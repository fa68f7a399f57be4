"""Checks against records of a real control plane which pods exist after a change."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import tempfile
from collections import Counter, defaultdict
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import moorage as mo
from moorage import Change, Scheduler
from moorage.cli import main
from moorage.errors import MoorageError
from moorage.kube import Pod, VolumeAttachment
from tests.conformance.vectors import MalformedError
from tests.doors.answers import SimulationSetup, judge
from tests.doors.cluster import BY_NAME, RequestedChange

from .cluster_record import (
    ENDED,
    Key,
    Pods,
    attached_volumes,
    bound_pods,
    common_message,
    drain_was_refused,
    kept_seconds,
    made_by_cluster,
    multi_attach,
    read,
    refusal,
    refused_changes,
)

Json = dict[str, Any]

SECONDS = 60  # after which a record counts as one that never ends
MINUTES_LATER = 300.0
"""Seconds by which a volume that is detached by force outlasts its pods, and no other does."""
NO_PODS = Pods()
NOT_DETERMINED = {
    "preempt-rollout-class": "how many pods are preempted depends on which have ended by then",
    "t4-many-apply-drain-scale-tight": "how far the rollout is when the drain begins",
    "t4-mid-rollout-scale-down": "how far the rollout is when it is scaled: the dump is of its middle",
    "t4-midwild-2003": "the last pod of the new version never becomes ready; moorage takes new versions to",
    "t6-cron-forbid": "it does not count the pods of a Job that a CronJob could not create; moorage does",
    "t4-race-scale-add": "who is tried in the moment in which a new node is tainted as not ready",
    "t4-race-scale-then-add": "who is tried in the moment in which a new node is tainted as not ready",
}
"""Records that may end in several ways, or rest on what no dump has, each with the reason. The table only
shrinks. The file `undetermined.txt` beside records has the names of others."""


class Deletion(NamedTuple):
    """A deletion of an object, which no option of a command asks for."""

    text: str
    verb: Any = BY_NAME["restart"]
    """Another verb that is not about nodes."""

    def make(self, scheduler: Scheduler, nodes: Container[str]) -> Change:
        """Make the change; no selector is about nodes."""
        return scheduler.change.delete(self.text)

    def text_about(self, node: str) -> str:
        """It names no node."""
        return self.text

    def left_as_is(self, effect: Change, scheduler: Scheduler) -> list[str]:
        """No warning is compared."""
        return []


class Answer(NamedTuple):
    """What moorage makes of a record.

    Attributes
    ----------
    error : str
        Of bad input; the rest is empty then.
    pods : dict of Key to Pods
    failed, code : int
        Pods and objects that count as failures, and the exit code of ``moorage check``.
    stay : int
        How many of them a drain has kept.
    attached : set of (str, str)
        Volumes and the nodes that have them.
    late : set of str
        Volumes that come free some minutes later.
    """

    error: str
    pods: dict[Key, Pods]
    failed: int
    code: int
    stay: int
    attached: set[tuple[str, str]]
    late: set[str]


class _LateError(BaseException):
    """A record takes too long."""


@contextlib.contextmanager
def limited(seconds: int = SECONDS) -> Iterator[None]:
    """Interrupt what does not end."""

    def late(*_: object) -> None:
        raise _LateError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def record_failures(path: Path) -> list[str]:
    """What is wrong with one record, or nothing."""
    name = path.name.removesuffix(".json.gz")
    try:
        listed = path.with_name("undetermined.txt")
        if listed.exists() and name in listed.read_text().split():
            return []
        return [f"{name}: {one}" for one in wrong_in(read(path))]
    except (MoorageError, MalformedError) as error:
        return [f"{name}: {error}"]
    except Exception as error:  # as in the runner of the other vectors
        return [f"{name}: {type(error).__name__}: {error}"]


def wrong_in(record: Json) -> list[str]:
    """The differences of a record, one line each; none of one whose end is chance, but it has to end."""
    try:
        with limited(), tempfile.TemporaryDirectory() as folder:
            answer = ask(record, Path(folder))
    except _LateError:
        return [f"does not end in {SECONDS} s"]
    refused = refused_changes(record)
    if record["name"] in NOT_DETERMINED or (refused and answer.error):
        return []
    if answer.error:
        return [f"error: {answer.error}"]
    expected = made_by_cluster(record)
    found = [
        text
        for key in sorted({*expected, *answer.pods})
        for text in _differences(key, expected.get(key, NO_PODS), answer.pods.get(key, NO_PODS), record)
    ]
    said = {text for pods in answer.pods.values() for text in pods.refusals}
    found += [f"is not refused: {text}" for text in refused if text not in said]
    if "history" in record:
        found += _attached(record, answer)
    return found + list(_verdict(record, expected, answer, len(refused)))


def _differences(key: Key, cluster: Pods, ours: Pods, record: Json) -> Iterator[str]:
    where = "/".join(key)
    if key[1].startswith("job/") and cluster.lacking and not cluster.refusals:
        # The record ends before the back-off of the Job does; in moorage it has ended.
        if len(cluster.kept) != len(ours.kept) or sum(cluster.counts()) != sum(ours.counts()):
            yield f"{where}: {cluster.counts()} on the cluster, {ours.counts()} in moorage"
        return
    is_refused_pod = key[1].startswith("pod/") and bool(ours.refusals)
    if cluster.counts() != ours.counts() and not (is_refused_pod and not any(cluster.counts())):
        words = "kept, new, without node, not made"
        yield f"{where}: {words}: {cluster.counts()} on the cluster, {ours.counts()} in moorage"
    elif not ours.waiting.keys() <= cluster.waiting.keys():  # a pod that was not tried again has an old one
        yield f"{where}: messages: {dict(cluster.waiting)} on the cluster, {dict(ours.waiting)} in moorage"
    elif cluster.lacking and cluster.refusals and cluster.refusals.isdisjoint(ours.refusals):
        yield f"{where}: refusals: {cluster.refusals} on the cluster, {ours.refusals} in moorage"
    elif cluster.held != ours.held:
        yield f"{where}: does not start: {dict(cluster.held)} on the cluster, {dict(ours.held)} in moorage"
    elif _ranks(cluster.kept - ours.kept, key, record) != _ranks(ours.kept - cluster.kept, key, record):
        yield f"{where}: pods that stay: {cluster.kept} on the cluster, {ours.kept} in moorage"


def _ranks(names: set[str], key: Key, record: Json) -> list[tuple[str, bool]]:
    """Age and readiness of pods: among those that are alike in these, the choice is not determined."""
    return sorted(
        (one["metadata"]["creationTimestamp"], _is_ready(one))
        for one in record["dump"]["items"]
        if one["kind"] == "Pod"
        and one["metadata"]["name"] in names
        and one["metadata"]["namespace"] == key[0]
    )


def _is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _attached(record: Json, answer: Answer) -> Iterator[str]:
    """Compare which volumes are on which nodes, and which of them came free late."""
    attached = attached_volumes(record)
    if attached != answer.attached:
        yield f"attached: {attached} on the cluster, {answer.attached} in moorage"
    late = {volume for volume, seconds in kept_seconds(record).items() if seconds >= MINUTES_LATER}
    if late != answer.late:
        yield f"free some minutes later: {late} on the cluster, {answer.late} in moorage"


def _verdict(record: Json, expected: dict[Key, Pods], answer: Answer, refused: int) -> Iterator[str]:
    """Compare what ``moorage check`` counts, and its exit code."""
    failed = refused + sum(
        pods.waiting.total() + pods.lacking + pods.held.total() + pods.ended for pods in expected.values()
    )
    ours = answer.failed - answer.stay
    if failed != ours:
        yield f"check: {failed} pods fail on the cluster, {ours} in moorage"
    if answer.code != bool(failed or answer.stay):
        yield f"check: exit code {answer.code}"
    if bool(answer.stay) != (is_refused := drain_was_refused(record)):
        yield f"drain: {answer.stay} pods stay in moorage; kubectl drain fails: {is_refused}"


# ---- moorage -----------------------------------------------------------------------------------------------


def ask(record: Json, folder: Path) -> Answer:
    """Have moorage make the change of a record, in a cluster and by ``moorage check``."""
    files, changes, words = [_written(folder / "dump.json", record["dump"])], list[Any](), list[str]()
    for number, change in enumerate(record["change"]):
        if "file" in change:
            value = {"apiVersion": "v1", "kind": "List", "items": change["file"]}
            files.append(_written(folder / f"change{number}.json", value))
        elif "args" in change:
            option, *rest = change["args"]
            words += change["args"]
            changes.append(RequestedChange(option, tuple(rest)))
        elif "delete" in change:
            changes.append(Deletion(_reference(*change["delete"][:3])))
    try:
        done = SimulationSetup(mo.load(*files), {"pod_times": _times}, changes).run()
    except MoorageError as error:
        return Answer(str(error), {}, 0, 2, 0, set(), set())
    verdict = judge(done, (), ())
    stay = sum(one.status == "kept" for one in done.outcomes)
    failed, code = verdict.failed, int(not verdict.passed)
    if not any(isinstance(change, Deletion) for change in changes):
        arguments = [part for path in files for part in ("-f", path)]
        document, code = _check([*arguments, *words])
        failed = document["failed"] + sum(not finding["pods"] for finding in document["findings"])
    assert done.scheduler.controllers is not None
    attachments = done.scheduler.controllers.attachments
    names = {volume for volume, _ in attached_volumes(record)}
    attached = {(volume, node) for volume, node in attachments.holders.items() if volume in names}
    listed: list[VolumeAttachment] = done.scheduler.client.list(VolumeAttachment)[0]
    sources = ((each.spec.source.persistent_volume_name, each.spec.node_name) for each in listed)
    attached |= {(volume, node) for volume, node in sources if volume}
    return Answer("", _made(done, record), failed, code, stay, attached, set(attachments.lost))


def _times(pod: Pod) -> mo.PodTimes:
    """How long a pod took on the cluster, where its annotations say so."""
    fields = {"start": "fake/start", "ready": "fake/readies", "stop": "fake/stop"}
    told = {field: pod.metadata.annotations.get(name) for field, name in fields.items()}
    return mo.PodTimes(**{field: int(text) for field, text in told.items() if text is not None})


def _written(path: Path, value: Json) -> str:
    path.write_text(json.dumps(value))
    return str(path)


def _reference(space: str, kind: str, name: str) -> str:
    return f"{kind}/{space}/{name}" if space else f"{kind}/{name}"


def _check(arguments: list[str]) -> tuple[Json, int]:
    """The document of ``moorage check``, and its exit code."""
    out = io.TextIOWrapper(io.BytesIO(), write_through=True)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = main(["check", *arguments, "-o", "json"])
    out.seek(0)
    return json.loads(out.read()), code


def _made(done: Any, record: Json) -> dict[Key, Pods]:
    """The pods of each workload after the run."""
    bound = bound_pods(record)
    found: dict[Key, Pods] = defaultdict(Pods)
    placed: Counter[Key] = Counter()
    for one in done.outcomes:
        key = one.workload.namespace, one.workload.text
        if one.status in ("refused", "waiting") or (one.status == "terminating" and not one.is_leaving):
            found[key].lacking += 1
            found[key].refusals |= {refusal(one.reason)} if one.status == "refused" else set()
        elif one.status in ("unschedulable", "gated", "other-scheduler"):
            # Nobody tells pods of another scheduler, or pods that no attempt has looked at.
            is_told = one.status != "other-scheduler" and not one.reason.endswith(" not created yet")
            found[key].waiting[common_message(one.reason) if is_told else ""] += 1
        placed[key] += one.status in ("placed", "not-started")
    for refused in done.cluster.refused_objects:
        found[refused.namespace, f"{refused.kind.lower()}/{refused.name}"].refusals.add(
            refusal(refused.message)
        )
    controllers = done.scheduler.controllers
    assert controllers is not None
    pods: list[Pod] = done.scheduler.client.list(Pod)[0]
    for pod in pods:
        if pod.status.phase in ENDED or pod.metadata.deletion_timestamp or not pod.spec.node_name:
            continue
        workload = done.workloads.of(pod)
        if pod.metadata.uid in bound:
            found[workload.namespace, workload.text].kept.add(pod.name)
        else:
            found[workload.namespace, workload.text].new += 1
        if text := controllers.attachments.multi_attach_error(pod, pod.spec.node_name):
            found[workload.namespace, workload.text].held[multi_attach(text.rpartition(" on node ")[0])] += 1
    told = {(one.namespace, one.text): number for one, number in done.running.items()}
    for at, pods_of in found.items():
        if (told.get(at, 0), placed[at]) != (len(pods_of.kept), pods_of.new):
            raise AssertionError(f"the answer has other pods of {'/'.join(at)} than the store")
    return found
