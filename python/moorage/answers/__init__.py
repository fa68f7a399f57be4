"""What may be asked of a cluster, and how answers look."""

from .difference import Difference as Difference
