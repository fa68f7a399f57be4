"""What keeps a pod off nodes beside their own fields: other pods, claims and their volumes, domains."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from moorage._core.base.selectors import LabelSelectorMatcher
from moorage._core.state.pod_terms import PodTerm, read_terms
from moorage.framework.plugin.status import Status
from moorage.objects import CSINode, Node, PersistentVolume, PersistentVolumeClaim, Pod
from moorage.plugins.inter_pod_affinity import InterPodAffinity
from moorage.plugins.pod_topology_spread import MISMATCH
from moorage.plugins.volume_restrictions import claim_names, conflict
from moorage.scheduler.cycle.engine import Engine
from moorage.store import NotFoundError
from moorage.volume.binding.claims import claim_class, matches_labels
from moorage.volume.migration import migrated_plugins, required_affinity

from .constraints import HARD, host_ports
from .shortfalls import has_conflict, port_text

AFFINITY, ANTI_AFFINITY, EXISTING_ANTI_AFFINITY = InterPodAffinity.reason_texts
MOST = 20
"""Maximum number of blockers that are kept of a group of nodes."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """Something that keeps a pod off nodes.

    Attributes
    ----------
    kind : str
        ``pod``, ``missing-pod``, ``claim``, ``domain``, ``request`` or ``pool``.
    name : str
        ``namespace/name`` of the pod or claim; ``key=value`` of the domain; the term that no pod matches; the
        request of a claim for devices; ``driver/name`` of the pool of devices.
    detail : str
        How it keeps the pod off.
    nodes : int
        Number of nodes.
    """

    kind: str
    name: str
    detail: str
    nodes: int = 1

    @property
    def text(self) -> str:
        """The blocker in words."""
        return f"{'no pod' if self.kind == 'missing-pod' else self.kind} {self.name} ({self.detail})"


Found = Iterable[tuple[str, str, str]]
"""Kind, name and detail of blockers."""
Domains = defaultdict[str, list[tuple[str, str]]]
"""Value of a topology key to pods and what they block by."""


class BlockerSearch:
    """Finds what keeps a pod off nodes.

    Parameters
    ----------
    engine : Engine
        Over the state of the cluster in which the pod is explained.
    pod : Pod
    """

    def __init__(self, engine: Engine, pod: Pod) -> None:
        self._state = engine.cache.state
        self._client = engine.handle.client
        self._pod = pod
        self._terms = read_terms(pod)[0]
        self._by_plugin: dict[str, Callable[[Node, Status], Found]] = {
            "InterPodAffinity": self._of_affinity,
            "PodTopologySpread": self._of_spread,
            "NodePorts": self._of_ports,
            "VolumeRestrictions": self._of_restrictions,
            "VolumeBinding": self._of_claims,
            "VolumeZone": self._of_claims,
            "NodeVolumeLimits": self._of_claims,
        }

    def add(self, plugin: str, find: Callable[[Node, Status], Found]) -> None:
        """Find the blockers of another plugin, too.

        Parameters
        ----------
        plugin : str
            Its name.
        find : callable
            Returns kind, name and detail of the blockers of a node that the plugin rejects with a status.
        """
        self._by_plugin[plugin] = find

    def find(self, nodes: Iterable[Node], verdicts: Iterable[Status]) -> list[Blocker]:
        """Find the blockers of nodes with equal verdicts.

        Parameters
        ----------
        nodes : iterable of Node
        verdicts : iterable of Status
            The rejections of these nodes.

        Returns
        -------
        list of Blocker
            Those of the most nodes first, at most `MOST`.
        """
        finders = [
            (self._by_plugin[plugin], status)
            for status in verdicts
            for plugin in status.plugin.split()
            if plugin in self._by_plugin
        ]
        if not finders:
            return []
        counts: Counter[tuple[str, str, str]] = Counter()
        for node in nodes:
            counts.update({found for find, status in finders for found in find(node, status)})
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST]
        return [Blocker(*found, nodes=number) for found, number in ordered]

    # ---- pods ----------------------------------------------------------------------------------------------

    @cached_property
    def _node_of(self) -> list[tuple[Pod, dict[str, str]]]:
        """Every pod on a node, with the labels of the node."""
        table, out = self._state.table, []
        self._state.view.refresh()
        for row in self._state.view.rows():
            node = table.objects[row]
            if node is not None:
                out += [(pod, node.metadata.labels) for pod in self._state.pods_of(int(row))]
        return out

    def _matches(self, term: PodTerm, pod: Pod) -> bool:
        """Whether a term matches a pod."""
        labels = self._state.namespaces.labels.get(pod.namespace, {})
        return term.matches(pod.namespace, labels, pod.metadata.labels)

    @cached_property
    def _by_term(self) -> dict[str, dict[str, Domains]]:
        """For the pod's anti-affinity and that of other pods: the pods of each domain by topology key."""
        own, theirs = (defaultdict[str, Domains](lambda: defaultdict(list)) for _ in range(2))
        for pod, labels in self._node_of:
            for term in self._terms[1]:
                key = term.topology_key
                if key in labels and self._matches(term, pod):
                    own[key][labels[key]].append((pod.key, f"anti-affinity per {key}"))
            affinity = pod.spec.affinity
            if affinity is None or affinity.pod_anti_affinity is None:
                continue
            for term in read_terms(pod)[0][1]:
                key = term.topology_key
                if key in labels and self._matches(term, self._pod):
                    theirs[key][labels[key]].append((pod.key, f"its anti-affinity per {key}"))
        return {ANTI_AFFINITY: own, EXISTING_ANTI_AFFINITY: theirs}

    def _of_affinity(self, node: Node, status: Status) -> Found:
        for reason in status.reasons:
            if reason == AFFINITY:
                yield from self._of_missing_pods(node)
            for key, domains in self._by_term.get(reason, {}).items():
                for name, detail in domains.get(node.metadata.labels.get(key, ""), ()):
                    yield "pod", name, detail

    def _of_missing_pods(self, node: Node) -> Found:
        """Yield the affinity terms that no pod in the domain of a node matches."""
        for term, domains in self._attracting:
            value = node.metadata.labels.get(term.topology_key)
            if value not in domains:
                where = f"in {term.topology_key}={value}" if value else f"without label {term.topology_key}"
                yield "missing-pod", _selector_text(term), f"affinity, {where}"

    @cached_property
    def _attracting(self) -> list[tuple[PodTerm, set[str]]]:
        """The required affinity terms of the pod, and the domains with a pod that matches."""
        return [
            (
                term,
                {
                    labels[term.topology_key]
                    for pod, labels in self._node_of
                    if term.topology_key in labels and self._matches(term, pod)
                },
            )
            for term in self._terms[0]
        ]

    def _of_spread(self, node: Node, status: Status) -> Found:
        for key, skew, counts in self._spreads:
            value = node.metadata.labels.get(key)
            if value is None:
                yield "domain", key, "the node lacks this label"
            elif status.reasons == (MISMATCH,):
                pods = "1 matching pod" if counts[value] == 1 else f"{counts[value]} matching pods"
                yield "domain", f"{key}={value}", f"{pods}, maxSkew {skew}"

    @cached_property
    def _spreads(self) -> list[tuple[str, int, Counter[str]]]:
        """The hard spread constraints of the pod: topology key, maxSkew, matching pods by domain."""
        out = []
        with_keys = self._state.classes.gates.match_label_keys
        for one in self._pod.spec.topology_spread_constraints:
            if one.when_unsatisfiable == HARD:
                matcher, key = LabelSelectorMatcher(one.label_selector), one.topology_key
                keys = one.match_label_keys if with_keys else ()
                own = {each: self._pod.metadata.labels.get(each) for each in keys}
                counts = Counter(
                    labels[key]
                    for pod, labels in self._node_of
                    if key in labels and pod.namespace == self._pod.namespace
                    if matcher.matches(pod.metadata.labels) and not pod.metadata.deletion_timestamp
                    if all(pod.metadata.labels.get(each) == value for each, value in own.items())
                )
                out.append((key, one.max_skew, counts))
        return out

    def _pods_on(self, node: Node) -> list[Pod]:
        row = self._state.find_row(node.name)
        return [] if row is None else self._state.pods_of(row)

    def _of_ports(self, node: Node, status: Status) -> Found:
        wanted = list(host_ports(self._pod.spec))
        for pod in self._pods_on(node):
            for port in host_ports(pod.spec):
                if any(has_conflict(one, port) for one in wanted):
                    yield "pod", pod.key, f"host port {port_text(port)}"

    # ---- volumes -------------------------------------------------------------------------------------------

    def _of_restrictions(self, node: Node, status: Status) -> Found:
        if any("ReadWriteOncePod" in reason for reason in status.reasons):
            yield from self._users
            return
        for pod in self._pods_on(node):
            pairs = product(self._pod.spec.volumes, pod.spec.volumes)
            if any(conflict(mine, theirs) for mine, theirs in pairs):
                yield "pod", pod.key, "uses the same disk"

    @cached_property
    def _users(self) -> list[tuple[str, str, str]]:
        """The pods that use a claim of the pod."""
        names, namespace = claim_names(self._pod), self._pod.namespace
        pods = (pod for pod, _ in self._node_of if pod.namespace == namespace)
        return [
            ("pod", pod.key, f"uses claim {name}")
            for pod in pods
            for name in sorted(names & claim_names(pod))
        ]

    def _of_claims(self, node: Node, status: Status) -> Found:
        for claim, volume in self._claims:
            if not claim.spec.volume_name:
                yield "claim", claim.key, f"not bound, class {claim_class(claim) or '(none)'}"
            elif volume is None:
                yield "claim", claim.key, f"bound to missing volume {claim.spec.volume_name}"
            elif status.plugin != "VolumeBinding" or not self._reaches(node, volume):
                yield "claim", claim.key, f"bound to volume {volume.name}"

    def _reaches(self, node: Node, volume: PersistentVolume) -> bool:
        csi_node = None
        with suppress(NotFoundError):
            csi_node = self._client.get(CSINode, node.name)
        required = required_affinity(volume, migrated_plugins(csi_node))
        return required is None or matches_labels(required, node.metadata.labels)

    @cached_property
    def _claims(self) -> list[tuple[PersistentVolumeClaim, PersistentVolume | None]]:
        """The existing claims of the pod, and the volumes to which they are bound."""
        found: list[tuple[PersistentVolumeClaim, PersistentVolume | None]] = []
        for name in self._claim_names():
            with suppress(NotFoundError):
                claim = self._client.get(PersistentVolumeClaim, name, self._pod.namespace)
                volume = None
                with suppress(NotFoundError):
                    if claim.spec.volume_name:
                        volume = self._client.get(PersistentVolume, claim.spec.volume_name)
                found.append((claim, volume))
        return found

    def _claim_names(self) -> Iterator[str]:
        yield from sorted(claim_names(self._pod))
        for volume in self._pod.spec.volumes:
            if volume.ephemeral is not None:
                yield f"{self._pod.name}-{volume.name}"


def _selector_text(term: PodTerm) -> str:
    """Return the selector of a term on one line."""
    wanted = [f"{key} in ({', '.join(values)})" for key, values in term.selector.asked_values()]
    namespaces = ", ".join(sorted(term.namespaces))
    return f"with {', '.join(wanted) or 'any labels'}" + (f" in {namespaces}" if namespaces else "")
