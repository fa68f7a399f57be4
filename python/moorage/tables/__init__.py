"""Tables: what results convert to for other libraries, and how they are shown."""

from .table import Table as Table
from .table import Tabular as Tabular
