"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# No test asserts how long it takes: machines are busy, and sanitized builds slow.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
