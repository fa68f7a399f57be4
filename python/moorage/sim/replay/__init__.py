"""Replays: timelines in virtual time, and the histories that come of them."""

from .history import History as History
from .recorded_bindings import Verification as Verification
from .recorded_bindings import verify as verify
from .replay_timeline import replay as replay
