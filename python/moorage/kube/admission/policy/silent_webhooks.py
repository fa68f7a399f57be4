"""Webhooks that fail closed and that nobody answers: the API server refuses what they are asked about.

Rules: k8s.io/apiserver v0.36, pkg/admission/plugin/webhook and pkg/util/proxy.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cache
from typing import TypeVar

from msgspec.structs import replace

from moorage.lazy import NamedTuple

from ...model.admission_registration import EXACT, ServiceReference, Webhook
from ...model.cluster import Cluster
from ...model.meta import Object
from ...model.node import Namespace
from ...model.pod import Pod
from ...model.workload import Service
from ...plain import plain
from ...workloads.ownership import is_healthy
from ..built_in_plugins import webhooks_that_fail_closed
from ..request import AdmissionRequest, Decider, NotAdmittedError
from .policy_matching import PolicyRequest, about, first_match

_FAILED = 'Internal error occurred: failed calling webhook "{}": failed to call webhook: {}'
T = TypeVar("T", bound=Object)


class Silence(NamedTuple):
    """Why nobody answers a webhook."""

    configuration: Object
    webhook: Webhook
    service: str
    """``namespace/name``."""
    is_there: bool
    """Whether there is such a Service; then none of its pods is ready."""

    @property
    def refusal(self) -> str:
        """What the API server says of a request about which the webhook is asked."""
        name = f'"{self.service.partition("/")[2]}"'
        why = f"no endpoints available for service {name}" if self.is_there else f"service {name} not found"
        return _FAILED.format(self.webhook.name, why)


def _answers(pod: Pod) -> bool:
    """Whether a pod answers: it is ready, or was until it was told to stop."""
    lasting = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=None))
    return bool(pod.spec.node_name) and is_healthy(lasting)


def _selects(service: Service, pod: Pod) -> bool:
    labels = service.spec.selector or {}
    return bool(labels) and labels.items() <= pod.metadata.labels.items()


class SilentWebhooks(Decider):
    """Refuses what webhooks are asked about that fail closed and that nobody answers now.

    Somebody may answer a webhook that has a URL, whose Service has no selector, or of whose namespace no
    Service is known; and nothing is known of a cluster in which no pod has run.

    Parameters
    ----------
    objects : iterable of Object
        Configurations, namespaces and AdmissionPlugins; other kinds are ignored.
    services, pods : callable
        Return the Services and the pods of a namespace.
    has_run : callable
        Whether a pod is on a node, or was.
    """

    def __init__(
        self,
        objects: Iterable[Object],
        services: Callable[[str], Sequence[Service]],
        pods: Callable[[str], Iterable[Pod]],
        has_run: Callable[[], bool],
    ) -> None:
        listed = list(objects)
        self._webhooks = list(webhooks_that_fail_closed(listed))
        self._spaces = [obj for obj in listed if isinstance(obj, Namespace)] if self._webhooks else []
        self._services, self._pods, self._has_run = cache(services), cache(pods), has_run
        self._silent: dict[tuple[object, ...], Sequence[Silence]] = {}

    @classmethod
    def of_cluster(cls, cluster: Cluster) -> SilentWebhooks:
        """Return those of a cluster as it was read."""

        def within(objects: Iterable[T]) -> Callable[[str], list[T]]:
            return lambda namespace: [obj for obj in objects if obj.namespace == namespace]

        objects = [*cluster.others, *cluster.namespaces]
        services = [obj for obj in cluster.others if isinstance(obj, Service)]

        def has_run() -> bool:
            return any(pod.spec.node_name for pod in cluster.pods)

        return cls(objects, within(services), within(cluster.pods), has_run)

    def __iter__(self) -> Iterator[Silence]:
        """Yield the webhooks that nobody answers."""
        for configuration, webhook in self._webhooks:
            if (silence := self._silence_of(configuration, webhook)) is not None:
                yield silence

    def ask(self, pod: Pod) -> bool:
        """Whether a pod is one of those that answer a webhook."""
        references = (webhook.client_config.service for _, webhook in self._webhooks)
        own = (each for each in references if each is not None and each.namespace == pod.namespace)
        services = map(self._service, own)
        return any(service is not None and _selects(service, pod) for service in services)

    def _service(self, named: ServiceReference) -> Service | None:
        services = self._services(named.namespace)
        return next((service for service in services if service.name == named.name), None)

    def _silence_of(self, configuration: Object, webhook: Webhook) -> Silence | None:
        named = webhook.client_config.service
        if named is None or not self._services(named.namespace):
            return None
        service = self._service(named)
        if service is not None:
            pods = filter(_answers, self._pods(named.namespace))
            if not service.spec.selector or any(_selects(service, pod) for pod in pods):
                return None
        if not self._has_run():
            return None
        return Silence(configuration, webhook, f"{named.namespace}/{named.name}", service is not None)

    def _asked_about(self, request: PolicyRequest) -> Sequence[Silence]:
        """Return the silent ones whose rules name the kind of a request."""
        key = request.operation, request.kind, request.subresource, request.parent
        if key not in self._silent:
            named = [
                (configuration, webhook)
                for configuration, webhook in self._webhooks
                for rules in [webhook.match_resources.resource_rules]
                if first_match(rules, request, webhook.match_policy == EXACT) is not None
            ]
            silences = [self._silence_of(*each) for each in named]
            self._silent[key] = [silence for silence in silences if silence is not None]
        return self._silent[key]

    def refusal(self, request: PolicyRequest) -> str:
        """Return why a request is refused; "" where it is not."""
        silences = self._asked_about(request)
        if not silences:
            return ""
        from .reviewers import reviews_of  # with CEL

        namespaces = {space.name: plain(space) for space in self._spaces}
        silent = (each for each in silences if reviews_of(each.webhook)(request, namespaces))
        return next((each.refusal for each in silent), "")

    def mark(self, request: AdmissionRequest) -> Hashable:
        """Return what webhooks may read of a pod beside its namespace and its spec."""
        if not self._webhooks:  # as in most clusters
            return None
        meta = request.obj.metadata
        if not self._asked_about(about(request)):
            return None
        labels, annotations = (tuple(sorted(each.items())) for each in (meta.labels, meta.annotations))
        return meta.name, meta.generate_name, labels, annotations

    def validate(self, request: AdmissionRequest) -> Sequence[str]:
        """Refuse an object; there are no warnings."""
        if self.mark(request) is None:
            return ()
        why = self.refusal(about(request, request.value, request.old_value))
        if why:
            raise NotAdmittedError(why, 500, "InternalError", is_whole=True)
        return ()
