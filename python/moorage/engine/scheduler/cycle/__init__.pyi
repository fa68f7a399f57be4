# The modules: for type checkers, and for the package, which imports each at its first use.

from . import cycle as cycle
from . import diagnosis as diagnosis
from . import extended_search as extended_search
from . import status_writes as status_writes
