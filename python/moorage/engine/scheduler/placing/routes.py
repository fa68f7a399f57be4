"""Route bits that are looked at together: they select the engine, and the kind of cycle."""

from __future__ import annotations

from moorage._core.decide.pod_batch import Route

WHOLE_CYCLE = int(Route.PYTHON | Route.EXTENDERS)
"""Route bits of pods that out-of-tree plugins or extenders take part in: each has a cycle of its own."""

APART = WHOLE_CYCLE | int(Route.WAITS)
"""`WHOLE_CYCLE` and the route bit of single pods of a group, which wait on Permit for the other members."""

SEGMENTS = APART | ~(int(Route.PROFILE) - 1)
"""Route bits that select the engine and the kind of cycle; a batch is cut where one of them changes."""
