"""Rules between the fields of pods and templates (kubernetes v1.34 to v1.38, pkg/apis/core/validation)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from moorage._core.base.quantity import Quantity

from ...field_errors import (
    Fault,
    Json,
    duplicate,
    forbidden,
    invalid,
    not_found,
    part,
    parts,
    required,
    unsupported,
)
from ...model.pod import DELETION_COST, MIRROR_ANNOTATION
from ..field_checks import (
    GATED,
    HEADER,
    MORE_VOLUMES,
    ON_CREATE,
    OTHER_PROFILE,
    OTHER_TYPE,
    SYSCTL,
    Rules,
    doubled,
    during,
    format_causes,
    is_absent,
    label_faults,
    port_errors,
    port_name_errors,
    quantity,
    wrong,
    wrong_choice,
)
from ..pod_security import APP_ARMOR, SECCOMP
from ..validate_object import CONTAINERS, name_faults, pod_level_faults, resource_faults, unknown_claim_faults

_GRACE = 30
ALWAYS = "Always"

# ---- pods --------------------------------------------------------------------------------------------------


def _metadata_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    """Labels and annotations of a template; those of the object are checked with its name."""
    yield from labels_causes(part(value, "metadata"), path)
    annotations = part(part(value, "metadata"), "annotations")
    yield from pod_annotation_causes(annotations, part(value, "spec"), f"{path}.annotations", f"{path}.spec")


def labels_causes(meta: Json, path: str) -> Iterator[Fault]:
    """Yield what is wrong with labels and with the keys of annotations."""
    yield from label_faults(part(meta, "labels"), f"{path}.labels")
    for key in part(meta, "annotations"):
        yield from format_causes("qualifiedName", key.lower(), f"{path}.annotations")


_LOCALHOST = "localhost/"
_SECCOMP_TEXTS = {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default", "docker/default")}
"""By type of a profile, the annotations that say the same."""


def pod_annotation_causes(annotations: Json, spec: Json, path: str, spec_path: str) -> Iterator[Fault]:
    """Yield what is wrong with the annotations of a pod, also beside its fields."""
    cost = annotations.get(DELETION_COST)
    if cost is not None and not (
        re.fullmatch(r"-?(0|[1-9][0-9]*)", str(cost)) and -(2**31) <= int(cost) < 2**31 and cost != "-0"
    ):
        yield Fault(f"{path}[{DELETION_COST}]", invalid(cost, "must be a 32bit integer"))
    if MIRROR_ANNOTATION in annotations and not spec.get("nodeName"):
        why = "must set spec.nodeName if mirror pod annotation is set"
        yield Fault(f"{path}[{MIRROR_ANNOTATION}]", invalid(annotations[MIRROR_ANNOTATION], why))
    if MIRROR_ANNOTATION in annotations and spec.get("resourceClaims"):
        yield Fault("[]", forbidden("static pods do not support resource claims"))
    names = {item.get("name") for name in (*CONTAINERS, "ephemeralContainers") for item in parts(spec, name)}
    for key, value in annotations.items():
        if (key == SECCOMP[0] or key.startswith(SECCOMP[1])) and not (
            value in ("runtime/default", "docker/default", "unconfined")
            or str(value).startswith("localhost/")
        ):
            yield Fault(f"{path}.{key}", invalid(value, "must be a valid seccomp profile"))
        if key.startswith(APP_ARMOR):
            name = key.removeprefix(APP_ARMOR)
            if name not in names:
                yield Fault(f"{path}[{key}]", invalid(name, "container not found"))
            if not (value in ("", "runtime/default", "unconfined") or str(value).startswith("localhost/")):
                yield Fault(f"{path}[{key}]", invalid(value, f'invalid AppArmor profile name: "{value}"'))
    yield from _seccomp_match_errors(annotations.get(SECCOMP[0]), spec, spec_path)
    for listed in CONTAINERS:
        for at, container in enumerate(parts(spec, listed)):
            text = annotations.get(f"{SECCOMP[1]}{container.get('name')}")
            yield from _seccomp_match_errors(text, container, f"{spec_path}.{listed}[{at}]")


def _seccomp_match_errors(text: Any, owner: Json, path: str) -> Iterator[Fault]:
    """What differs between an annotation and the profile of a pod or container."""
    profile = part(part(owner, "securityContext"), "seccompProfile")
    kind, field = str(profile.get("type")), f"{path}.securityContext.seccompProfile"
    is_local = kind == "Localhost"
    if text is None or not (is_local or kind in _SECCOMP_TEXTS):
        return
    if not (str(text).startswith(_LOCALHOST) if is_local else text in _SECCOMP_TEXTS[kind]):
        yield Fault(f"{field}.type", forbidden(OTHER_TYPE))
    elif is_local and text != f"{_LOCALHOST}{profile.get('localhostProfile')}":
        yield Fault(f"{field}.localhostProfile", forbidden(OTHER_PROFILE))


def _spec_errors(spec: Json, path: str, root: Json) -> Iterator[Fault]:
    if spec.get("ephemeralContainers"):
        why = "ephemeral containers not allowed in pod template"
        why = ON_CREATE if root.get("kind") == "Pod" else why
        yield Fault(f"{path}.ephemeralContainers", forbidden(why))
        yield from _ephemeral_errors(spec, path)
    yield from _volume_list_errors(spec, path)
    yield from name_faults(spec, path)
    yield from _container_errors(spec, path, root)
    yield from pod_level_faults(spec, path, root.get("kind") == "Pod")
    yield from _dns_errors(spec, path)
    yield from _host_errors(spec, path)
    yield from _system_errors(spec, path)
    if not spec.get("serviceAccountName") and (account := spec.get("serviceAccount")):
        yield from format_causes("dns1123Subdomain", account, f"{path}.serviceAccountName")
    for at, gate in enumerate(parts(spec, "schedulingGates")):
        yield from format_causes("qualifiedName", gate.get("name", ""), f"{path}.schedulingGates[{at}]")
    if spec.get("schedulingGates") and spec.get("nodeName") and root.get("kind") == "Pod":
        yield Fault(f"{path}.nodeName", forbidden(GATED))


def _ephemeral_errors(spec: Json, path: str) -> Iterator[Fault]:
    """What containers lack that come to a running pod."""
    known = {item.get("name") for name in CONTAINERS for item in parts(spec, name)}
    names = {*known}
    volumes = {volume.get("name"): volume for volume in parts(spec, "volumes")}
    for at, container in enumerate(parts(spec, "ephemeralContainers")):
        field, target = f"{path}.ephemeralContainers[{at}]", container.get("targetContainerName")
        if (name := container.get("name")) and name in names:
            yield Fault(f"{field}.name", duplicate(name))
        names.add(name)
        yield from _mount_errors(container, volumes, field)
        for index, mount in enumerate(parts(container, "volumeMounts")):
            for name in ("subPath", "subPathExpr"):
                if mount.get(name):
                    why = "cannot be set for an Ephemeral Container"
                    yield Fault(f"{field}.volumeMounts[{index}].{name}", forbidden(why))
        if target and target not in known:
            yield Fault(f"{field}.targetContainerName", not_found(target))


def _dns_errors(spec: Json, path: str) -> Iterator[Fault]:
    config, field = part(spec, "dnsConfig"), f"{path}.dnsConfig"
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if spec.get("dnsPolicy") == "None":
        if spec.get("dnsConfig") is None:
            why = "must provide `dnsConfig` when `dnsPolicy` is None"
            yield Fault(field, required(why))
            return
        if not servers:
            why = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield Fault(f"{field}.nameservers", required(why))
            return
    if len(servers) > 3:
        yield Fault(f"{field}.nameservers", invalid(servers, "must not have more than 3 nameservers"))
    if len(searches) > 32:
        yield Fault(f"{field}.searches", invalid(searches, "must not have more than 32 search paths"))
    for at, search in enumerate(searches):
        text = str(search).removesuffix(".") if search != "." else "a"
        yield from format_causes("dns1123Subdomain", text.replace("_", "-"), f"{field}.searches[{at}]")
    for at, option in enumerate(parts(config, "options")):
        if is_absent(option.get("name")):
            yield Fault(f"{field}.options[{at}]", required("must not be empty"))


_OWN_USERS = "when `hostUsers` is false"


def _host_errors(spec: Json, path: str) -> Iterator[Fault]:
    """What pods share with their node."""
    at, host_network = f"{path}.securityContext", spec.get("hostNetwork") is True
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        why = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield Fault(f"{at}.shareProcessNamespace", invalid(True, why))
    if spec.get("hostUsers") is False:
        for name, shown in (("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
            if spec.get(name):
                yield Fault(f"{path}.{shown}", forbidden(_OWN_USERS))
    context = part(spec, "securityContext")
    for index, sysctl in enumerate(parts(context, "sysctls")):
        name, field = str(sysctl.get("name") or ""), f"{at}.sysctls[{index}].name"
        if not name:
            continue
        if len(name) > 253 or SYSCTL.fullmatch(name) is None:
            pattern = SYSCTL.pattern
            why = f"must have at most 253 characters and match regex ^{pattern}$"
            yield Fault(field, invalid(name, why))
        dotted = name.replace("/", ".")
        shared = {"net.": host_network, "kernel.shm": bool(spec.get("hostIPC"))}
        is_ipc = dotted.startswith(("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."))
        if dotted.startswith("net.") and shared["net."]:
            yield Fault(field, invalid(name, "may not be specified when 'hostNetwork' is true"))
        if is_ipc and shared["kernel.shm"]:
            yield Fault(field, invalid(name, "may not be specified when 'hostIPC' is true"))
    own = part(context, "windowsOptions").get("hostProcess")
    processes = [
        part(part(item, "securityContext"), "windowsOptions").get("hostProcess", own)
        for name in CONTAINERS
        for item in parts(spec, name)
    ]
    if any(processes):
        if not host_network:
            why = "hostNetwork must be true if pod contains any hostProcess containers"
            yield Fault(f"{path}.hostNetwork", invalid(False, why))
        if not all(processes):
            why = "If pod contains any hostProcess containers then all containers must be HostProcess "
            why += "containers"
            yield Fault(path, invalid("", why))


_NOT_ON_WINDOWS = (
    *("hostPID", "hostIPC", "hostUsers", "shareProcessNamespace"),
    *("seLinuxOptions", "appArmorProfile", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls"),
    *("runAsUser", "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy"),
    *("capabilities", "readOnlyRootFilesystem", "privileged", "allowPrivilegeEscalation", "procMount"),
)


def _system_errors(spec: Json, path: str) -> Iterator[Fault]:
    if spec.get("os") is None:
        return
    system = part(spec, "os").get("name")
    contexts = [(f"{path}.securityContext", part(spec, "securityContext"))]
    contexts += [
        (f"{path}.{name}[{at}].securityContext", part(item, "securityContext"))
        for name in CONTAINERS
        for at, item in enumerate(parts(spec, name))
    ]
    if system == "linux":
        for field, context in contexts:
            if context.get("windowsOptions") is not None:
                why = "windows options cannot be set for a linux pod"
                yield Fault(f"{field}.windowsOptions", forbidden(why))
    if system == "windows":
        for field, context in [(path, spec), *contexts]:
            for name in _NOT_ON_WINDOWS:
                if context.get(name) not in (None, [], False if field == path else None):
                    yield Fault(f"{field}.{name}", forbidden("cannot be set for a windows pod"))


# ---- containers --------------------------------------------------------------------------------------------


def _container_errors(spec: Json, path: str, root: Json) -> Iterator[Fault]:
    volumes = {volume.get("name"): volume for volume in parts(spec, "volumes")}
    restarts = spec.get("restartPolicy") or ALWAYS
    given = spec.get("terminationGracePeriodSeconds")
    grace = _GRACE if given is None else given
    for name in CONTAINERS:
        for at, container in enumerate(parts(spec, name)):
            field = f"{path}.{name}[{at}]"
            image = container.get("image")
            if root.get("kind") == "Pod" and isinstance(image, str) and image.strip() != image:
                yield from wrong("unpadded", image, f"{field}.image")
            own = container.get("restartPolicy")
            yield from _port_errors(container, field, spec.get("hostNetwork") is True)
            yield from _mount_errors(container, volumes, field)
            yield from _resize_errors(container, restarts, field)
            yield from _claim_errors(container, field)
            resources, at_field = part(container, "resources"), f"{field}.resources"
            yield from unknown_claim_faults(spec, resources, at_field)
            yield from resource_faults(resources, at_field, root.get("kind") == "Pod")
            yield from _privilege_errors(container, spec, field)
            if name == "initContainers" and own != ALWAYS:
                for part_name in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
                    if container.get(part_name) is not None:
                        why = "may not be set for init containers without restartPolicy=Always"
                        yield Fault(f"{field}.{part_name}", forbidden(why))
            else:
                yield from _probes_errors(container, field)
                for hook, handler in part(container, "lifecycle").items():
                    if isinstance(handler, dict):
                        yield from _handler_errors(handler, f"{field}.lifecycle.{hook}", grace)


def _restart_errors(spec: Json, path: str, _root: Json) -> Iterator[Fault]:
    """Containers that do not restart as their pod does, but for those that run beside the others."""
    for at, container in enumerate(parts(spec, "containers")):
        if container.get("restartPolicy") is not None:
            why = "may not be set for non-init containers"
            yield Fault(f"{path}.containers[{at}].restartPolicy", forbidden(why))
    for at, container in enumerate(parts(spec, "initContainers")):
        if (policy := container.get("restartPolicy")) is not None:
            yield from wrong("in", policy, f"{path}.initContainers[{at}].restartPolicy", ALWAYS)


def _init_resize_errors(spec: Json, path: str, _root: Json) -> Iterator[Fault]:
    """Containers that end before the others begin, and would restart to be resized."""
    for at, container in enumerate(parts(spec, "initContainers")):
        policies = [] if container.get("restartPolicy") == ALWAYS else parts(container, "resizePolicy")
        for index, policy in enumerate(policies):
            if (how := policy.get("restartPolicy")) == "RestartContainer":
                why = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                field = f"{path}.initContainers[{at}].resizePolicy[{index}].restartPolicy"
                yield Fault(field, invalid(how, why))


def _port_errors(container: Json, field: str, host_network: bool) -> Iterator[Fault]:
    names: set[str] = set()
    for at, port in enumerate(parts(container, "ports")):
        name, number, path = port.get("name"), port.get("containerPort"), f"{field}.ports[{at}]"
        if name:
            texts = port_name_errors(str(name))
            yield from (Fault(f"{path}.name", text) for text in texts)
            if not texts and name in names:
                yield Fault(f"{path}.name", duplicate(name))
            names.add(str(name))
        if host_network and number and not port.get("hostPort"):
            yield from (Fault(f"{path}.hostPort", text) for text in port_errors(number))


_BLOCK = ("persistentVolumeClaim", "ephemeral")


def _mount_errors(container: Json, volumes: Mapping[Any, Json], field: str) -> Iterator[Fault]:
    mounts, devices = parts(container, "volumeMounts"), parts(container, "volumeDevices")
    device_names = [device.get("name") for device in devices]
    device_paths = [device.get("devicePath") for device in devices]
    names, paths = [mount.get("name") for mount in mounts], [mount.get("mountPath") for mount in mounts]
    privileged = part(container, "securityContext").get("privileged") is True
    for at, mount in enumerate(mounts):
        path, name, target = f"{field}.volumeMounts[{at}]", mount.get("name", ""), mount.get("mountPath")
        if name not in volumes or name == "":
            yield Fault(f"{path}.name", not_found(name))
        if name and name in device_names:
            yield Fault(f"{path}.name", invalid(name, "must not already exist in volumeDevices"))
        if target and target in paths[:at]:
            yield Fault(f"{path}.mountPath", invalid(target, "must be unique"))
        if target and target in device_paths:
            why = "must not already exist as a path in volumeDevices"
            yield Fault(f"{path}.mountPath", invalid(target, why))
        yield from _mount_option_errors(mount, path, privileged)
    for at, device in enumerate(devices):
        path, name, target = f"{field}.volumeDevices[{at}]", device.get("name"), device.get("devicePath")
        if name and name in names:
            yield Fault(f"{path}.name", invalid(name, "must not already exist in volumeMounts"))
        if name and name not in volumes:
            yield Fault(f"{path}.name", not_found(name))
        elif name and not any(kind in volumes[name] for kind in _BLOCK):
            why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield Fault(f"{path}.name", invalid(name, why))
        if name in device_names[:at]:
            yield Fault(f"{path}.name", invalid(name, "must be unique"))
        if target and target in device_paths[:at]:
            yield Fault(f"{path}.devicePath", invalid(target, "must be unique"))
        if target and target in paths:
            why = "must not already exist as a path in volumeMounts"
            yield Fault(f"{path}.devicePath", invalid(target, why))


def _mount_option_errors(mount: Json, path: str, privileged: bool) -> Iterator[Fault]:
    """How a volume is mounted; most errors are told at the list, not at the item."""
    whole = path.rpartition("[")[0]
    if mount.get("subPath"):
        yield from wrong("localPath", mount["subPath"], f"{whole}.subPath")
    if mount.get("subPathExpr"):
        if mount.get("subPath"):
            why = "subPathExpr and subPath are mutually exclusive"
            yield Fault(f"{path}.subPathExpr", invalid(mount["subPathExpr"], why))
        yield from wrong("localPath", mount["subPathExpr"], f"{whole}.subPathExpr")
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        allowed = ("Bidirectional", "HostToContainer", "None")
        yield from wrong("in", propagation, f"{whole}.mountPropagation", *allowed)
    if propagation == "Bidirectional" and not privileged:
        why = "Bidirectional mount propagation is available only to privileged containers"
        yield Fault(f"{whole}.mountPropagation", forbidden(why))
    recursive = mount.get("recursiveReadOnly")
    if recursive not in (None, "Disabled"):
        if recursive not in ("Enabled", "IfPossible"):
            allowed = ("Disabled", "Enabled", "IfPossible")
            yield Fault(f"{whole}.recursiveReadOnly", unsupported(recursive, allowed))
        elif not mount.get("readOnly"):
            why = "may only be specified when readOnly is true"
            yield Fault(f"{whole}.recursiveReadOnly", forbidden(why))
        elif propagation not in (None, "None"):
            why = "may only be specified when mountPropagation is None or not specified"
            yield Fault(f"{whole}.recursiveReadOnly", forbidden(why))


def _resize_errors(container: Json, restarts: str, field: str) -> Iterator[Fault]:
    policies, path = parts(container, "resizePolicy"), f"{field}.resizePolicy"
    for policy in policies:
        name, how = policy.get("resourceName"), policy.get("restartPolicy")
        yield from wrong_choice(name, path, "cpu", "memory")
        yield from wrong_choice(how, path, "NotRequired", "RestartContainer")
        if restarts == "Never" and how and how != "NotRequired":
            why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            yield Fault(path, invalid(how, why))
    yield from doubled([policy.get("resourceName") for policy in policies], path)


def _claim_errors(container: Json, field: str) -> Iterator[Fault]:
    seen: set[tuple[Any, Any]] = set()
    for at, claim in enumerate(parts(part(container, "resources"), "claims")):
        name, request = claim.get("name"), claim.get("request") or ""
        if not name:
            yield Fault(f"{field}.resources.claims[{at}]", required())
        if (name, request) in seen or (name, "") in seen:
            shown = f"{name}/{request}" if request else name
            yield Fault(f"{field}.resources.claims[{at}]", duplicate(shown))
        seen.add((name, request))


def _privilege_errors(container: Json, spec: Json, field: str) -> Iterator[Fault]:
    context, path = part(container, "securityContext"), f"{field}.securityContext"
    if context.get("allowPrivilegeEscalation") is False:
        why = "cannot set `allowPrivilegeEscalation` to false and `{}`"
        if context.get("privileged"):
            yield Fault(path, invalid(_shown_context(context), why.format("privileged` to true")[:-1]))
        if "CAP_SYS_ADMIN" in (part(context, "capabilities").get("add") or ()):
            shown = _shown_context(context)
            yield Fault(path, invalid(shown, why.format("capabilities.Add` CAP_SYS_ADMIN")[:-1]))
    if context.get("procMount") == "Unmasked" and spec.get("hostUsers") is not False:
        why = "`hostUsers` must be false to use `Unmasked`"
        yield Fault(f"{path}.procMount", invalid("Unmasked", why))


_CONTEXT = {
    "capabilities": ("Add", "Drop"),
    "privileged": (),
    "seLinuxOptions": ("User", "Role", "Type", "Level"),
    "windowsOptions": ("GMSACredentialSpecName", "GMSACredentialSpec", "RunAsUserName", "HostProcess"),
    **dict.fromkeys(("runAsUser", "runAsGroup", "runAsNonRoot", "readOnlyRootFilesystem"), ()),
    **dict.fromkeys(("allowPrivilegeEscalation", "procMount"), ()),
    **dict.fromkeys(("seccompProfile", "appArmorProfile"), ("Type", "LocalhostProfile")),
}
"""The fields of a security context in the order of the server's own type, and the fields in them."""


