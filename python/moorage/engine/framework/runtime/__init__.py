"""How a profile runs the plugins of each extension point."""

from __future__ import annotations
