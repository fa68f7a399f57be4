"""Timelines: what happens to a cluster over time, from files, generators or calls."""

from .arrivals import bursts as bursts
from .arrivals import diurnal as diurnal
from .arrivals import exponential as exponential
from .arrivals import lognormal as lognormal
from .arrivals import poisson as poisson
from .timeline import Timeline as Timeline
from .timeline_event import Event as Event
from .timeline_event import Verb as Verb
