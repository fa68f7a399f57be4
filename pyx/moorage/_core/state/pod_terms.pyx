"""Inter-pod affinity terms of a pod, ready to match: read once per distinct spec, kept with the shapes."""

from collections import namedtuple
from enum import IntEnum

from moorage._core.base.selectors import LabelSelectorMatcher


class TermKind(IntEnum):
    """Which list of a pod's affinity a term stands in."""

    AFFINITY = 0
    ANTI_AFFINITY = 1
    PREFERRED_AFFINITY = 2
    PREFERRED_ANTI_AFFINITY = 3


LISTS = (
    "requiredAffinityTerms",
    "requiredAntiAffinityTerms",
    "preferredAffinityTerms",
    "preferredAntiAffinityTerms",
)

# The identity of a term; selectors by theirs.
FIELDS = "kind weight topology_key namespaces namespace_selector selector"
TermKey = namedtuple("TermKey", FIELDS, module=__name__)


class PodTerm:
    """One term (kube-scheduler v1.36, framework AffinityTerm).

    Attributes
    ----------
    namespaces : frozenset of str
        Those listed; the pod's own where the term neither lists nor selects any.
    namespace_selector : LabelSelectorMatcher
        Matches nothing where the term has none.
    """

    def __init__(self, kind, weight, namespace, term):
        self.kind = kind
        self.weight = weight
        self.topology_key = term.topology_key
        self.selector = LabelSelectorMatcher(term.label_selector)
        own = not term.namespaces and term.namespace_selector is None
        self.namespaces = frozenset((namespace,) if own else term.namespaces)
        self.namespace_selector = LabelSelectorMatcher(term.namespace_selector)
        self.key = TermKey(
            int(kind), weight, self.topology_key, self.namespaces, self.namespace_selector.identity,
            self.selector.identity,
        )

    def matches(self, str namespace not None, dict namespace_labels not None, dict labels not None):
        """Whether a pod of this namespace, which has these labels, is meant."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


def read_terms(pod):
    """The terms of a pod, four tuples by kind, and why upstream could not parse the pod ("" where it can).

    A list with a malformed term has no terms (kube-scheduler v1.36, PodInfo.Update).
    """
    affinity = pod.spec.affinity
    sides = (affinity and affinity.pod_affinity, affinity and affinity.pod_anti_affinity)
    terms, errors = [], []
    for kind in TermKind:
        side = sides[kind % 2]
        listed = () if side is None else side.required if kind < 2 else side.preferred
        try:
            terms.append(tuple([_term(kind, each, pod.metadata.namespace) for each in listed]))
        except ValueError as error:
            terms.append(())
            errors.append(f"{LISTS[kind]}: {error}")
    text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]" if errors else ""
    return tuple(terms), text


def _term(kind, listed, namespace):
    if kind < TermKind.PREFERRED_AFFINITY:
        return PodTerm(kind, 0, namespace, listed)
    return PodTerm(kind, listed.weight, namespace, listed.pod_affinity_term)
