"""SchedulingVectorEnv: several environments in one, over forks of one scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from moorage.errors import InputError

from .environment import Observation, refuse_options
from .transition import Reward, placed
from .world import RESOURCES, EpisodeRunner, Timelines, World

NAMES = ("nodes", "pod", "mask")


class SchedulingVectorEnv(VectorEnv[Observation, npt.NDArray[np.int64], npt.NDArray[Any]]):
    """Environments that go on together; each is a `SchedulingEnv` over a fork of one scheduler.

    An environment whose episode has ended begins another one in the next step, which ignores its action.

    Parameters
    ----------
    timeline, resources, nodes, reward, **options
        As of `SchedulingEnv`.
    copy : bool, optional
        Whether observations are copies; without, the next step overwrites them.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(
        self,
        num_envs: int,
        timeline: Timelines,
        *,
        resources: Sequence[str] = RESOURCES,
        nodes: int | None = None,
        reward: Reward = placed,
        copy: bool = True,
        **options: Any,
    ) -> None:
        if num_envs < 1:
            raise InputError(f"must be at least 1, not {num_envs}", path="num_envs")
        world = World(timeline, resources, nodes, options)
        self.num_envs, self._copies = num_envs, copy
        self.single_observation_space, self.single_action_space = world.observation_space, world.action_space
        self.observation_space = batch_space(world.observation_space, num_envs)
        self.action_space = batch_space(world.action_space, num_envs)
        self._seen = {
            name: np.zeros((num_envs, *(space.shape or ())), space.dtype)
            for name, space in world.observation_space.items()
        }
        self._runners = [
            EpisodeRunner(world, reward, *(self._seen[name][at] for name in NAMES)) for at in range(num_envs)
        ]
        self._rewards = np.zeros(num_envs)
        self._done = np.zeros(num_envs, np.bool_)
        self._generators = [np.random.default_rng() for _ in range(num_envs)]

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode in each environment.

        Parameters
        ----------
        seed : int or list of int, optional
            Of the environments; a number is that of the first, and the others have the next ones.
        options : dict, optional
            There are none.

        Raises
        ------
        InputError
            There are options, or not as many seeds as environments.
        """
        refuse_options(options)
        if seed is not None:
            seeds = [seed + at for at in range(self.num_envs)] if isinstance(seed, int) else seed
            if len(seeds) != self.num_envs:
                raise InputError(f"{len(seeds)} seeds for {self.num_envs} environments", path="seed")
            for at, one in enumerate(seeds):
                if one is not None:
                    self._generators[at] = np.random.default_rng(one)
        for at in range(self.num_envs):
            self._begin(at)
        self._done[:] = False
        return self._observed()

    def step(
        self, actions: npt.NDArray[np.int64]
    ) -> tuple[Observation, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]]:
        """Take a step in each environment.

        Parameters
        ----------
        actions : (num_envs,) int64 array

        Returns
        -------
        observations : dict
            With a first axis for the environments.
        rewards : (num_envs,) float64 array
            In the unit of the function `reward`; by default 1 for a pod that was placed.
        terminations, truncations : (num_envs,) bool array
        information : dict
            Of arrays, ``time`` and ``pending``.
        """
        done, rewards = self._done, self._rewards
        for at, (runner, action) in enumerate(zip(self._runners, np.asarray(actions).tolist(), strict=True)):
            if runner.done:
                self._begin(at)
                rewards[at] = 0.0
            else:
                rewards[at] = runner.step(action)
            done[at] = runner.done
        observations, information = self._observed()
        return observations, rewards.copy(), done.copy(), np.zeros(self.num_envs, np.bool_), information

    def _begin(self, at: int) -> None:
        self._runners[at].begin(int(self._generators[at].integers(1 << 31)))

    def _observed(self) -> tuple[Observation, dict[str, Any]]:
        seen = {name: values.copy() for name, values in self._seen.items()} if self._copies else self._seen
        there = np.ones(self.num_envs, np.bool_)
        times = np.array([runner.time for runner in self._runners])
        pending = np.array([runner.pending for runner in self._runners])
        return seen, {"time": times, "_time": there, "pending": pending, "_pending": there}
