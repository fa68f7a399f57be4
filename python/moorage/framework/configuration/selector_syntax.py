"""Syntax errors of names and node selectors, with the paths of a configuration.

The texts are those of `moorage.objects.model.selectors`, which gives them for one requirement at a time;
upstream's validation lists them one by one (component-helpers v0.36, ``nodeaffinity``; apimachinery v0.36,
``labels``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from moorage.objects.model.selectors import requirement_error

from .args import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PreferredSchedulingTerm
from .reading.field_errors import invalid, unsupported

_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")


def _words(error: str | None, path: str, value: object) -> str:
    """The words of the one error ``path: Invalid value: value: words``; "" for none."""
    quoted = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return (error or "").removeprefix(f"{path}: Invalid value: {quoted}: ")


def _name_words(name: str) -> str:
    return _words(requirement_error(name, "Exists", (), node=True), "key", name)


def label_name_errors(name: str, path: str) -> list[str]:
    """Why a name is no label key, each reason as an error of its own."""
    words = _name_words(name)
    return [invalid(path, name, reason) for reason in words.split("; ")] if words else []


def node_selector_errors(selector: NodeSelector, path: str) -> list[str]:
    """What is wrong with a node selector; empty terms are passed over."""
    errors = []
    for i, term in enumerate(selector.node_selector_terms or ()):
        errors += _term_errors(term, f"{path}.nodeSelectorTerms[{i}]")
    return errors


def preferred_term_errors(terms: Sequence[PreferredSchedulingTerm], path: str) -> list[str]:
    """What is wrong with preferred terms; empty ones and those of weight 0 are passed over."""
    errors = []
    for i, term in enumerate(terms):
        if term.weight:
            errors += _term_errors(term.preference, f"{path}[{i}]")
    return errors


def _term_errors(term: NodeSelectorTerm, path: str) -> list[str]:
    errors = []
    for i, requirement in enumerate(term.match_expressions or ()):
        errors += _requirement_errors(requirement, f"{path}.matchExpressions[{i}]")
    for i, requirement in enumerate(term.match_fields or ()):
        where, values = f"{path}.matchFields[{i}]", requirement.values
        if requirement.operator not in _FIELD_OPERATORS:
            errors.append(unsupported(f"{where}.operator", requirement.operator, _FIELD_OPERATORS))
        elif len(values or ()) != 1:
            errors.append(invalid(f"{where}.values", values, "must have one element"))
    return errors


def _requirement_errors(requirement: NodeSelectorRequirement, path: str) -> list[str]:
    key, operator, values = requirement.key, requirement.operator, requirement.values
    if operator not in _LABEL_OPERATORS:
        return [unsupported(f"{path}.operator", operator, _LABEL_OPERATORS)]
    errors = []
    if words := _name_words(key):
        errors.append(invalid(f"{path}.key", key, words))
    if words := _count_words(operator, len(values or ())):
        errors.append(invalid(f"{path}.values", values, words))
    if operator in ("Gt", "Lt"):
        for i, value in enumerate(values or ()):
            if not _is_integer(value):
                errors.append(invalid(f"{path}.values[{i}]", value, _NOT_AN_INTEGER))
    for i, value in enumerate(values or ()):
        wrong = requirement_error("a", "In", (value,), node=True)
        if words := _words(wrong, "values[0][a]", value):
            errors.append(invalid(f"{path}.values[{i}][{key}]", value, words))
    return errors


def _count_words(operator: str, count: int) -> str:
    """What is wrong with so many values; zeros stand for them."""
    zeros = ("0",) * count
    return _words(requirement_error("a", operator, zeros, node=True), "values", zeros or None)


_NOT_AN_INTEGER = _words(requirement_error("a", "Gt", ("x",), node=True), "values[0]", "x")


def _is_integer(value: str) -> bool:
    return _NOT_AN_INTEGER not in (requirement_error("a", "Gt", (value,), node=True) or "")
