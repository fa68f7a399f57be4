"""``python -m tests.api`` checks the entries of all documents against the tests that there are, and
``python -m tests.api DOCUMENT`` those of one document against its lines as well. ``python -m tests.api 002:33
--run`` runs the tests that the entry of line 33 of document 002 names."""

from __future__ import annotations

import sys
from pathlib import Path

from .check import run, run_tables, run_tests

match sys.argv[1:]:
    case []:
        sys.exit(run_tables())
    case [line, "--run"]:
        sys.exit(run_tests(line))
    case [document] if not document.startswith("-"):
        sys.exit(run(Path(document)))
    case _:
        sys.exit("usage: python -m tests.api [DOCUMENT] | python -m tests.api 002:33 --run")
