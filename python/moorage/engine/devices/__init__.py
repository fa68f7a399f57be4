"""Devices of dynamic resource allocation: selectors, pools, demands, claims in use.

The names are imported when they are first used (PEP 562).
"""

from moorage.lazy import names_at_first_use

__getattr__, __dir__, __all__ = names_at_first_use(__name__, __file__)
