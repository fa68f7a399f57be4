"""An autoscaler in the loop of a replay: it asks the engine that schedules, and adds and removes nodes."""

from .autoscaler import Autoscaler as Autoscaler
