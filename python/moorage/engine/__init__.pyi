# The modules: for type checkers, and for the package, which imports each at its first use.

from . import volume as volume
