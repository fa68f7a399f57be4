"""``python -m moorage``."""

import sys

from .cli import main

sys.exit(main())
