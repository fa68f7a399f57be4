"""CapacityScore: free capacity and requests as fractions of the capacity of the largest node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from moorage.engine import framework as fwk
from moorage.engine.framework.out_of_tree_plugins import RowPlugin, Rows
from moorage.errors import InputError

Fractions = npt.NDArray[np.float64]


class CapacityScore(RowPlugin, fwk.ScorePlugin):
    """A score by free capacity.

    Parameters
    ----------
    args : mapping of str to object, optional
        ``resources``: mapping of resource name to the capacity that counts as 1, in millicores for cpu, in
        bytes or units for others.
    """

    default_args = {"resources": {"cpu": 128_000, "memory": 1 << 40}}
    default_weight = 1

    def __init__(
        self, args: Mapping[str, Any] | None = None, handle: fwk.FrameworkHandle | None = None
    ) -> None:
        super().__init__(args, handle)
        if unknown := self.args.keys() - self.default_args.keys():
            raise InputError(f'plugin "{self.name}": unknown argument {min(unknown)}')
        self._resources: dict[str, float] = dict(self.args["resources"])
        for name, capacity in self._resources.items():
            if not capacity > 0:
                raise InputError(f'plugin "{self.name}": resources: {name}: {capacity} is not above 0')

    def free(self, rows: Rows) -> Fractions:
        """Return the free capacity of nodes, as a (resources, n) array of fractions."""
        nodes = self.nodes(rows)
        allocatable, requested = nodes.allocatable, nodes.requested
        return np.array([(allocatable[r] - requested[r]) / most for r, most in self._resources.items()])

    def request(self) -> Fractions:
        """Return the requests of the pod, as a (resources, 1) array of fractions."""
        cpu, memory = self.shape.requests
        requests = {"cpu": cpu, "memory": memory, **self.shape.other_requests}
        return np.array([[requests.get(name, 0) / most] for name, most in self._resources.items()])
