"""The admission plugin ServiceAccount (kubernetes v1.36, plugin/pkg/admission/serviceaccount)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain

from ...model.meta import Object
from ...model.node import ServiceAccount
from ...workloads.ownership import generated_names
from ..field_checks import Json, part, parts

DEFAULT_ACCOUNT = "default"
_MIRROR = "kubernetes.io/config.mirror"
_VOLUME, _PATH = "kube-api-access-", "/var/run/secrets/kubernetes.io/serviceaccount"
_CONTAINERS = ("initContainers", "containers")
_SECONDS = 3607
_TOKEN: Json = {
    "sources": [
        {"serviceAccountToken": {"expirationSeconds": _SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {
            "downwardAPI": {
                "items": [
                    {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                ]
            }
        },
    ],
    "defaultMode": 420,
}


class ServiceAccounts:
    """The service accounts of each namespace, as far as the input tells them.

    A controller makes the account ``default`` in each namespace, so a namespace without it is one whose
    accounts are not listed: any may be there.

    Parameters
    ----------
    objects : iterable of Object
        Service accounts; other kinds are ignored.
    """

    def __init__(self, objects: Iterable[Object]) -> None:
        self._accounts: defaultdict[str, dict[str, ServiceAccount]] = defaultdict(dict)
        for obj in objects:
            if isinstance(obj, ServiceAccount):
                self._accounts[obj.namespace][obj.name] = obj

    def refusal(self, namespace: str, name: str) -> str:
        """Return why a pod with an account is refused; "" where it is not."""
        listed = self._accounts.get(namespace, {})
        if not name or name in listed or DEFAULT_ACCOUNT not in listed:
            return ""
        return f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'

    def complete(self, pod: Json) -> None:
        """Give a new pod its account: the name, the volume of its token, and the secrets to pull images."""
        spec, meta = part(pod, "spec"), part(pod, "metadata")
        if _MIRROR in part(meta, "annotations"):
            return
        name = spec.get("serviceAccountName") or DEFAULT_ACCOUNT
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = self._accounts.get(meta.get("namespace") or "default", {}).get(name, ServiceAccount())
        mounts = spec.get("automountServiceAccountToken")
        mounts = account.automount_service_account_token if mounts is None else mounts
        if mounts is not False:
            _mount_token(spec, meta)
        if account.image_pull_secrets and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": secret.name} for secret in account.image_pull_secrets]


def _mount_token(spec: Json, meta: Json) -> None:
    """Mount the token in each container that has nothing at its path."""
    volumes = parts(spec, "volumes")
    own = (volume["name"] for volume in volumes if str(volume.get("name")).startswith(_VOLUME))
    generated = generated_names(_VOLUME, f"{meta.get('namespace')}/{meta.get('name')}")
    name = next(chain(own, generated))
    lacking = [
        container
        for kind in _CONTAINERS
        for container in parts(spec, kind)
        if all(mount.get("mountPath") != _PATH for mount in parts(container, "volumeMounts"))
    ]
    for container in lacking:
        mount = {"name": name, "readOnly": True, "mountPath": _PATH}
        container["volumeMounts"] = [*parts(container, "volumeMounts"), mount]
    if lacking and all(volume.get("name") != name for volume in volumes):
        spec["volumes"] = [*volumes, {"name": name, "projected": _TOKEN}]