def _shown_context(context: Json) -> Json:
    """Return a security context as the server shows it: all fields, by their names in Go."""
    shown: Json = {}
    for name, fields in _CONTEXT.items():
        value = context.get(name)
        if fields and isinstance(value, dict):
            of_go = {key.casefold(): item for key, item in value.items()}
            empty = "" if name == "seLinuxOptions" else None
            value = {field: of_go.get(field.casefold(), empty) for field in fields}
        shown["SELinuxOptions" if name == "seLinuxOptions" else name[0].upper() + name[1:]] = value
    return shown


# ---- probes and handlers -----------------------------------------------------------------------------------

_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")


def _probes_errors(container: Json, field: str) -> Iterator[Fault]:
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe, path = container.get(name), f"{field}.{name}"
        if not isinstance(probe, dict):
            continue
        yield from _handler_errors(probe, path, None)
        successes, grace = probe.get("successThreshold"), probe.get("terminationGracePeriodSeconds")
        if name != "readinessProbe" and isinstance(successes, int) and successes > 1:
            yield Fault(f"{path}.successThreshold", invalid(successes, "must be 1"))
        if grace is not None:
            at = f"{path}.terminationGracePeriodSeconds"
            if name == "readinessProbe":
                yield Fault(at, invalid(grace, "must not be set for readinessProbes"))
            else:
                yield from wrong("min", grace, at, "1", "must be greater than 0")


