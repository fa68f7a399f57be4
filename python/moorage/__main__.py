"""``python -m moorage``."""

import sys

from moorage.cli import main

sys.exit(main())
