"""What places pods, and what builders embed.

Each part is a package with its own door: `moorage.engine.scheduler` (cycles and their results), `cache`
(nodes and pods), `queue`, `framework` (plugins), `preemption`, `volume`, `devices`, and `extenders`.
"""