def _handler_errors(handler: Json, path: str, grace: int | None) -> Iterator[Fault]:
    """One of several handlers; those of hooks may sleep, for less time than a pod has to end."""
    kinds = [name for name in (*_HANDLERS, "sleep") if handler.get(name) is not None]
    kinds = [name for name in kinds if name != ("sleep" if grace is None else "grpc")]
    if not kinds:
        yield Fault(path, required("must specify a handler type"))
    for at, name in enumerate(kinds):
        if at:
            yield Fault(f"{path}.{name}", forbidden("may not specify more than 1 handler type"))
            continue
        action, field = part(handler, name), f"{path}.{name}"
        if name in ("httpGet", "tcpSocket", "grpc"):
            port = action.get("port", 0)
            yield from (Fault(f"{field}.port", text) for text in port_errors(port))
        for header in parts(action, "httpHeaders"):
            for text in HEADER(header.get("name") or ""):
                yield Fault(f"{field}.httpHeaders", text)
        seconds = action.get("seconds")
        if name == "sleep" and grace is not None and isinstance(seconds, int) and not 0 <= seconds <= grace:
            why = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            yield Fault(field, invalid(seconds, why))


# ---- env ---------------------------------------------------------------------------------------------------

_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ENV_FIELDS = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
_FILE_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_KNOWN_FIELDS = {
    *_ENV_FIELDS,
    *_FILE_FIELDS,
    "spec.host",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
}
_KEYED = re.compile(r"(metadata\.(?:labels|annotations))\['(.*)'\]")
_COMPUTED = tuple(
    f"{which}.{name}" for which in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)


