"""A plugin of pytest: xdist waits for its workers until they have written what gcov has counted.

A process writes its counts when it ends by itself. xdist kills workers that take longer than ten seconds.
"""

from __future__ import annotations

from xdist.workermanage import NodeManager

NodeManager.EXIT_TIMEOUT = 300
