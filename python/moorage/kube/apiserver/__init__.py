"""What an API server does with objects: it names unknown fields, merges and applies manifests."""

from __future__ import annotations
