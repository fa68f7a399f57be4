"""Environments of Gymnasium (extra ``rl``): an agent chooses the nodes of the pods of a timeline."""

from importlib.util import find_spec

from moorage.errors import missing

if find_spec("gymnasium") is None:
    raise ImportError(missing("gymnasium", "rl"))

from .environment import SchedulingEnv as SchedulingEnv
from .transition import Transition as Transition
from .transition import placed as placed
from .vector_environment import SchedulingVectorEnv as SchedulingVectorEnv
from .world import RESOURCES as RESOURCES
