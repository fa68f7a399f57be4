"""What policies say of the manifests of a change whose kinds are not read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from moorage.errors import InputError

from ...apiserver.decode import is_json
from ...apiserver.refusals import refused_object
from ...apiserver.unknown_fields import struct_of
from ...model.cluster import Cluster, RefusedObject
from ..request import ADMIN, user_of
from .mutating_policies import ServerPanicError
from .policy_matching import PolicyRequest
from .policy_plugins import CLOSED, AdmissionPolicies, defaulted

_CLUSTER_SCOPED = frozenset(
    {
        *("APIService", "CertificateSigningRequest", "ClusterRole", "ClusterRoleBinding", "FlowSchema"),
        *("ClusterTrustBundle", "CustomResourceDefinition", "IPAddress", "IngressClass", "ServiceCIDR"),
        *("PriorityLevelConfiguration", "VolumeAttributesClass"),
    }
)
"""Built-in kinds without namespaces that are not read."""


def refused_unread(cluster: Cluster, manifests: Iterable[tuple[str, Any]]) -> list[RefusedObject]:
    """Return which manifests the policies of a cluster refuse.

    Parameters
    ----------
    manifests : iterable of (str, object)
        File, and JSON text or value. They are taken for new objects.
    """
    policies = AdmissionPolicies([*cluster.others, *cluster.namespaces])
    user = next(filter(None, map(user_of, cluster.others)), ADMIN)
    refused: list[RefusedObject] = []
    for source, document in manifests:
        value = msgspec.json.decode(document) if is_json(document) else document
        if not isinstance(value, dict) or not value.get("kind") or not value.get("apiVersion"):
            continue  # an item of a list that alone has the kind
        kind, version, meta = value["kind"], value["apiVersion"], value.get("metadata") or {}
        if struct_of(kind, version) and kind not in _CLUSTER_SCOPED:
            meta = {"namespace": "default", **meta}
        request = PolicyRequest("CREATE", defaulted(value | {"metadata": meta}), user=user)
        if text := _refusal(policies, request):
            names = kind, version, meta.get("namespace", ""), meta.get("name", "")
            refused.append(refused_object(InputError(text), names, source))
    return refused


def _refusal(policies: AdmissionPolicies, request: PolicyRequest) -> str:
    """Return why a request is refused; "" where it is not."""
    try:
        mutated = policies.mutating.mutate(request, defaulted)
    except ServerPanicError:
        return CLOSED
    request = request._replace(object=mutated.value)
    judgement = policies.validating.judge(request, policies.validating.matching(request))
    if mutated.refusal or not judgement.denials:
        return mutated.refusal
    own = request.resource
    resource = f"{own.name}.{own.group}" if own.group else own.name
    return f'{resource} "{request.name}" is forbidden: {judgement.denials[0].text}'
