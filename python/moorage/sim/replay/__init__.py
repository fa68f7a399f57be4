"""Replays: timelines in virtual time, and the histories that come of them."""

from .history import History as History
from .replay_timeline import replay as replay
