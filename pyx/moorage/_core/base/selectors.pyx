"""Label selectors, node selectors and tolerations, object by object.

The rules are those of k8s.io/apimachinery v0.36, pkg/labels, and k8s.io/component-helpers v0.36,
scheduling/corev1.
"""

import re

from moorage._core.base.label_syntax import field_requirement_error, requirement_error

cimport cython

from moorage._core.base.label_syntax cimport invalid, key_detail, syntax_error
from moorage._core.base.quantity cimport parse_int64

cdef object TOKEN = re.compile(r"==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+")
cdef dict OPERATOR_OF_TOKEN = {
    "in": "In", "notin": "NotIn", "=": "Equals", "==": "Equals", "!=": "NotEquals", ">": "Gt", "<": "Lt",
}


@cython.final
@cython.auto_pickle(False)
cdef class _Requirement:
    """A label requirement that is known to be well-formed."""

    cdef str key
    cdef str op
    cdef tuple values

    def __init__(self, str key not None, str op not None, tuple values not None):
        self.key = key
        self.op = op
        self.values = values

    cdef bint matches(self, dict labels) except -1:
        value = labels.get(self.key)
        if self.op in ("In", "Equals"):
            return value is not None and value in self.values
        if self.op in ("NotIn", "NotEquals"):
            return value is None or value not in self.values
        if self.op == "Exists":
            return value is not None
        if self.op == "DoesNotExist":
            return value is None
        number = parse_int64(value) if value is not None else None
        if number is None:
            return False
        bound = parse_int64(self.values[0])
        return number > bound if self.op == "Gt" else number < bound


cdef bint all_match(tuple requirements, dict labels) except -1:
    cdef _Requirement requirement
    for requirement in requirements:
        if not requirement.matches(labels):
            return False
    return True


cdef _Requirement checked(str key, str op, tuple values):
    cdef str error = syntax_error(key, op, values)
    if error is not None:
        raise ValueError(error)
    return _Requirement(key, op, values)


@cython.final
@cython.auto_pickle(False)
cdef class LabelSelectorMatcher:
    """A label selector, ready to match.

    Parameters
    ----------
    selector : LabelSelector or None
        None matches nothing, an empty selector everything.

    Raises
    ------
    ValueError
        With the text of metav1.LabelSelectorAsSelector (apimachinery v0.36), if the selector is malformed.
    """

    cdef tuple _requirements

    def __init__(self, selector) -> None:
        if selector is None:
            self._requirements = None
            return
        cdef list requirements = [
            checked(key, "Equals", (value,)) for key, value in selector.match_labels.items()
        ]
        for expression in selector.match_expressions:
            error = requirement_error(expression.key, expression.operator, expression.values, node=False)
            if error is not None:
                raise ValueError(error)
            requirements.append(_Requirement(expression.key, expression.operator, expression.values))
        self._requirements = tuple(requirements)

    cpdef bint matches(self, dict labels) except -1:
        """Say whether the labels satisfy every requirement.

        Parameters
        ----------
        labels : dict
            Label key to value.

        Returns
        -------
        bool
        """
        return self._requirements is not None and all_match(self._requirements, labels)

    @property
    def is_empty(self):
        """True for a selector without requirements, which matches everything."""
        return self._requirements == ()

    @property
    def identity(self):
        """The requirements as (key, operator, values), equal for equal selectors; None matches nothing."""
        cdef _Requirement r
        if self._requirements is None:
            return None
        return tuple([(r.key, r.op, r.values) for r in self._requirements])

    def asked_values(self):
        """(label key, values) of each requirement that the label has one of these values."""
        cdef _Requirement r
        asked = self._requirements or ()
        return [(r.key, r.values) for r in asked if r.op in ("In", "Equals")]


def with_labels(dict labels not None, LabelSelectorMatcher selector=None):
    """A selector for these very values, and for what another selector asks besides. One that matches nothing
    asks nothing here (kube-scheduler v1.36, mergeLabelSetWithSelector). Nothing is validated."""
    cdef LabelSelectorMatcher out = LabelSelectorMatcher.__new__(LabelSelectorMatcher)
    more = () if selector is None or selector._requirements is None else selector._requirements
    out._requirements = tuple([_Requirement(key, "Equals", (labels[key],)) for key in sorted(labels)]) + more
    return out


