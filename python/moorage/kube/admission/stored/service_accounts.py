"""What the plugin ServiceAccount gives a new pod (kubernetes v1.36, plugin/pkg/admission/serviceaccount)."""

from __future__ import annotations

from itertools import chain

from ...field_errors import Json, part, parts
from ...model.pod import MIRROR_ANNOTATION
from ...workloads.ownership import generated_names
from ..built_in_plugins import DEFAULT_ACCOUNT, ServiceAccounts
from ..validate_object import CONTAINERS

TOKEN_VOLUME, _PATH = "kube-api-access-", "/var/run/secrets/kubernetes.io/serviceaccount"
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


def with_account(pod: Json, accounts: ServiceAccounts) -> None:
    """Give a new pod its account: the name, the volume of its token, and the secrets to pull images."""
    spec, meta = part(pod, "spec"), part(pod, "metadata")
    if MIRROR_ANNOTATION in part(meta, "annotations"):
        return
    name = spec.get("serviceAccountName") or DEFAULT_ACCOUNT
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = accounts.get(meta.get("namespace") or "default", name)
    mounts = spec.get("automountServiceAccountToken")
    mounts = account.automount_service_account_token if mounts is None else mounts
    if mounts is not False:
        _mount_token(spec, meta)
    if account.image_pull_secrets and not spec.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [{"name": secret.name} for secret in account.image_pull_secrets]


def all_containers(spec: Json) -> list[Json]:
    """Return the containers of a pod, those that run before the others first."""
    return [container for kind in CONTAINERS for container in parts(spec, kind)]


def _mount_token(spec: Json, meta: Json) -> None:
    """Mount the token in each container that has nothing at its path."""
    volumes = parts(spec, "volumes")
    own = (volume["name"] for volume in volumes if str(volume.get("name")).startswith(TOKEN_VOLUME))
    generated = generated_names(TOKEN_VOLUME, f"{meta.get('namespace')}/{meta.get('name')}")
    name = next(chain(own, generated))
    lacking = [
        container
        for container in all_containers(spec)
        if all(mount.get("mountPath") != _PATH for mount in parts(container, "volumeMounts"))
    ]
    for container in lacking:
        mount = {"name": name, "readOnly": True, "mountPath": _PATH}
        container["volumeMounts"] = [*parts(container, "volumeMounts"), mount]
    if lacking and all(volume.get("name") != name for volume in volumes):
        spec["volumes"] = [*volumes, {"name": name, "projected": _TOKEN}]
