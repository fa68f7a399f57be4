"""Plugins of the API server about accounts, claims and classes; some are off unless an option says so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage.lazy import NamedTuple

from ..model.admission_registration import IGNORE, WEBHOOKS, Webhook
from ..model.meta import Object, group_suffix
from ..model.node import HOSTNAME, Namespace, ServiceAccount
from ..model.pod import Pod
from ..model.policy import AdmissionPlugins
from ..model.resource_claims import ResourceClaim, ResourceClaimTemplate
from ..model.storage import BETA_STORAGE_CLASS, PersistentVolumeClaim, StorageClass
from ..model.workload import PriorityClass
from ..releases import (
    ADMISSION_PLUGINS,
    ANTI_AFFINITY_TOPOLOGY,
    DEFAULT_TOLERATIONS,
    NOT_EVALUATED,
    WEBHOOK_PLUGINS,
)
from ..workloads.ownership import has_made_up_uid
from .request import AdmissionPlugin, AdmissionRequest, NewPodPlugin, NotAdmittedError, StatusCause

_ADMIN_ACCESS = "resource.kubernetes.io/admin-access"
_NO_ADMIN = (
    f"Forbidden: admin access to devices requires the `{_ADMIN_ACCESS}: true` label on "
    "the containing namespace"
)

DEFAULT_ACCOUNT = "default"
_IS_DEFAULT = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
"""Annotations of a class, ``true``: the class of claims without one. Either suffices."""
_NO_RESIZE = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
    "support resize"
)
_NOT_BOUND = "Only bound persistent volume claims can be expanded"


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

    def are_listed(self, namespace: str) -> bool:
        """Whether the input lists the accounts of a namespace."""
        return DEFAULT_ACCOUNT in self._accounts.get(namespace, ())

    def refusal(self, namespace: str, name: str) -> str:
        """Return why a pod with an account is refused; "" where it is not."""
        if not name or not self.are_listed(namespace) or name in self._accounts[namespace]:
            return ""
        return f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'

    def get(self, namespace: str, name: str) -> ServiceAccount:
        """Return an account; one without anything where it is not listed."""
        return self._accounts.get(namespace, {}).get(name, ServiceAccount())


class ServiceAccountPlugin(AdmissionPlugin):
    """The account of a pod must exist, in a namespace whose accounts the input lists."""

    name = "ServiceAccount"

    def __init__(self, objects: Iterable[Object]) -> None:
        self._accounts = ServiceAccounts(objects)

    def mark(self, request: AdmissionRequest) -> str:
        """Return the account that a pod names."""
        pod = request.obj
        if not isinstance(pod, Pod) or not pod.unread or not self._accounts.are_listed(pod.namespace):
            return ""
        named = msgspec.json.decode(str(pod.unread), type=_Accounted)
        return named.service_account_name or named.service_account

    def mutate(self, request: AdmissionRequest) -> Object:
        """Refuse a new pod without its account; what the account adds scheduling does not read."""
        account = self.mark(request) if request.operation == "CREATE" else ""
        if text := self._accounts.refusal(request.namespace, account):
            raise NotAdmittedError(text)
        return request.obj


class _Accounted(msgspec.Struct, rename="camel"):
    """The account among the fields of a pod that scheduling does not read."""

    service_account_name: str = ""
    service_account: str = ""


class AdminAccessPlugin(AdmissionPlugin):
    """Claims for devices have admin access in namespaces with a label alone (kubernetes v1.36,
    pkg/registry/resource). It is part of validation. A namespace that the input lacks may have the label."""

    def __init__(self, objects: Iterable[Object]) -> None:
        namespaces = (obj for obj in objects if isinstance(obj, Namespace))
        self._closed = {obj.name for obj in namespaces if obj.metadata.labels.get(_ADMIN_ACCESS) != "true"}

    def validate(self, request: AdmissionRequest) -> Sequence[str]:
        """Refuse a new claim, or template of claims, with admin access."""
        obj = request.obj
        if not isinstance(obj, ResourceClaim | ResourceClaimTemplate) or request.operation != "CREATE":
            return ()
        spec = obj.spec.spec if isinstance(obj, ResourceClaimTemplate) else obj.spec
        for at, each in enumerate(spec.devices.requests if obj.namespace in self._closed else ()):
            if each.exactly is not None and each.exactly.admin_access:
                field = f"spec.devices.requests[{at}].adminAccess"
                head = f'{obj.kind}{group_suffix(type(obj))} "{request.name}" is invalid'
                cause = StatusCause("FieldValueForbidden", field, _NO_ADMIN)
                text = f"{head}: {field}: {_NO_ADMIN}"
                raise NotAdmittedError(text, 422, "Invalid", [cause], is_whole=True)
        return ()


class DefaultStorageClassPlugin(AdmissionPlugin):
    """A new claim without a class gets the default one."""

    name = "DefaultStorageClass"

    def __init__(self, objects: Iterable[Object]) -> None:
        self._classes = {obj.name: obj for obj in objects if isinstance(obj, StorageClass)}

    def mutate(self, request: AdmissionRequest) -> Object:
        """Return a new claim with its class."""
        claim = request.obj
        if not isinstance(claim, PersistentVolumeClaim) or request.operation != "CREATE":
            return claim
        chosen = default_class(claim, self._classes.values())
        if chosen is None:
            return claim
        return replace(claim, spec=replace(claim.spec, storage_class_name=chosen.name))


class ClaimResizePlugin(AdmissionPlugin):
    """A claim grows only if its class allows it."""

    name = "PersistentVolumeClaimResize"

    def __init__(self, objects: Iterable[Object]) -> None:
        self._classes = {obj.name: obj for obj in objects if isinstance(obj, StorageClass)}

    def validate(self, request: AdmissionRequest) -> Sequence[str]:
        """Refuse a claim that may not grow."""
        claim, old = request.obj, request.old
        if not (isinstance(claim, PersistentVolumeClaim) and isinstance(old, PersistentVolumeClaim)):
            return ()
        if _storage(claim) > _storage(old):
            if old.status.phase not in ("Bound", ""):  # manifests do not tell
                raise NotAdmittedError(_NOT_BOUND)
            name, own = _class_name(claim), self._classes.get(_class_name(claim))
            is_known = own is not None or not name or bool(self._classes)
            may_grow = own is not None and own.allow_volume_expansion and _class_name(old) == name
            if is_known and not may_grow:
                raise NotAdmittedError(_NO_RESIZE)
        return ()


def default_class(claim: PersistentVolumeClaim, classes: Iterable[StorageClass]) -> StorageClass | None:
    """Return the default class for a claim without one; None where it has a class, or there is no default.

    Of several default classes the newest is chosen, of equally old ones the first by name. A claim with the
    class "" has a class.
    """
    if claim.spec.storage_class_name is not None or BETA_STORAGE_CLASS in claim.metadata.annotations:
        return None
    defaults = [item for item in classes if "true" in map(item.metadata.annotations.get, _IS_DEFAULT)]
    return min(defaults, key=lambda item: (-_created(item), item.name), default=None)


def _created(obj: Object) -> float:
    """Creation time in seconds since 1970; minus infinity if unknown."""
    stamp = obj.metadata.creation_timestamp
    return datetime.fromisoformat(stamp).timestamp() if stamp else float("-inf")


def _storage(claim: PersistentVolumeClaim) -> Quantity:
    return Quantity(claim.spec.resources.requests.get("storage", 0))


def _class_name(claim: PersistentVolumeClaim) -> str:
    return claim.metadata.annotations.get(BETA_STORAGE_CLASS) or claim.spec.storage_class_name or ""


class PriorityClassPlugin(AdmissionPlugin):
    """There is one default class of priority (Priority)."""

    name = "Priority"

    def __init__(self, objects: Iterable[Object]) -> None:
        self._defaults = [
            obj.name
            for obj in objects
            if isinstance(obj, PriorityClass) and obj.global_default and not has_made_up_uid(obj)
        ]

    def validate(self, request: AdmissionRequest) -> Sequence[str]:
        """Refuse a second default class."""
        obj = request.obj
        if isinstance(obj, PriorityClass) and obj.global_default:
            for name in self._defaults:
                if name != obj.name:
                    is_taken = f"PriorityClass {name} is already marked as default"
                    raise NotAdmittedError(f"{is_taken}. Only one default can exist")
        return ()


class AntiAffinityTopologyPlugin(NewPodPlugin):
    """Required anti-affinity is about nodes alone; off by default."""

    name = ANTI_AFFINITY_TOPOLOGY

    def admit(self, pod: Pod) -> Pod:
        """Refuse a new pod that keeps others from more than its node."""
        terms = None if pod.spec.affinity is None else pod.spec.affinity.pod_anti_affinity
        for term in () if terms is None else terms.required:
            if term.topology_key != HOSTNAME:
                field = "affinity.PodAntiAffinity.RequiredDuringScheduling"
                text = f"has TopologyKey {term.topology_key} but only key {HOSTNAME} is allowed"
                raise NotAdmittedError(f"{field} {text}")
        return pod


# ---- options -----------------------------------------------------------------------------------------------
#
# Which plugins the API server runs: its options, and those of commands.


class SwitchedPlugins(NamedTuple):
    """Plugins that are on besides the default ones, those that are off, and what moorage does not know."""

    enabled: frozenset[str]
    disabled: frozenset[str]
    notes: list[str]


def switched_plugins(objects: Iterable[Object]) -> SwitchedPlugins:
    """Return the plugins that are switched on and off.

    Parameters
    ----------
    objects : iterable of Object
        With AdmissionPlugins; other kinds are ignored. An option of a pod of kube-apiserver counts where
        nobody has given it.
    """
    listed = [obj for obj in objects if isinstance(obj, AdmissionPlugins)]
    given, read = ([obj for obj in listed if bool(obj.pod) == is_read] for is_read in (False, True))
    enabled, disabled = (
        frozenset(name for obj in given for name in getattr(obj, field))
        or frozenset(name for obj in read for name in getattr(obj, field))
        for field in ("plugins", "disabled_plugins")
    )
    unknown = () if any(obj.plugins for obj in given) else [name for obj in read for name in obj.unknown]
    files = [obj.config_file for obj in read]
    return SwitchedPlugins(enabled, disabled, [*_notes(enabled.union(unknown), disabled, files)])


def _notes(enabled: frozenset[str], disabled: frozenset[str], files: Iterable[str]) -> Iterator[str]:
    if others := sorted(name for name in enabled if name in NOT_EVALUATED or name not in ADMISSION_PLUGINS):
        yield f"Admission plugins of the API server that are on and not evaluated: {', '.join(others)}."
    if DEFAULT_TOLERATIONS in disabled:
        yield f"New pods have the tolerations of {DEFAULT_TOLERATIONS}, although it is off."
    for file in sorted({*files} - {""}):
        option = f"--admission-control-config-file {file}"
        yield f"The API server has {option}, which is not read: --exempt has what Pod Security exempts."


def webhooks_that_fail_closed(objects: Iterable[Object]) -> Iterator[tuple[Object, Webhook]]:
    """Yield the webhooks of the configurations among objects that do not fail open, each after its own, but
    for those that the API server is told not to ask."""
    listed = list(objects)
    off = switched_plugins(listed).disabled
    for obj in listed:
        if isinstance(obj, WEBHOOKS) and WEBHOOK_PLUGINS[obj.kind] not in off:
            yield from ((obj, webhook) for webhook in obj.webhooks if webhook.failure_policy != IGNORE)
