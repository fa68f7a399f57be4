"""``python -m tests.conformance [--candidates on|off] [--threads N] [--batch] [--undo SEED] FILE…``"""

from __future__ import annotations

import argparse
import sys

from .modes import Mode, Undone
from .runner import run

parser = argparse.ArgumentParser("python -m tests.conformance")
parser.add_argument(
    "files",
    nargs="+",
    metavar="FILE",
    help=".jsonl, .jsonl.gz, .json.gz (of clusters), or directories of them",
)
parser.add_argument(
    "--candidates", choices=("on", "off"), default="on", help="keep totals of all nodes in runs"
)
parser.add_argument("--threads", type=int, default=1, metavar="N", help="split every scan among N threads")
parser.add_argument("--batch", action="store_true", help="schedule runs of schedule steps in one call each")
parser.add_argument(
    "--undo", type=int, metavar="SEED", help="play verbs after every third step, and undo them"
)
given = parser.parse_args()
undone = None if given.undo is None else Undone(given.undo)
sys.exit(run(given.files, Mode(given.candidates == "on", given.threads, given.batch, undone=undone)))
