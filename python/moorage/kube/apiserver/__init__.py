"""What an API server does with objects: it validates, admits and applies them."""

from __future__ import annotations
