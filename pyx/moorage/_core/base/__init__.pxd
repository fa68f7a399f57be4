"""Declarations of this package that other packages of the core cimport."""

from moorage._core.base.buffers cimport *
from moorage._core.base.change_log cimport *
from moorage._core.base.deadlines cimport *
from moorage._core.base.debug cimport *
from moorage._core.base.fields cimport *
from moorage._core.base.int_lists cimport *
from moorage._core.base.quantity cimport *
from moorage._core.base.sets cimport *
from moorage._core.base.string_index cimport *
from moorage._core.base.symbols cimport *
from moorage._core.base.watch_events cimport *
