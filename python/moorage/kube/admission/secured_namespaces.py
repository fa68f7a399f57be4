"""The plugin PodSecurity: what the labels of namespaces forbid in their pods, and warn of in templates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec

from moorage.errors import first_of
from moorage.lazy import NamedTuple

from ..model.meta import Object
from ..model.node import SECURITY_LABELS, Namespace
from ..model.pod import Pod
from ..model.policy import AdmissionPlugins
from ..model.workload import CronJob, Job, PodTemplateSpec, ReplicaSet
from ..plain import joined, plain
from ..workloads.job_state import is_over
from .request import AdmissionPlugin, AdmissionRequest, NotAdmittedError

if TYPE_CHECKING:  # only a namespace with labels needs the rules
    from .pod_security import Level

_WRONG_TYPES = "unreadable fields", "securityContext, probes or volumes have values of wrong types"
_MOST = 3
_Refused = Sequence[tuple[str, str]]


class SecurityMark(NamedTuple):
    """What the judgement about a pod depends on beside its namespace and the fields that scheduling reads."""

    unread: str
    annotations: tuple[tuple[str, str], ...]


class SecuredNamespaces:
    """Judges pods by the labels ``pod-security.kubernetes.io/…`` of their namespaces.

    Parameters
    ----------
    policies : iterable of Object
        Namespaces, and AdmissionPlugins with exemptions; other kinds are ignored.
    release : callable
        Returns the release of the API server, for example "1.36". It is called only where a namespace has
        such labels.
    """

    def __init__(self, policies: Iterable[Object], release: Callable[[], str]) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}
        self._release = release
        self._levels: dict[str, dict[str, Level]] = {}
        namespaces, self._classes = set[str](), set[str]()
        for obj in policies:
            if isinstance(obj, AdmissionPlugins):
                namespaces.update(obj.exempt_namespaces)
                self._classes.update(obj.exempt_runtime_classes)
            elif isinstance(obj, Namespace) and any(
                key.startswith(SECURITY_LABELS) for key in obj.metadata.labels
            ):
                self._labels[obj.name] = obj.metadata.labels
        for name in namespaces:
            self._labels.pop(name, None)

    def mark(self, pod: Pod) -> SecurityMark | None:
        """Return what the judgement about a pod depends on; None for a pod that is not judged: in a namespace
        without labels, of an exempt runtime class, or with fields that the input does not tell."""
        if pod.namespace not in self._labels or pod.unread is None or self._is_exempt(pod):
            return None
        return SecurityMark(str(pod.unread), tuple(sorted(pod.metadata.annotations.items())))

    def _is_exempt(self, pod: Pod | PodTemplateSpec) -> bool:
        return bool(self._classes) and pod.spec.runtime_class_name in self._classes

    def refusal(self, pod: Pod) -> str:
        """Return the server's text about what the namespace forbids in a pod; "" where it forbids nothing."""
        return _text("violates", *self._judged(pod.namespace, pod, "enforce"))

    def warning(self, namespace: str, pod: Pod | PodTemplateSpec) -> str:
        """Return the server's warning about a pod that it admits, or about a template; "" for none."""
        return _text("would violate", *self._judged(namespace, pod, "warn"))

    def of_existing(self, namespace: str, pods: Iterable[tuple[str, Pod]]) -> list[str]:
        """Return the server's warnings when a namespace gets its labels: about pods that violate them.

        Parameters
        ----------
        pods : iterable of (str, Pod)
            Those of the namespace, with the names to show.
        """
        names: dict[str, list[str]] = {}
        for name, pod in sorted(pods, key=itemgetter(0)):
            if refused := self._judged(namespace, pod, "enforce")[1]:
                names.setdefault(", ".join(reason for reason, _ in refused), []).append(name)
        if not names:
            return []
        head = f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level'
        lines = [f"{same[0]}{_others(len(same) - 1)}: {reason}" for reason, same in names.items()]
        return [f'{head} "{self.levels(namespace)["enforce"]}"', *lines]

    def notes(self, objects: Iterable[Object]) -> Iterator[str]:
        """Yield sentences about workloads whose pods a namespace forbids or warns of.

        Parameters
        ----------
        objects : iterable of Object
            Any; those without a template are left out.
        """
        names: dict[tuple[str, bool], list[str]] = {}
        for obj in objects if self._labels else ():
            is_owned = isinstance(obj, Job | ReplicaSet) and obj.metadata.controller() is not None
            if is_owned or (isinstance(obj, Job) and is_over(obj)):
                continue  # its owner is told, or it needs no pods
            if (template := pod_template(obj)) is not None:
                level, refused = self._judged(obj.namespace, template, "enforce")
                is_refused = bool(refused)
                if not refused:
                    level, refused = self._judged(obj.namespace, template, "warn")
                if refused:
                    key = _text("would violate", level, refused), is_refused
                    names.setdefault(key, []).append(obj.full_name)
        for (text, is_refused), alike in [*names.items()][:_MOST]:
            effect = "; the API server admits no new pod of " + ("it" if len(alike) == 1 else "them")
            yield f"{first_of(alike, _MOST)} {text}{effect * is_refused}."
        if rest := [name for alike in [*names.values()][_MOST:] for name in alike]:
            yield f"{first_of(rest, _MOST)} would violate the Pod Security of their namespaces, too."

    def levels(self, namespace: str) -> Mapping[str, Level]:
        """Return the levels of a namespace by mode: enforce, audit and warn."""
        from . import pod_security as rules

        if namespace not in self._levels:
            self._levels[namespace] = rules.levels(self._labels.get(namespace, {}))
        return self._levels[namespace]

    def _judged(self, namespace: str, pod: Pod | PodTemplateSpec, mode: str) -> tuple[Level | None, _Refused]:
        """Return the level of a mode, and what it forbids in a pod or template."""
        if namespace not in self._labels or pod.unread is None or self._is_exempt(pod):
            return None, ()
        from . import pod_security as rules

        level = self.levels(namespace)[mode]
        if level.level == rules.PRIVILEGED:
            return level, ()
        annotations, unread = pod.metadata.annotations, str(pod.unread)
        spec = joined(plain(pod.spec), msgspec.json.decode(unread) if unread else {})
        try:
            if isinstance(pod, Pod):
                spec = rules.with_app_armor(annotations, spec)
            return level, rules.refusals(annotations, spec, level, self._newest)
        except (AttributeError, KeyError, TypeError, ValueError):
            return level, [_WRONG_TYPES]

    @cached_property
    def _newest(self) -> int:
        """The minor version of the server."""
        return int(self._release().partition(".")[2])