cdef object parse_term(object term):
    """The requirements on labels and those on the node's name; None for an empty or malformed term."""
    if not term.match_expressions and not term.match_fields:
        return None
    for r in term.match_expressions:
        if requirement_error(r.key, r.operator, r.values, node=True) is not None:
            return None
    for r in term.match_fields:
        if field_requirement_error(r.key, r.operator, r.values) is not None:
            return None
    return (
        tuple(_Requirement(r.key, r.operator, r.values) for r in term.match_expressions),
        tuple(_Requirement(r.key, r.operator, r.values) for r in term.match_fields),
    )


@cython.final
@cython.auto_pickle(False)
cdef class NodeSelectorMatcher:
    """A node selector, ready to match: any of its terms.

    A term is all its expressions and fields. An empty term matches nothing, and one with a malformed
    requirement is passed over (component-helpers v0.36, scheduling/corev1/nodeaffinity).

    Parameters
    ----------
    node_selector : NodeSelector
        The selector.
    """

    cdef list _terms

    def __init__(self, node_selector) -> None:
        self._terms = [parsed for parsed in map(parse_term, node_selector.node_selector_terms) if parsed]

    cpdef bint matches(self, object node) except -1:
        """Say whether some term matches the node.

        Parameters
        ----------
        node : Node
            The node. Without a name it has no fields, and these are then not asked for.

        Returns
        -------
        bool
        """
        cdef dict labels = node.metadata.labels
        cdef str name = node.metadata.name
        for expressions, fields in self._terms:
            if all_match(expressions, labels) and (not name or all_match(fields, {"metadata.name": name})):
                return True
        return False


def pod_matches_node_selector(pod_spec, node) -> bool:
    """Say whether a pod's nodeSelector and required node affinity both match a node.

    Parameters
    ----------
    pod_spec : PodSpec
        The pod's spec.
    node : Node
        The node.

    Returns
    -------
    bool
        As component-helpers v0.36, GetRequiredNodeAffinity. The values of nodeSelector are not validated.
    """
    labels = node.metadata.labels
    for key, value in (pod_spec.node_selector or {}).items():
        if labels.get(key) != value:
            return False
    affinity = pod_spec.affinity and pod_spec.affinity.node_affinity
    if not affinity or affinity.required is None:
        return True
    return NodeSelectorMatcher(affinity.required).matches(node)


# ---- kubectl's text form


@cython.final
@cython.auto_pickle(False)
cdef class _Parser:
    """Reads the text form; methods are named after what they read."""

    cdef list tokens
    cdef Py_ssize_t position

    def __init__(self, str text not None):
        self.tokens = [*TOKEN.findall(text), ""]
        self.position = 0

    cdef str peek(self):
        return self.tokens[self.position]

    cdef str next(self):
        self.position += 1
        return self.tokens[self.position - 1]

    cdef tuple requirements(self):
        cdef list found = []
        cdef str token
        if not self.peek():
            return ()
        if not starts_requirement(self.peek()):
            raise ValueError(f"found '{self.peek()}', expected: !, identifier, or 'end of string'")
        while True:
            try:
                found.append(self.requirement())
            except ValueError as error:
                raise ValueError(f"unable to parse requirement: {error}") from None
            token = self.next()
            if not token:
                return tuple(found)
            if token != ",":
                raise ValueError(f"found '{token}', expected: ',' or 'end of string'")
            if not starts_requirement(self.peek()):
                raise ValueError(f"found '{self.peek()}', expected: identifier after ','")

    cdef _Requirement requirement(self):
        cdef str key = self.next()
        cdef bint absent = key == "!"
        if absent:
            key = self.next()
        if not is_identifier(key):
            raise ValueError(f"found '{key}', expected: identifier")
        cdef str detail = key_detail(key)
        if detail:
            raise ValueError(invalid("<nil>", key, detail))
        if absent or self.peek() in ("", ","):
            return _Requirement(key, "DoesNotExist" if absent else "Exists", ())
        cdef str token = self.next()
        cdef str op = OPERATOR_OF_TOKEN.get(token)
        if op is None:
            raise ValueError(f"found '{token}', expected: in, notin, =, ==, !=, gt, lt")
        return checked(key, op, self.value_set() if op in ("In", "NotIn") else self.exact_value())

    cdef tuple exact_value(self):
        if self.peek() in ("", ","):
            return ("",)
        cdef str token = self.next()
        if not is_identifier(token):
            raise ValueError(f"found '{token}', expected: identifier")
        return (token,)

    cdef tuple value_set(self):
        """The values between parentheses, sorted; an empty place is the empty value."""
        cdef str token = self.next()
        if token != "(":
            raise ValueError(f"found '{token}' expected: '('")
        if self.peek() != ")" and self.peek() != "," and not is_identifier(self.peek()):
            raise ValueError(f"found '{self.peek()}', expected: ',', ')' or identifier")
        cdef set values = set()
        while True:
            token = ""
            if self.peek() not in (",", ")"):
                token = self.next()
                if not is_identifier(token):
                    raise ValueError(f"found '{token}', expected: ',', or identifier")
                if self.peek() not in (",", ")"):
                    raise ValueError(f"found '{self.peek()}', expected: ',' or ')'")
            values.add(token)
            if self.next() == ")":
                return tuple(sorted(values))


