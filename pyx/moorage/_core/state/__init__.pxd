"""Declarations of this package that other packages of the core cimport."""

from moorage._core.state.cluster_state cimport *
from moorage._core.state.domains cimport *
from moorage._core.state.ledger cimport *
from moorage._core.state.pod_class cimport *
from moorage._core.state.pod_spec cimport *
from moorage._core.state.templates cimport *
