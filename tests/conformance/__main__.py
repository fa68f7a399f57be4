"""``python -m tests.conformance FILE…``"""

from __future__ import annotations

import sys

from .runner import run

if len(sys.argv) < 2:
    sys.exit("usage: python -m tests.conformance FILE…   (.jsonl, .jsonl.gz, or directories of them)")
sys.exit(run(sys.argv[1:]))
