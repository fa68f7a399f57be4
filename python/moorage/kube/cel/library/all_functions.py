"""The functions that Kubernetes has in CEL, of all its libraries."""

from __future__ import annotations

from functools import lru_cache

from ..overloads import Library
from .kubernetes_functions import add_kubernetes_functions
from .list_functions import add_list_functions
from .named_formats import add_format_functions
from .net_functions import add_net_functions
from .optional_functions import add_optional_functions
from .semver import add_semver_functions
from .standard_functions import add_standard_functions
from .string_functions import add_string_functions


@lru_cache(1)
def library() -> Library:
    """Return the functions of expressions."""
    library = Library()
    add_standard_functions(library)
    add_string_functions(library)
    add_kubernetes_functions(library)
    add_list_functions(library)
    add_format_functions(library)
    add_net_functions(library)
    add_semver_functions(library)
    add_optional_functions(library)
    return library
