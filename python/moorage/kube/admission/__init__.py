"""Admission: what changes new pods in the API server, and what refuses them."""

from .admission import Admission as Admission
from .admission import RefusedError as RefusedError