def _env_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    source = value.get("valueFrom")
    if not isinstance(source, dict):
        return
    field = f"{path}.valueFrom"
    kinds = [name for name in _SOURCES if source.get(name) is not None]
    if not kinds:
        why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or "
        why += "`fileKeyRef`"
        yield Fault(field, invalid("", why))
    elif value.get("value"):
        yield Fault(field, invalid("", "may not be specified when `value` is not empty"))
    elif len(kinds) > 1:
        yield Fault(field, invalid("", "may not have more than one field specified at a time"))
    yield from field_causes(source, field, _ENV_FIELDS)


def field_causes(source: Json, field: str, allowed: tuple[str, ...]) -> Iterator[Fault]:
    """Yield what is wrong with references to a field of a pod, and to a resource of a container."""
    if source.get("fieldRef") is not None:
        ref, at = part(source, "fieldRef"), f"{field}.fieldRef.fieldPath"
        name = ref.get("fieldPath") or ""
        keyed = _KEYED.fullmatch(name)
        if not name:
            yield Fault(at, required())
        elif ref.get("apiVersion") not in (None, "", "v1"):
            why = f"error converting fieldPath: unsupported pod version: {ref['apiVersion']}"
            yield Fault(at, invalid(name, why))
        elif keyed:
            key = keyed[2].lower() if keyed[1].endswith("annotations") else keyed[2]
            yield from format_causes("qualifiedName", key, at)
        elif name not in _KNOWN_FIELDS:
            why = f"error converting fieldPath: field label not supported: {name}"
            yield Fault(at, invalid(name, why))
        elif name not in allowed:
            yield Fault(at, unsupported(name, sorted(allowed)))
    if source.get("resourceFieldRef") is not None:
        ref, at = part(source, "resourceFieldRef"), f"{field}.resourceFieldRef"
        resource = ref.get("resource") or ""
        if allowed is _FILE_FIELDS and not ref.get("containerName"):
            yield Fault(f"{at}.containerName", required())
        if not resource:
            yield Fault(f"{at}.resource", required())
        elif resource not in _COMPUTED and not re.match(r"(limits|requests)\.hugepages-", resource):
            yield Fault(f"{at}.resource", unsupported(resource, _COMPUTED))
        yield from _divisor_errors(ref.get("divisor"), resource, f"{at}.divisor")


