"""What places pods, and what builders embed.

Each part is a package with its own door: `moorage.engine.scheduler` (cycles and their results), `cache`
(nodes and pods), `queue`, `framework` (plugins), `preemption`, `volume`, `devices`, and `extenders`.
"""

from moorage.lazy import names_at_first_use

__getattr__, __dir__, __all__ = names_at_first_use(__name__, __file__)
