"""SchedulingEnv: one environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from moorage.errors import InputError

from .episode import Mask
from .transition import Reward, placed
from .world import RESOURCES, EpisodeRunner, Timelines, World

Observation = dict[str, Any]


class SchedulingEnv(gymnasium.Env[Observation, np.int64]):
    """An environment of Gymnasium in which an agent chooses the node of each pod of a timeline.

    An action is the row of a node (`moorage.Scheduler.table`), or the number of rows for leaving the pod
    pending. An action that the mask excludes leaves the pod pending, too. The episode terminates at the end
    of the timeline. Nothing is rendered.

    An observation is a dict: ``nodes``, (n, resources) float32, what is free on each node by row; ``pod``,
    (resources,) float32, what the pod requests; both as a share of the largest node at the start. ``mask``,
    (n + 1,) int8, is 1 for actions that are possible: where all filters of the profile pass. The information
    has ``time`` in seconds and ``pending``, the number of pods that were left pending.

    Parameters
    ----------
    timeline : Timeline or callable
        Or a function that returns the timeline of a seed; the seed of an episode is drawn from `np_random`.
    resources : sequence of str, optional
        The columns.
    nodes : int, optional
        The number of nodes for which the spaces have room; by default those at the start and those that join.
    reward : callable, optional
        Returns the reward of a `Transition`; by default 1 for a pod that was placed, else 0.
    **options : object
        Of `moorage.Scheduler`, such as ``config`` or ``registry``.

    Raises
    ------
    InputError
        An option is wrong; in `reset` and `step`: a pod has volumes, claims or a pod group.
    """

    metadata = {"render_modes": []}

    def __init__(
        self,
        timeline: Timelines,
        *,
        resources: Sequence[str] = RESOURCES,
        nodes: int | None = None,
        reward: Reward = placed,
        **options: Any,
    ) -> None:
        world = World(timeline, resources, nodes, options)
        self.observation_space, self.action_space = world.observation_space, world.action_space
        self._seen = {
            name: np.zeros(space.shape or (), space.dtype) for name, space in self.observation_space.items()
        }
        self._runner = EpisodeRunner(world, reward, *(self._seen[one] for one in ("nodes", "pod", "mask")))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode.

        Parameters
        ----------
        seed : int, optional
            Of `np_random`.
        options : dict, optional
            There are none.

        Raises
        ------
        InputError
            There are options.
        """
        refuse_options(options)
        super().reset(seed=seed)
        self._runner.begin(int(self.np_random.integers(1 << 31)))
        return self._observed()

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Place the pod at hand, or leave it pending, and go on to the next pod.

        Returns
        -------
        reward : float
            In the unit of the function `reward`; by default 1 for a pod that was placed.
        truncated : bool
            Always False.

        Raises
        ------
        ResetNeeded
            The episode has ended, or has never begun.
        """
        if self._runner.done:
            raise ResetNeeded("the episode has ended, or was never begun")
        reward = float(self._runner.step(int(action)))
        observation, information = self._observed()
        return observation, reward, self._runner.done, False, information

    def action_masks(self) -> Mask:
        """Return the mask of the present observation, as (n + 1,) int8 array."""
        return self._seen["mask"].copy()

    def _observed(self) -> tuple[Observation, dict[str, Any]]:
        runner = self._runner
        seen = {name: values.copy() for name, values in self._seen.items()}
        return seen, {"time": runner.time, "pending": runner.pending}


def refuse_options(options: dict[str, Any] | None) -> None:
    """Raise InputError if `reset` is given options."""
    if options:
        raise InputError(f"there is no option {min(options)}", path="options")
