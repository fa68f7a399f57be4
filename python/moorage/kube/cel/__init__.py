"""CEL, the Common Expression Language, as selectors of devices use it."""

from __future__ import annotations
