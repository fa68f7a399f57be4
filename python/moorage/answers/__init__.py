"""What may be asked of a cluster, and how answers look: as types, as pages and as pictures.

Questions about plans leave the scheduler as it was. Users call them as methods of `Scheduler`; here are the
types of the answers. The names are imported when they are first used (PEP 562).
"""

from moorage.lazy import names_at_first_use

__getattr__, __dir__, __all__ = names_at_first_use(__name__, __file__)