_CPU_DIVISORS = ("1m", "1")
_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")


def _divisor_errors(given: Any, resource: str, field: str) -> Iterator[Fault]:
    divisor = quantity(given)
    if divisor is None or divisor == Quantity("0"):
        return
    allowed = _CPU_DIVISORS if resource.endswith(".cpu") else _DIVISORS
    if str(divisor) not in allowed:
        name = "cpu" if resource.endswith(".cpu") else resource.partition(".")[2]
        why = f"only divisor's values {', '.join(allowed)} are supported with the {name} resource"
        yield Fault(field, invalid(resource, why))


def _env_from_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    sources = [name for name in ("configMapRef", "secretRef") if value.get(name) is not None]
    whole = path.rpartition("[")[0]
    if not sources:
        yield Fault(whole, invalid("", "must specify one of: `configMapRef` or `secretRef`"))
    if len(sources) > 1:
        yield Fault(whole, invalid("", "may not have more than one field specified at a time"))


# ---- profiles ----------------------------------------------------------------------------------------------


def _seccomp_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    kind, profile = value.get("type"), value.get("localhostProfile")
    if profile is not None and kind in ("RuntimeDefault", "Unconfined"):
        why = "can only be set when seccomp type is Localhost"
        shown = {"Type": kind, "LocalhostProfile": profile}
        yield Fault(f"{path}.localhostProfile", invalid(shown, why))


