"""What an API server makes of objects: as it stores them, what it refuses, and what it warns of."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from moorage.kube import Cluster
from moorage.kube.admission.policy.reviewers import Reviewers
from moorage.kube.admission.secured_namespaces import SecuredNamespaces, pod_template
from moorage.kube.admission.stored.stored_objects import StoredObjects
from moorage.kube.admission.stored.strategy_warnings import request_warnings
from moorage.kube.admission.stored.version_defaults import with_version_defaults
from moorage.kube.apiserver.refusals import ValidationMode
from moorage.kube.model.cluster import NotAsked, RefusedObject
from moorage.kube.model.meta import Object, ObjectMeta
from moorage.kube.model.pod import Pod
from moorage.kube.model.policy import AdmissionPlugins
from moorage.kube.plain import joined, plain
from moorage.kube.read.load import load_before_and_after
from moorage.kube.read.python_values import Source
from moorage.kube.releases import FeatureGates, release_named
from moorage.lazy import NamedTuple

from .loaded_cluster import ServerChecks


class ObjectWarning(NamedTuple):
    """What an API server warns of in an object.

    Attributes
    ----------
    obj : str
        Kind, namespace and name.
    message : str
    """

    obj: str
    message: str


class Admitted(NamedTuple):
    """The answer of an API server to objects; false if it refuses one.

    Attributes
    ----------
    objects : list of dict
        Those that it accepts, as it stores them: with defaults, and what admission adds. Where one exists
        already, the fields that scheduling does not read are those of the manifest alone. Without what only
        a server knows, such as addresses.
    refused : list of RefusedObject
        The others, with the text of the server.
    warnings : list of ObjectWarning
    not_asked : list of NotAsked
        Webhooks that fail closed, and policies of Kyverno and Gatekeeper, that decide about these objects:
        only the command of each has their answer.
    notes : list of str
        What else the answer rests on: policies that could not be judged, and why.
    """

    objects: list[dict[str, Any]]
    refused: list[RefusedObject]
    warnings: list[ObjectWarning]
    not_asked: list[NotAsked]
    notes: list[str]

    def __bool__(self) -> bool:
        return not self.refused

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """Yield the refusals, the warnings, who was not asked and the notes, a line each; first what is
        accepted."""
        yield f"{len(self.objects)} accepted, {len(self.refused)} refused"
        yield from (f"refused: {refusal.text}" for refusal in self.refused)
        yield from (f"warning: {warning.obj}: {warning.message}" for warning in self.warnings)
        yield from (f"not asked: {each.text}" for each in self.not_asked)
        yield from (f"note: {text}" for text in self.notes)


def admit(
    cluster: Cluster | Source,
    *objects: Source,
    namespace: str = "default",
    validate: ValidationMode = "strict",
    kubernetes_version: str | None = None,
) -> Admitted:
    """Return what an API server would answer if objects were applied to a cluster, one after the other.

    Nothing runs: no pod of a workload is made, and the cluster is as before. `check` also judges what
    controllers make of the objects.

    Parameters
    ----------
    cluster : Cluster or source
        What is stored: a cluster, or what `load` reads. Namespaces, classes, quotas, policies and other
        objects that admission looks at count as far as they are in it.
    *objects : source
        Manifests: files, texts, or values of Python.
    namespace : str, optional
        Of objects that name none.
    validate : {"strict", "warn", "ignore"}, optional
        What unknown and doubled fields are, as for ``kubectl apply --validate``.
    kubernetes_version : str, optional
        The release of the server; by default the nearest to that of the cluster.

    Returns
    -------
    Admitted

    Raises
    ------
    InputError
        The cluster is not valid, or an object cannot be read.

    Examples
    --------
    >>> import moorage as mo
    >>> pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": []}}
    >>> print(mo.admit(mo.Cluster(), pod))
    0 accepted, 1 refused
    refused: input: Pod "web" is invalid: spec.containers: Required value
    """
    first = cluster.to_dict() if isinstance(cluster, Cluster) else cluster
    if isinstance(first, dict) and first.get("items") == []:
        first = AdmissionPlugins(metadata=ObjectMeta(name="default"))  # a server without objects
    named = None if kubernetes_version is None else release_named(kubernetes_version).version
    check = ServerChecks(named, None)
    before, after = load_before_and_after(
        first, *objects, namespace=namespace, validate=validate, check=check
    )
    gates = check.gates(before)
    listed = chain(after.nodes, after.pods, after.namespaces, after.others)
    stored = {(obj.kind, obj.namespace, obj.name): obj for obj in listed}
    refused = after.refused_of_change
    completing = StoredObjects([*after.others, *after.nodes], gates)
    security = SecuredNamespaces([*after.namespaces, *after.others], lambda: gates.release.version)
    notes = [text for text in after.warnings if text not in before.warnings]
    answer = Admitted([], refused, [], [], notes)
    for request in after.accepted:
        sent, texts = request.value(), [*request_warnings(request, gates)]
        obj = stored.get(request.key)
        completed = with_version_defaults(sent, str(sent.get("kind")), str(sent.get("apiVersion")), gates)
        if obj is not None:
            completed = _stored(completing, obj, sent, gates, request.is_new is not False)
            if template := pod_template(obj) or (obj if isinstance(obj, Pod) else None):
                texts += filter(None, [security.warning(obj.namespace, template)])
        answer.objects.append(completed)
        answer.warnings.extend(ObjectWarning(request.name, text) for text in texts)
    answer.not_asked.extend(Reviewers(after).not_asked(after.accepted, {}))
    return answer


def _stored(
    completing: StoredObjects, obj: Object, sent: dict[str, Any], gates: FeatureGates, is_new: bool
) -> dict[str, Any]:
    """Return an object as it is stored."""
    if is_new:
        return completing.value(obj, sent)
    head = {"apiVersion": obj.api_version, "kind": obj.kind}
    return with_version_defaults(joined(head | plain(obj), sent), obj.kind, obj.api_version, gates)
