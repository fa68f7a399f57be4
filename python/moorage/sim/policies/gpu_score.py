"""GpuScore: a score by the GPUs that `GpuShare` follows."""

from __future__ import annotations

from moorage._core.devices.gpu_shares import GpuShares
from moorage.engine import framework as fwk
from moorage.engine.framework.out_of_tree_plugins import RowPlugin
from moorage.errors import InputError

from .gpu_share import GpuShare


class GpuScore(RowPlugin, fwk.ScorePlugin):
    """A score by the free parts of GPUs; the profile must have `GpuShare`."""

    default_weight = 1

    @property
    def shares(self) -> GpuShares:
        """The free parts of GPUs, which have been asked about the pod of the search.

        Raises
        ------
        InputError
            The profile has no GpuShare.
        """
        for plugin in self._framework().profile.at(fwk.FilterPlugin):
            if isinstance(plugin, GpuShare):
                return plugin.shares
        raise InputError("the profile has no plugin GpuShare")