def _app_armor_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    kind, profile, field = value.get("type"), value.get("localhostProfile"), f"{path}.localhostProfile"
    if kind == "Localhost":
        if not isinstance(profile, str) or not profile.strip():
            yield Fault(field, required("must be set when AppArmor type is Localhost"))
        elif profile.strip() != profile:
            yield Fault(field, invalid(profile, "must not be padded with whitespace"))
        elif len(profile) > 4095:
            yield Fault(field, "Too long: may not be more than 4095 bytes")


# ---- volumes -----------------------------------------------------------------------------------------------


def _volume_list_errors(spec: Json, path: str) -> Iterator[Fault]:
    names: set[str] = set()
    for at, volume in enumerate(parts(spec, "volumes")):
        name, field = volume.get("name"), f"{path}.volumes[{at}]"
        if not name:
            yield Fault(f"{field}.name", required())
        else:
            wrong_name = [*format_causes("dns1123Label", name, f"{field}.name")]
            yield from wrong_name
            if not wrong_name and name in names:
                yield Fault(f"{field}.name", duplicate(name))
            names.add(name)
        sources = [source for source, value in volume.items() if source != "name" and value is not None]
        for source in sorted(sources, key=_ORDER.index if {*sources} <= {*_ORDER} else None)[1:]:
            yield Fault(f"{field}.{source}", forbidden(MORE_VOLUMES))


