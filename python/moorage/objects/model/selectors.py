"""Label selectors, node selectors and tolerations, object by object."""

from __future__ import annotations

from moorage._core.base.selectors import (
    LabelSelectorMatcher,
    NodeSelectorMatcher,
    decimal_integer,
    field_requirement_error,
    find_intolerable_taint,
    parse_selector,
    pod_matches_node_selector,
    requirement_error,
    tolerates,
)

__all__ = [
    "LabelSelectorMatcher",
    "NodeSelectorMatcher",
    "decimal_integer",
    "field_requirement_error",
    "find_intolerable_taint",
    "parse_selector",
    "pod_matches_node_selector",
    "requirement_error",
    "tolerates",
]
