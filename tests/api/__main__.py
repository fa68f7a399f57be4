"""``python -m tests.api DOCUMENT``"""

from __future__ import annotations

import sys
from pathlib import Path

from .check import run

if len(sys.argv) != 2:
    sys.exit("usage: python -m tests.api DOCUMENT")
sys.exit(run(Path(sys.argv[1])))
