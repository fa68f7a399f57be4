"""Inter-pod affinity terms with parsed selectors. They are parsed once per shape and stored in it."""

from collections import namedtuple
from enum import IntEnum

from moorage._core.base.selectors import LabelSelectorMatcher


class TermKind(IntEnum):
    """The list of a pod's affinity that a term is in."""

    AFFINITY = 0
    ANTI_AFFINITY = 1
    PREFERRED_AFFINITY = 2
    PREFERRED_ANTI_AFFINITY = 3


cdef tuple KINDS = tuple(TermKind)
cdef tuple NO_TERMS = ((), (), (), ())
LISTS = (
    "requiredAffinityTerms",
    "requiredAntiAffinityTerms",
    "preferredAffinityTerms",
    "preferredAntiAffinityTerms",
)

# Fields of the key of a term; a selector is represented by its identity.
FIELDS = "kind weight topology_key namespaces namespace_selector selector"
TermKey = namedtuple("TermKey", FIELDS, module=__name__)


class PodTerm:
    """One inter-pod affinity term (kube-scheduler v1.36, framework AffinityTerm).

    Parameters
    ----------
    kind : TermKind
    weight : int
        1 to 100; 0 for a required term.
    namespace : str
        The namespace of the pod that has the term.
    term : PodAffinityTerm

    Attributes
    ----------
    kind, weight
        As the parameters.
    topology_key : str
    selector : LabelSelectorMatcher
        Selects pods.
    namespaces : frozenset of str
        The listed namespaces; the namespace of the pod if the term neither lists nor selects namespaces.
    namespace_selector : LabelSelectorMatcher
        Matches nothing if the term has none.
    key : TermKey
        Equal for equal terms.

    Raises
    ------
    ValueError
        If a selector is invalid.
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
        """Whether the term selects a pod.

        Parameters
        ----------
        namespace : str
            The namespace of the pod.
        namespace_labels : dict of str to str
            The labels of this namespace.
        labels : dict of str to str
            The labels of the pod.

        Returns
        -------
        bool
        """
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


def read_terms(pod):
    """Return the inter-pod affinity terms of a pod and upstream's parse error.

    A list with an invalid term yields no terms (kube-scheduler v1.36, PodInfo.Update).

    Parameters
    ----------
    pod : Pod

    Returns
    -------
    terms : tuple of four tuples of PodTerm
        By `TermKind`.
    error : str
        "" if all lists are valid.
    """
    affinity = pod.spec.affinity
    if affinity is None:
        return NO_TERMS, ""
    sides = affinity.pod_affinity, affinity.pod_anti_affinity
    terms, errors = [], []
    for kind in KINDS:
        side = sides[kind % 2]
        listed = () if side is None else side.required if kind < 2 else side.preferred
        try:
            terms.append(tuple([_term(kind, each, pod.metadata.namespace) for each in listed]))
        except ValueError as error:
            terms.append(())
            errors.append(f"{LISTS[kind]}: {error}")
    text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]" if errors else ""
    return tuple(terms), text


def _term(kind, item, namespace):
    """Return the term of an item of a list, which for preferred terms also has a weight."""
    if kind < TermKind.PREFERRED_AFFINITY:
        return PodTerm(kind, 0, namespace, item)
    return PodTerm(kind, item.weight, namespace, item.pod_affinity_term)