_ORDER = (
    *(
        "emptyDir",
        "hostPath",
        "gitRepo",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "secret",
        "nfs",
        "iscsi",
    ),
    *("glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI"),
    *(
        "fc",
        "configMap",
        "azureFile",
        "flexVolume",
        "vsphereVolume",
        "photonPersistentDisk",
        "portworxVolume",
    ),
    *("azureDisk", "storageos", "projected", "scaleIO", "csi", "ephemeral", "image"),
)
_IQN = re.compile(
    r".*iqn\.\d{4}-\d{2}\.([A-Za-z0-9.\-]+)(:[^,;*&$|\s]+)|eui.[A-Za-z0-9]{16}|naa.[A-Za-z0-9]{32}", re.S
)


def _iscsi_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    name = str(value.get("iqn") or "")
    if name and _IQN.fullmatch(name) is None:
        why = "must be valid format starting with iqn, eui, or naa"
        if name.startswith(("iqn", "eui", "naa")):
            why = "must be valid format"
        yield Fault(f"{path}.iqn", invalid(name, why))


def _disk_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    at = path.replace("gcePersistentDisk", "persistentDisk")
    if not value.get("pdName"):
        yield Fault(f"{at}.pdName", required())
    why = "must be between 1 and 255, inclusive"
    yield from wrong("between", value.get("partition"), f"{at}.partition", "0", "255", why)


_BLOBS = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_MANAGED = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"


