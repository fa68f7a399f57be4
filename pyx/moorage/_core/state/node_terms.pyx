"""Node selector terms and labels of nodeSelector, compiled, and upstream's errors for malformed terms."""

from collections import namedtuple

from moorage._core.base.selectors import field_requirement_error, requirement_error

from moorage._core.base cimport Symbols
from moorage._core.csrc cimport *

cdef dict OPERATORS = {
    "In": MR_IN, "NotIn": MR_NOT_IN, "Exists": MR_EXISTS, "DoesNotExist": MR_DOES_NOT_EXIST, "Gt": MR_GT,
    "Lt": MR_LT,
}
Requirement = namedtuple("Requirement", "column op values number", module=__name__)


def label_requirement(
    Symbols symbols not None, Symbols label_keys not None, str key, str operator, tuple values
):
    """Compile a requirement on a label.

    Parameters
    ----------
    symbols, label_keys : Symbols
        Ids of strings and of label keys.
    key, operator : str
    values : tuple of str

    Returns
    -------
    Requirement
        The column of the label; the operator of csrc/state.h; the symbols of the values of In and NotIn; the
        number of Gt and Lt, else 0.
    """
    number = int(values[0]) if operator in ("Gt", "Lt") else 0
    ids = tuple([symbols.intern(value) for value in values]) if operator in ("In", "NotIn") else ()
    return Requirement(label_keys.intern(key) - 1, OPERATORS[operator], ids, number)


def _field_requirement(Symbols symbols, r, is_pinned):
    """Compile a requirement on metadata.name; that of a pinned pod takes its name from the pod."""
    if is_pinned:
        return Requirement(-1, MR_NAME_PARAMETER, (), 0)
    op = MR_NAME_IN if r.operator == "In" else MR_NAME_NOT_IN
    return Requirement(-1, op, tuple([symbols.intern(v) for v in r.values]), 0)


def compiled_term(Symbols symbols not None, Symbols label_keys not None, term, bint is_pinned):
    """Compile a node selector term without errors.

    Parameters
    ----------
    symbols, label_keys : Symbols
        Ids of strings and of label keys.
    term : NodeSelectorTerm
    is_pinned : bool
        Whether the term pins the pod to a node by its name, which is then left to the pod.

    Returns
    -------
    tuple of Requirement
        Those on labels first; one on the name has column -1.
    """
    cdef list out = []
    for r in term.match_expressions:
        out.append(label_requirement(symbols, label_keys, r.key, r.operator, r.values))
    for r in term.match_fields:
        out.append(_field_requirement(symbols, r, is_pinned))
    return tuple(out)


def requirements_of(term):
    """Return all requirements of a node selector term.

    Parameters
    ----------
    term : NodeSelectorTerm

    Returns
    -------
    tuple of NodeSelectorRequirement
    """
    return (*term.match_expressions, *term.match_fields)


def term_error(term):
    """Return upstream's parse error of a node selector term.

    Parameters
    ----------
    term : NodeSelectorTerm

    Returns
    -------
    str or None
        None for a valid term.
    """
    errors = [requirement_error(r.key, r.operator, r.values, node=True) for r in term.match_expressions]
    errors += [field_requirement_error(r.key, r.operator, r.values) for r in term.match_fields]
    return next((error for error in errors if error), None)


def required_errors(spec):
    """Return upstream's parse errors of the terms of required node affinity, on which queueing hints depend.

    Parameters
    ----------
    spec : PodSpec

    Returns
    -------
    tuple of str
    """
    required = spec.affinity and spec.affinity.node_affinity and spec.affinity.node_affinity.required
    return tuple(filter(None, map(term_error, required.node_selector_terms))) if required else ()
