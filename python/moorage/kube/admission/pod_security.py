"""The Pod Security Standards: what a level of a version forbids in a pod (kubernetes v1.36).

Specs are JSON values as a server stores them, so every field counts, not only those that scheduling reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from moorage.lazy import NamedTuple

from ..field_errors import Fault, invalid
from ..go_texts import go_json
from ..model.node import SECURITY_LABELS

Json = Mapping[str, Any]
MODES = ("enforce", "audit", "warn")
PRIVILEGED, BASELINE, RESTRICTED = LEVELS = ("privileged", "baseline", "restricted")
LATEST = "latest"
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP = ("seccomp.security.alpha.kubernetes.io/pod", "container.seccomp.security.alpha.kubernetes.io/")
_DEFAULT_CAPABILITIES = {
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
    *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
}
_SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t")
_SYSCTLS = {
    0: (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    ),
    27: ("net.ipv4.ip_local_reserved_ports",),
    29: (
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
    ),
    32: ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
}
"""Sysctls that are safe, by the minor version since which they are."""
_VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim"),
    *("projected", "secret"),
}
_PROFILES = ("RuntimeDefault", "Localhost")
_PROFILE_TEXTS = {"runtime/default": _PROFILES[0], "localhost/": _PROFILES[1], "unconfined": "Unconfined"}
"""The profiles of AppArmor by what their texts in annotations begin with."""
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


class Level(NamedTuple):
    """A level and its version, as the labels of a namespace say them."""

    level: str
    version: str = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"


class _Pod(NamedTuple):
    """A pod, and the minor version by which it is judged."""

    annotations: Json
    spec: Json
    minor: int

    def containers(self) -> Iterator[Json]:
        """Yield all containers: those that run first, the others, and those for debugging."""
        return chain.from_iterable(self.spec.get(kind) or () for kind in _CONTAINERS)

    def values(self, *path: str) -> tuple[Any, list[tuple[str, Any]]]:
        """Return a field below securityContext of the pod, and of each container by its name; None where it
        is not set."""
        named = [(container["name"], _value(container, path)) for container in self.containers()]
        return _value(self.spec, path), named

    def has_own_users(self) -> bool:
        """Whether the pod has user IDs of its own, which counts since v1.35."""
        return self.minor >= 35 and self.spec.get("hostUsers") is False

    def is_windows(self) -> bool:
        """Whether the pod says that it runs on Windows, which counts since v1.25."""
        return self.minor >= 25 and (self.spec.get("os") or {}).get("name") == "windows"


Refusal = tuple[str, str] | None
"""What is forbidden, and who does it."""


class _Check(NamedTuple):
    """A check of a level, since a minor version; it replaces another one of the level below."""

    name: str
    level: str
    since: int
    check: Callable[[_Pod], Refusal]
    replaces: str = ""


def _value(holder: Json, path: Sequence[str]) -> Any:
    value: Any = holder.get("securityContext")
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _named(kind: str, names: Sequence[str]) -> str:
    return f"{kind}{'s' * (len(names) > 1)} {_quoted(names)}"


def _setters(of_pod: bool, containers: Sequence[str]) -> str:
    """Return who sets a field: the pod, containers, or both."""
    return " and ".join(["pod"] * of_pod + [_named("container", containers)] * bool(containers))


def _unlike(pod: _Pod, is_bad: Callable[[Any], bool], *path: str) -> tuple[str, list[Any]]:
    """Return who sets a field to a value that is bad, and the values, sorted."""
    of_pod, of_containers = pod.values(*path)
    is_set, names = of_pod is not None and is_bad(of_pod), list[str]()
    bad = {of_pod} if is_set else set()
    for name, value in of_containers:
        if value is not None and is_bad(value):
            names.append(name)
            bad.add(value)
    return _setters(is_set, names), sorted(bad)


# ---- baseline ----------------------------------------------------------------------------------------------


def _app_armor(pod: _Pod) -> Refusal:
    setters, values = _unlike(pod, lambda value: value not in _PROFILES, "appArmorProfile", "type")
    notes = sorted(
        f"{key}={go_json(value)}"
        for key, value in pod.annotations.items()
        if key.startswith(APP_ARMOR) and value not in ("", "runtime/default")
        if not value.startswith("localhost/")
    )
    who = " and ".join([setters] * bool(setters) + [f"annotation{'s' * (len(notes) > 1)}"] * bool(notes))
    if not who:
        return None
    values += notes
    reason = f"forbidden AppArmor profile{'s' * (len(values) > 1)}"
    return reason, f"{who} must not set AppArmor profile type to {_quoted(values)}"


def _added(pod: _Pod, allowed: Iterable[str]) -> str:
    """Say which containers add capabilities beyond those that are allowed."""
    names, bad = list[str](), set[str]()
    for name, capabilities in pod.values("capabilities", "add")[1]:
        if more := {*(capabilities or ())}.difference(allowed):
            names.append(name)
            bad |= more
    must_not = f"must not include {_quoted(sorted(bad))} in securityContext.capabilities.add"
    return f"{_named('container', names)} {must_not}" if names else ""


def _capabilities(pod: _Pod) -> Refusal:
    text = _added(pod, _DEFAULT_CAPABILITIES)
    return ("non-default capabilities", text) if text else None


def _host_namespaces(pod: _Pod) -> Refusal:
    shared = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(name)]
    return ("host namespaces", ", ".join(shared)) if shared else None


def _volumes(pod: _Pod) -> Iterator[tuple[str, str]]:
    """Yield the names of volumes and their types; one without a source is an emptyDir."""
    for volume in pod.spec.get("volumes") or ():
        yield volume["name"], next((key for key in volume if key != "name"), "emptyDir")


def _host_paths(pod: _Pod) -> Refusal:
    names = [name for name, kind in _volumes(pod) if kind == "hostPath"]
    return ("hostPath volumes", _named("volume", names)) if names else None


def _used(pod: _Pod, of: Callable[[Json], set[str]]) -> tuple[list[str], list[str], str]:
    """Return the containers that use something of the node, what they use, sorted, and the verb for them."""
    used = {container["name"]: own for container in pod.containers() if (own := of(container))}
    return [*used], sorted(set[str]().union(*used.values())), f"use{'s' * (len(used) == 1)}"


def _host_ports(pod: _Pod) -> Refusal:
    def ports_of(container: Json) -> set[str]:
        return {str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")}

    names, ports, use = _used(pod, ports_of)
    text = f"{_named('container', names)} {use} hostPort{'s' * (len(ports) > 1)} {', '.join(ports)}"
    return ("hostPort", text) if names else None


def _probe_hosts(pod: _Pod) -> Refusal:
    def hosts_of(container: Json) -> set[str]:
        lifecycle = container.get("lifecycle") or {}
        handlers = [container.get(f"{probe}Probe") for probe in ("liveness", "readiness", "startup")]
        handlers += [lifecycle.get("postStart"), lifecycle.get("preStop")]
        calls = [(handler or {}).get(call) for handler in handlers for call in ("httpGet", "tcpSocket")]
        return {call["host"] for call in calls if call and call.get("host")}

    names, hosts, use = _used(pod, hosts_of)
    text = f"{_named('container', sorted(names))} {use} {_named('probe or lifecycle host', hosts)}"
    return ("probe or lifecycle host", text) if names else None


def _privileged(pod: _Pod) -> Refusal:
    names = [name for name, value in pod.values("privileged")[1] if value]
    text = f"{_named('container', names)} must not set securityContext.privileged=true"
    return ("privileged", text) if names else None


def _proc_mount(pod: _Pod) -> Refusal:
    setters, values = _unlike(pod, lambda value: value != "Default", "procMount")
    text = f"{setters} must not set securityContext.procMount to {_quoted(values)}"
    return ("procMount", text) if setters else None


def _masked_proc_mount(pod: _Pod) -> Refusal:
    return None if pod.has_own_users() else _proc_mount(pod)


def _selinux(pod: _Pod) -> Refusal:
    allowed = (*_SELINUX_TYPES, *["container_engine_t"] * (pod.minor >= 31))
    of_pod, of_containers = pod.values("seLinuxOptions")
    types, has_user, has_role = set[str](), False, False

    def is_bad(options: Any) -> bool:
        nonlocal has_user, has_role
        options = options or {}
        kind = options.get("type") or ""
        bad_type, user, role = kind not in allowed, bool(options.get("user")), bool(options.get("role"))
        types.update([kind] * bad_type)
        has_user, has_role = has_user or user, has_role or role
        return bad_type or user or role

    setters = _setters(is_bad(of_pod), [name for name, options in of_containers if is_bad(options)])
    parts = [_named("type", sorted(types))] * bool(types)
    parts += ["user may not be set"] * has_user + ["role may not be set"] * has_role
    text = f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(parts)}"
    return ("seLinuxOptions", text) if parts else None


def _seccomp(pod: _Pod) -> Refusal:
    if pod.minor < 19:
        keys = {SECCOMP[0], *(SECCOMP[1] + container["name"] for container in pod.containers())}
        bad = sorted(
            f"{key}={go_json(pod.annotations[key])}"
            for key in keys & pod.annotations.keys()
            if pod.annotations[key] not in ("runtime/default", "docker/default")
            if not pod.annotations[key].startswith("localhost/")
        )
        text = f"forbidden annotation{'s' * (len(bad) > 1)} {', '.join(bad)}"
        return ("seccompProfile", text) if bad else None
    setters, values = _unlike(pod, lambda value: value not in _PROFILES, "seccompProfile", "type")
    text = f"{setters} must not set securityContext.seccompProfile.type to {_quoted(values)}"
    return ("seccompProfile", text) if setters else None


def _sysctls(pod: _Pod) -> Refusal:
    safe = {name for since, names in _SYSCTLS.items() if since <= pod.minor for name in names}
    bad = [each["name"] for each in _value(pod.spec, ["sysctls"]) or () if each["name"] not in safe]
    return ("forbidden sysctls", ", ".join(bad)) if bad else None


def _host_process(pod: _Pod) -> Refusal:
    setters, _ = _unlike(pod, bool, "windowsOptions", "hostProcess")
    text = f"{setters} must not set securityContext.windowsOptions.hostProcess=true"
    return ("hostProcess", text) if setters else None


# ---- restricted --------------------------------------------------------------------------------------------


def _escalation(pod: _Pod) -> Refusal:
    names = [name for name, value in pod.values("allowPrivilegeEscalation")[1] if value is not False]
    if pod.is_windows() or not names:
        return None
    text = f"{_named('container', names)} must set securityContext.allowPrivilegeEscalation=false"
    return "allowPrivilegeEscalation != false", text


def _few_capabilities(pod: _Pod) -> Refusal:
    if pod.is_windows():
        return None
    names = [name for name, drop in pod.values("capabilities", "drop")[1] if "ALL" not in (drop or ())]
    drop = f'{_named("container", names)} must set securityContext.capabilities.drop=["ALL"]' if names else ""
    parts = [*filter(None, (drop, _added(pod, ["NET_BIND_SERVICE"])))]
    return ("unrestricted capabilities", "; ".join(parts)) if parts else None


def _volume_types(pod: _Pod) -> Refusal:
    bad = [(name, kind) for name, kind in _volumes(pod) if kind not in _VOLUMES]
    if not bad:
        return None
    kinds = _named("restricted volume type", sorted({kind for _, kind in bad}))
    return "restricted volume types", f"{_named('volume', [*dict(bad)])} use{'s' * (len(bad) == 1)} {kinds}"


def _non_root(pod: _Pod) -> Refusal:
    if pod.has_own_users():
        return None
    of_pod, of_containers = pod.values("runAsNonRoot")
    reason, field = "runAsNonRoot != true", "securityContext.runAsNonRoot"
    if setters := _setters(of_pod is False, [name for name, value in of_containers if value is False]):
        return reason, f"{setters} must not set {field}=false"
    names = [name for name, value in of_containers if value is None and not of_pod]
    return (reason, f"pod or {_named('container', names)} must set {field}=true") if names else None


def _user(pod: _Pod) -> Refusal:
    setters, _ = _unlike(pod, lambda user: user == 0, "runAsUser")
    return (
        ("runAsUser=0", f"{setters} must not set runAsUser=0")
        if setters and not pod.has_own_users()
        else None
    )


def _must_have_seccomp(pod: _Pod) -> Refusal:
    if pod.is_windows():
        return None
    of_pod, of_containers = pod.values("seccompProfile", "type")
    if (refusal := _seccomp(pod)) is not None:
        return refusal
    names = [name for name, value in of_containers if value is None and of_pod is None]
    must = f"must set securityContext.seccompProfile.type to {' or '.join(map(go_json, _PROFILES))}"
    return ("seccompProfile", f"pod or {_named('container', names)} {must}") if names else None


_CHECKS = (
    _Check("appArmorProfile", BASELINE, 0, _app_armor),
    _Check("capabilities", BASELINE, 0, _capabilities),
    _Check("hostNamespaces", BASELINE, 0, _host_namespaces),
    _Check("hostPathVolumes", BASELINE, 0, _host_paths),
    _Check("hostPorts", BASELINE, 0, _host_ports),
    _Check("hostProbes", BASELINE, 34, _probe_hosts),
    _Check("privileged", BASELINE, 0, _privileged),
    _Check("procMount", BASELINE, 0, _masked_proc_mount),
    _Check("seLinuxOptions", BASELINE, 0, _selinux),
    _Check("seccompProfile", BASELINE, 0, _seccomp),
    _Check("sysctls", BASELINE, 0, _sysctls),
    _Check("windowsHostProcess", BASELINE, 0, _host_process),
    _Check("allowPrivilegeEscalation", RESTRICTED, 8, _escalation),
    _Check("capabilities_restricted", RESTRICTED, 22, _few_capabilities, "capabilities"),
    _Check("procMount_restricted", RESTRICTED, 35, _proc_mount, "procMount"),
    _Check("restrictedVolumes", RESTRICTED, 0, _volume_types, "hostPathVolumes"),
    _Check("runAsNonRoot", RESTRICTED, 0, _non_root),
    _Check("runAsUser", RESTRICTED, 23, _user),
    _Check("seccompProfile_restricted", RESTRICTED, 19, _must_have_seccomp, "seccompProfile"),
)
"""In the order in which a server tells them."""


def with_app_armor(annotations: Mapping[str, str], spec: Json) -> Json:
    """Return the spec of a new pod with the AppArmor profiles that its annotations name, in their fields.

    A server does this before admission is asked (kubernetes v1.36, pkg/registry/core/pod/strategy.go).
    """
    names = [container["name"] for kind in _CONTAINERS for container in spec.get(kind) or ()]
    profiles = {name: annotations.get(f"{APP_ARMOR}{name}") for name in names}
    if not any(profiles.values()) or (spec.get("os") or {}).get("name") == "windows":
        return spec
    of_pod, copy = _value(spec, ["appArmorProfile", "type"]), dict(spec)
    for kind in _CONTAINERS:
        copy[kind] = [_with_profile(each, profiles[each["name"]], of_pod) for each in spec.get(kind) or ()]
    return copy


def _with_profile(container: Json, text: str | None, of_pod: str | None) -> Json:
    """Return a container with the profile of its annotation, unless it or its pod has it."""
    profile = next((name for start, name in _PROFILE_TEXTS.items() if (text or "").startswith(start)), None)
    own = container.get("securityContext") or {}
    if profile in (None, of_pod) or own.get("appArmorProfile"):
        return container
    return {**container, "securityContext": {**own, "appArmorProfile": {"type": profile}}}


def refusals(annotations: Json, spec: Json, level: Level, newest: int) -> list[tuple[str, str]]:
    """Return what a level forbids in a pod, and who does it.

    Parameters
    ----------
    annotations, spec : mapping
        JSON values of the pod, with the server's defaults.
    newest : int
        Minor version of the server: ``latest``, and what is newer, mean this one.
    """
    if level.level == PRIVILEGED:
        return []
    minor = newest if level.version == LATEST else min(newest, int(level.version.removeprefix("v1.")))
    checks = [
        check
        for check in _CHECKS
        if check.since <= minor and (check.level == BASELINE or level.level == RESTRICTED)
    ]
    replaced, pod = {check.replaces for check in checks}, _Pod(annotations, spec, minor)
    refused = [check.check(pod) for check in checks if check.name not in replaced]
    return [refusal for refusal in refused if refusal is not None]


def levels(labels: Mapping[str, str]) -> dict[str, Level]:
    """Return the level of each mode that the labels of a namespace say.

    A wrong level is restricted for enforce and privileged for the others, a wrong version is the newest.
    Without a level for warnings, they follow what is enforced.
    """
    known = dict[str, Level]()
    for mode in MODES:
        of_version = f"{SECURITY_LABELS}{mode}-version"
        level, version = labels.get(SECURITY_LABELS + mode), labels.get(of_version, LATEST)
        is_version = version.removeprefix("v1.").isdecimal() and version.startswith("v1.")
        if level is None:
            enforced = known[MODES[0]] if mode == "warn" else Level(PRIVILEGED)
            has_version = of_version in labels and is_version
            known[mode] = enforced._replace(version=version) if has_version else enforced
            continue
        if level not in LEVELS:
            level = RESTRICTED if mode == MODES[0] else PRIVILEGED
        known[mode] = Level(level, version if is_version else LATEST)
    return known


def label_faults(labels: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the labels that a server refuses at a namespace."""
    for key, text in labels.items():
        mode, _, version = key.removeprefix(SECURITY_LABELS).partition("-")
        if not key.startswith(SECURITY_LABELS) or mode not in MODES or version not in ("", "version"):
            continue
        if not version and text not in LEVELS:
            yield Fault(f"metadata.labels[{key}]", invalid(text, f"must be one of {', '.join(LEVELS)}"))
        if version and text != LATEST and re.fullmatch(r"v1\.(0|[1-9][0-9]*)", str(text)) is None:
            yield Fault(f"metadata.labels[{key}]", invalid(text, 'must be "latest" or "v1.x"'))
