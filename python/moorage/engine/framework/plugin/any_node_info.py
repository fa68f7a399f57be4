"""The type of the node that plugins are asked about."""

from __future__ import annotations

from moorage.engine.cache import NodeInfo as LiveNodeInfo
from moorage.engine.cache import NodeInfoClone

NodeInfo = LiveNodeInfo | NodeInfoClone
"""A view of a node of the cache, or a copy that a plugin may change."""
