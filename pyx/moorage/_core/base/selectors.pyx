"""Label selectors, node selectors and tolerations, matched against one object at a time.

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
    """A label requirement that has been validated."""

    cdef str key
    cdef str op
    cdef tuple values

    def __init__(self, str key not None, str op not None, tuple values not None):
        self.key = key
        self.op = op
        self.values = values

    cdef bint matches(self, dict labels) except -1:
        """Whether some labels satisfy the requirement."""
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
    """Whether some labels satisfy all requirements."""
    cdef _Requirement requirement
    for requirement in requirements:
        if not requirement.matches(labels):
            return False
    return True


cdef _Requirement checked(str key, str op, tuple values):
    """Return a requirement; raise ValueError if it is invalid."""
    cdef str error = syntax_error(key, op, values)
    if error is not None:
        raise ValueError(error)
    return _Requirement(key, op, values)


@cython.final
@cython.auto_pickle(False)
cdef class LabelSelectorMatcher:
    """A parsed label selector.

    Parameters
    ----------
    selector : LabelSelector or None
        None matches nothing, an empty selector everything.

    Attributes
    ----------
    is_empty : bool
        Whether the selector has no requirements, so that it matches everything.
    identity : tuple or None
        (key, operator, values) of each requirement, equal for equal selectors; None matches nothing.

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
        """Whether some labels satisfy every requirement.

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
        """Whether the selector has no requirements, so that it matches everything."""
        return self._requirements == ()

    @property
    def identity(self):
        """Return (key, operator, values) of each requirement; None for a selector that matches nothing."""
        cdef _Requirement r
        if self._requirements is None:
            return None
        return tuple([(r.key, r.op, r.values) for r in self._requirements])

    def asked_values(self):
        """Return the requirements with the operator In or Equals.

        Returns
        -------
        list of (str, tuple of str)
            The label key and the values of each one.
        """
        cdef _Requirement r
        requirements = self._requirements or ()
        return [(r.key, r.values) for r in requirements if r.op in ("In", "Equals")]


def with_labels(dict labels not None, LabelSelectorMatcher selector=None):
    """Return a selector that requires equality with some labels and what another selector requires.

    Labels are not validated (kube-scheduler v1.36, podtopologyspread/common.go mergeLabelSetWithSelector).

    Parameters
    ----------
    labels : dict of str to str
    selector : LabelSelectorMatcher, optional
        A selector that matches nothing adds no requirement.

    Returns
    -------
    LabelSelectorMatcher
    """
    cdef LabelSelectorMatcher out = LabelSelectorMatcher.__new__(LabelSelectorMatcher)
    more = () if selector is None or selector._requirements is None else selector._requirements
    out._requirements = tuple([_Requirement(key, "Equals", (labels[key],)) for key in sorted(labels)]) + more
    return out


cdef object parse_term(object term):
    """Return the requirements of a term on labels and on the node name; None for an empty or invalid term."""
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
    """A parsed node selector: the disjunction of its terms.

    A term is the conjunction of its expressions and fields. An empty term and a term with an invalid
    requirement match nothing (component-helpers v0.36, scheduling/corev1/nodeaffinity).

    Parameters
    ----------
    node_selector : NodeSelector
        The selector.
    """

    cdef list _terms

    def __init__(self, node_selector) -> None:
        self._terms = [parsed for parsed in map(parse_term, node_selector.node_selector_terms) if parsed]

    cpdef bint matches(self, object node) except -1:
        """Whether some term matches a node.

        Parameters
        ----------
        node : Node
            For a node without a name, field requirements are ignored.

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
    """Whether the nodeSelector and the required node affinity of a pod both match a node.

    The rule is GetRequiredNodeAffinity of component-helpers v0.36; values of nodeSelector are not validated.

    Parameters
    ----------
    pod_spec : PodSpec
        The spec of the pod.
    node : Node

    Returns
    -------
    bool
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
    """A recursive-descent parser of the text form; each method is named after the element that it reads."""

    cdef list tokens
    cdef Py_ssize_t position

    def __init__(self, str text not None):
        self.tokens = [*TOKEN.findall(text), ""]
        self.position = 0

    cdef str peek(self):
        """Return the next token, "" at the end."""
        return self.tokens[self.position]

    cdef str next(self):
        """Return the next token and advance."""
        self.position += 1
        return self.tokens[self.position - 1]

    cdef tuple requirements(self):
        """Read requirements separated by commas, up to the end."""
        cdef list parsed = []
        cdef str token
        if not self.peek():
            return ()
        if not starts_requirement(self.peek()):
            raise ValueError(f"found '{self.peek()}', expected: !, identifier, or 'end of string'")
        while True:
            try:
                parsed.append(self.requirement())
            except ValueError as error:
                raise ValueError(f"unable to parse requirement: {error}") from None
            token = self.next()
            if not token:
                return tuple(parsed)
            if token != ",":
                raise ValueError(f"found '{token}', expected: ',' or 'end of string'")
            if not starts_requirement(self.peek()):
                raise ValueError(f"found '{self.peek()}', expected: identifier after ','")

    cdef _Requirement requirement(self):
        """Read one requirement."""
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
        """Read one value, which may be empty."""
        if self.peek() in ("", ","):
            return ("",)
        cdef str token = self.next()
        if not is_identifier(token):
            raise ValueError(f"found '{token}', expected: identifier")
        return (token,)

    cdef tuple value_set(self):
        """Read values in parentheses, separated by commas; return them sorted. A value may be empty."""
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
    """Whether a token is a label key, a value, or the word in or notin."""
    return token != "" and token[0] not in "=!(),<>"


cdef bint starts_requirement(str token) except -1:
    """Whether a requirement can begin with a token."""
    return token == "!" or is_identifier(token)


def parse_selector(text: str) -> LabelSelectorMatcher:
    """Parse a selector in kubectl's syntax, such as ``a=b,c!=d,e in (x,y),!f,g,h>1``.

    Parameters
    ----------
    text : str
        The selector; an empty text matches everything.

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
    """Whether some toleration tolerates a taint.

    The rule is Toleration.ToleratesTaint of k8s.io/api v0.36: an empty effect or key matches any, and an
    empty operator means Equal.

    Parameters
    ----------
    tolerations : iterable of Toleration
        The tolerations of a pod.
    taint : Taint
        A taint of a node.
    compares : bool, default False
        Whether a toleration with the operator Lt (Gt) tolerates a taint whose value is an integer below
        (above) its own; the feature gate TaintTolerationComparisonOperators. Otherwise it tolerates nothing.

    Returns
    -------
    bool
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
    """Whether both values are integers and the comparison of the toleration holds for that of the taint."""
    bound, value = decimal_integer(toleration.value), decimal_integer(taint.value)
    if bound is None or value is None:
        return False
    return value < bound if toleration.operator == "Lt" else value > bound


def decimal_integer(str text not None):
    """Return the int64 value of a decimal integer without plus sign and leading zeros.

    Parameters
    ----------
    text : str

    Returns
    -------
    int or None
        None for another text or a value outside the int64 range (apimachinery v0.36,
        content.IsDecimalInteger).
    """
    if re.fullmatch("0|-?[1-9][0-9]*", text, re.ASCII) is None:
        return None
    number = int(text) if len(text) <= 20 else None
    return number if number is not None and -(1 << 63) <= number < 1 << 63 else None


def find_intolerable_taint(taints, tolerations, effects, bint compares=False):
    """Return the first taint with one of some effects that is not tolerated.

    The rule is FindMatchingUntoleratedTaint of component-helpers v0.36.

    Parameters
    ----------
    taints : iterable of Taint
        The taints of a node.
    tolerations : sequence of Toleration
        The tolerations of a pod.
    effects : container of str
        The effects that count, such as NoSchedule and NoExecute.
    compares : bool, default False
        As for `tolerates`.

    Returns
    -------
    Taint or None
        None if all taints with these effects are tolerated.
    """
    for taint in taints:
        if taint.effect in effects and not tolerates(tolerations, taint, compares):
            return taint
    return None
