"""Prints what pip is to install for the build, the run time and the extras named: `requirements EXTRA…`."""

import sys
import tomllib
from pathlib import Path

metadata = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())
extras = metadata["project"]["optional-dependencies"]
needed = [*metadata["build-system"]["requires"], *metadata["project"]["dependencies"]]
for extra in sys.argv[1:]:
    needed += (one for one in extras[extra] if not one.startswith("moorage["))
print("\n".join(needed))
