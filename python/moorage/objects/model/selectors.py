"""Label selectors, node selectors and tolerations, object by object."""

from moorage._core.base.selectors import LabelSelectorMatcher as LabelSelectorMatcher
from moorage._core.base.selectors import NodeSelectorMatcher as NodeSelectorMatcher
from moorage._core.base.selectors import decimal_integer as decimal_integer
from moorage._core.base.selectors import field_requirement_error as field_requirement_error
from moorage._core.base.selectors import find_intolerable_taint as find_intolerable_taint
from moorage._core.base.selectors import parse_selector as parse_selector
from moorage._core.base.selectors import pod_matches_node_selector as pod_matches_node_selector
from moorage._core.base.selectors import requirement_error as requirement_error
from moorage._core.base.selectors import tolerates as tolerates