cdef bint is_identifier(str token) except -1:
    return token != "" and token[0] not in "=!(),<>"


cdef bint starts_requirement(str token) except -1:
    return token == "!" or is_identifier(token)


def parse_selector(text: str) -> LabelSelectorMatcher:
    """Read a selector as kubectl takes it, such as ``a=b,c!=d,e in (x,y),!f,g,h>1``.

    Parameters
    ----------
    text : str
        The selector; an empty one matches everything.

    Returns
    -------
    LabelSelectorMatcher

    Raises
    ------
    ValueError
        With the text of labels.Parse (apimachinery v0.36).
    """
    cdef LabelSelectorMatcher matcher = LabelSelectorMatcher.__new__(LabelSelectorMatcher)
    matcher._requirements = _Parser(text).requirements()
    return matcher


# ---- taints


def tolerates(tolerations, taint, bint compares=False) -> bool:
    """Say whether some toleration tolerates a taint.

    Parameters
    ----------
    tolerations : iterable of Toleration
        A pod's tolerations.
    taint : Taint
        A node's taint.
    compares : bool
        Whether the operators Lt and Gt tolerate anything: a taint whose value is below, or above, that of the
        toleration (the feature gate TaintTolerationComparisonOperators).

    Returns
    -------
    bool
        As k8s.io/api v0.36, Toleration.ToleratesTaint: an empty effect or key stands for any; no operator
        means Equal.
    """
    for toleration in tolerations:
        if toleration.effect and toleration.effect != taint.effect:
            continue
        if toleration.key and toleration.key != taint.key:
            continue
        if toleration.operator == "Exists":
            return True
        if toleration.operator in ("", "Equal") and toleration.value == taint.value:
            return True
        if compares and toleration.operator in ("Lt", "Gt") and _compares(toleration, taint):
            return True
    return False


cdef bint _compares(toleration, taint) except -1:
    """Whether both values are integers, and that of the taint is on the right side of the other."""
    bound, value = decimal_integer(toleration.value), decimal_integer(taint.value)
    if bound is None or value is None:
        return False
    return value < bound if toleration.operator == "Lt" else value > bound


def decimal_integer(str text not None):
    """The integer of 64 bits that a text is the plain decimal form of, without a plus sign or leading zeros
    (apimachinery v0.36, content.IsDecimalInteger); None for other texts."""
    if re.fullmatch("0|-?[1-9][0-9]*", text, re.ASCII) is None:
        return None
    number = int(text) if len(text) <= 20 else None
    return number if number is not None and -(1 << 63) <= number < 1 << 63 else None


def find_intolerable_taint(taints, tolerations, effects, bint compares=False):
    """Return the first taint with one of some effects that is not tolerated.

    Parameters
    ----------
    taints : iterable of Taint
        A node's taints.
    tolerations : sequence of Toleration
        A pod's tolerations.
    effects : container of str
        The effects that count, such as NoSchedule and NoExecute.
    compares : bool
        As for `tolerates`.

    Returns
    -------
    Taint or None
        As component-helpers v0.36, FindMatchingUntoleratedTaint.
    """
    for taint in taints:
        if taint.effect in effects and not tolerates(tolerations, taint, compares):
            return taint
    return None