class PodSecurityPlugin(AdmissionPlugin):
    """What the labels of the namespace forbid in a pod, and warn of in pods and templates: as they were sent,
    since what webhooks add is known in part only."""

    name = "PodSecurity"

    def __init__(self, namespaces: SecuredNamespaces) -> None:
        self._namespaces = namespaces

    def mark(self, request: AdmissionRequest) -> SecurityMark | None:
        """Return the fields that are not read, and the annotations."""
        return self._namespaces.mark(request.obj) if isinstance(request.obj, Pod) else None

    def validate(self, request: AdmissionRequest) -> Sequence[str]:
        """Refuse a pod; warn of a pod or a template."""
        obj = request.sent or request.obj
        if isinstance(obj, Pod) and (text := self._namespaces.refusal(obj)):
            raise NotAdmittedError(text)
        judged = obj if isinstance(obj, Pod) else pod_template(obj)
        text = "" if judged is None else self._namespaces.warning(obj.namespace, judged)
        return [text] if text else []


def pod_template(obj: Object) -> PodTemplateSpec | None:
    """Return the template of the pods of a workload; None for other objects."""
    spec: Any = obj.spec.job_template.spec if isinstance(obj, CronJob) else getattr(obj, "spec", None)
    template = getattr(spec, "template", None)
    return template if isinstance(template, PodTemplateSpec) else None


def _text(verb: str, level: Level | None, refused: _Refused) -> str:
    """Return the server's text about what a level forbids; "" where it forbids nothing."""
    reasons = ", ".join(f"{reason} ({who})" for reason, who in refused)
    return f'{verb} PodSecurity "{level}": {reasons}' if refused else ""


def _others(number: int) -> str:
    return f" (and {number} other pod{'s' * (number > 1)})" if number else ""
