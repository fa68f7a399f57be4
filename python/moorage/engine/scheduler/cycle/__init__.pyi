# The modules: for type checkers, and for the package, which imports each at its first use.

from . import cycle as cycle
from . import extended_search as extended_search
