"""Names of the core that have moved, so that `make bench-compare` can go back to revisions before that."""

try:
    from moorage._core.decide.chooser import TieBreak, num_feasible_nodes_to_find
except ModuleNotFoundError:
    from moorage._core.decide.cycle import TieBreak, num_feasible_nodes_to_find

__all__ = ["TieBreak", "num_feasible_nodes_to_find"]