def _azure_disk_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    uri, is_managed = str(value.get("diskURI") or ""), value.get("kind") == "Managed"
    if uri and is_managed and not uri.startswith("/subscriptions/"):
        yield Fault(f"{path}.diskURI", unsupported(uri, (_MANAGED,)))
    if uri and not is_managed and not uri.startswith("https://"):
        yield Fault(f"{path}.diskURI", unsupported(uri, (_BLOBS,)))


def _flocker_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    name, uuid = value.get("datasetName"), value.get("datasetUUID")
    if not name and not uuid:
        yield Fault(path, required("one of datasetName and datasetUUID is required"))
    if name and uuid:
        yield Fault(
            path, invalid("resource", "datasetName and datasetUUID can not be specified simultaneously")
        )
    if name and "/" in name:
        yield Fault(f"{path}.datasetName", invalid(name, "must not contain '/'"))


def _empty_dir_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    size = quantity(value.get("sizeLimit"))
    if size is not None and size < Quantity("0"):
        yield Fault(f"{path}.sizeLimit", forbidden("SizeLimit field must be a valid resource quantity"))


def _image_errors(value: Json, path: str, root: Json) -> Iterator[Fault]:
    """An image that only templates may leave open, for what completes their pods."""
    if root.get("kind") == "Pod" and not value.get("reference"):
        yield Fault(f"{path}.reference", required())


def _http_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    """HTTP/2, without TLS and for the pod itself."""
    if value.get("protocol") != "HTTP2":
        return
    if (value.get("scheme") or "HTTP") != "HTTP":
        yield Fault(f"{path}.protocol", invalid("HTTP2", "is only supported with HTTP (H2C)"))
    elif host := value.get("host"):
        yield Fault(f"{path}.host", invalid(host, 'must be empty when `protocol` is "HTTP2"'))


def _downward_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    """A file of the downward API; its errors are told at the volume, not at the item."""
    whole = path.rpartition(".items[")[0]
    field, resource = value.get("fieldRef"), value.get("resourceFieldRef")
    if field is None and resource is None:
        yield Fault(whole, required("one of fieldRef and resourceFieldRef is required"))
    if field is not None and resource is not None:
        yield Fault(
            whole, invalid("resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
        )
    yield from field_causes(value, whole, _FILE_FIELDS)


def _projected_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    paths: list[str] = []
    for at, source in enumerate(parts(value, "sources")):
        kinds = [name for name, given in source.items() if given is not None]
        for _ in kinds[1:]:
            yield Fault(
                f"{path}.sources[{at}]", forbidden("may not specify more than 1 volume type per source")
            )
        for name in kinds:
            given = part(source, name)
            paths += [str(item.get("path")) for item in parts(given, "items") if item.get("path")]
            if name == "serviceAccountToken" and not given.get("path"):
                yield Fault(f"{path}.path", required())
            if name in ("serviceAccountToken", "clusterTrustBundle") and given.get("path"):
                paths.append(str(given["path"]))
    for text in dict.fromkeys(text for at, text in enumerate(paths) if text in paths[:at]):
        yield Fault(path, invalid(text, "conflicting duplicate paths"))


RULES: Rules = {
    "core.v1.PodSpec": (
        _spec_errors,
        during("off ContainerRestartRules", _restart_errors),
        during("since 1.36", _init_resize_errors),
    ),
    "core.v1.PodTemplateSpec": (_metadata_errors,),
    "core.v1.EnvVar": (_env_errors,),
    "core.v1.EnvFromSource": (_env_from_errors,),
    "core.v1.SeccompProfile": (_seccomp_errors,),
    "core.v1.AppArmorProfile": (_app_armor_errors,),
    "core.v1.ISCSIVolumeSource": (_iscsi_errors,),
    "core.v1.ISCSIPersistentVolumeSource": (_iscsi_errors,),
    "core.v1.GCEPersistentDiskVolumeSource": (_disk_errors,),
    "core.v1.AzureDiskVolumeSource": (_azure_disk_errors,),
    "core.v1.FlockerVolumeSource": (_flocker_errors,),
    "core.v1.EmptyDirVolumeSource": (_empty_dir_errors,),
    "core.v1.ImageVolumeSource": (during("until 1.36", _image_errors),),
    "core.v1.HTTPGetAction": (during("on H2CContainerProbe", _http_errors),),
    "core.v1.DownwardAPIVolumeFile": (_downward_errors,),
    "core.v1.ProjectedVolumeSource": (_projected_errors,),
}
"""By struct, the rules between its fields."""
