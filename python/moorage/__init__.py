"""moorage: a scheduling engine with the exact semantics of kube-scheduler 1.34 to 1.38.

The public names are imported when they are first used (PEP 562).
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

from moorage.lazy import names_at_first_use

if "t" in sys.abiflags:
    raise ImportError("moorage needs a Python with the GIL: its compiled core was not made for free threads")
if find_spec("moorage._core.decide.placer") is None:
    raise ImportError(
        "the compiled core of moorage is missing: run `pip install .` (or `make build`) in its source tree",
        name="moorage._core.decide.placer",
    )

__getattr__, __dir__, __all__ = names_at_first_use(__name__, __file__)
