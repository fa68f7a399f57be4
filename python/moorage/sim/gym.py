"""Environments of Gymnasium (extra ``rl``): an agent chooses the nodes of the pods of a timeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from inspect import signature
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from moorage.answers.scheduler import Scheduler
from moorage.arguments import argument
from moorage.cluster.cluster_setup import check_names
from moorage.errors import InputError, missing
from moorage.kube import Pod

from .episode import Episode, Mask
from .event_columns import Verb
from .replay.replay_timeline import scheduler_at_start
from .replay.replayer import VirtualClock
from .timeline import Timeline

if find_spec("gymnasium") is None:
    raise ImportError(missing("gymnasium", "rl"))

import gymnasium  # after the error that names the extra
from gymnasium import spaces
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

__all__ = ["RESOURCES", "SchedulingEnv", "SchedulingVectorEnv", "Transition", "placed"]


class Transition(Struct, frozen=True, gc=False):
    """A decision about a pod, and the time until the next one.

    Attributes
    ----------
    pod : Pod
    node : str
        Where it was placed; "" for a pod that was left pending.
    time : float
        Of the decision, in seconds since the start of the timeline.
    elapsed : float
        Seconds until the next decision, or until the end of the timeline.
    pending : int
        Number of pods that are left pending after the decision.
    """

    pod: Pod
    node: str
    time: float
    elapsed: float
    pending: int


Reward = Callable[[Transition], float]


def placed(transition: Transition) -> float:
    """Return 1 for a pod that was placed, 0 for one that was left pending.

    Returns
    -------
    float
        1 or 0.
    """
    return 1.0 if transition.node else 0.0


RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
"""Columns of nodes and pods by default."""
NAMES = ("nodes", "pod", "mask")
"""Of the arrays of an observation."""

MOST = float(np.finfo(np.float32).max)
"""The bound of observations: nodes that join may be any times larger than those at the start."""

Timelines = Timeline | Callable[[int], Timeline]
Floats = npt.NDArray[np.float32]


class World:
    """A timeline, or one for each seed, and the scheduler at its start, of which episodes are forks.

    Parameters
    ----------
    timeline : Timeline or callable
        Or a function that returns the timeline of a seed; it is called with 0 for the size of the spaces.
    resources : sequence of str
        Columns of nodes and pods.
    nodes : int, optional
        The number of nodes for which the spaces have room; by default those at the start and those that join.
    options : dict
        Of `Scheduler`.

    Attributes
    ----------
    scales : (resources,) float64 array
        Factors: 1 by the largest allocatable amount of a node at the start.
    """

    def __init__(
        self, timeline: Timelines, resources: Sequence[str], nodes: int | None, options: dict[str, Any]
    ) -> None:
        check_names(options, "an environment", signature(SchedulingVectorEnv).parameters)
        argument("timeline", timeline, "Timeline | Callable[[int], Timeline]", globals())
        self._timeline, self._options = timeline, options
        first = timeline if isinstance(timeline, Timeline) else timeline(0)
        scheduler = scheduler_at_start(first, VirtualClock(), options)
        self._start = (first, scheduler) if isinstance(timeline, Timeline) else None
        self._requests: dict[int, Floats] = {}
        self.resources = tuple(resources)
        if not self.resources:
            raise InputError("must not be empty", path="resources")
        columns = [scheduler.table.column("allocatable", name) for name in self.resources]
        self.scales = np.array([1.0 / max(1, *column.tolist(), 1) for column in columns])
        self.nodes = _room(first, scheduler) if nodes is None else nodes
        if self.nodes < 1:
            raise InputError(f"must be at least 1, not {self.nodes}", path="nodes")
        width = len(self.resources)
        parts: dict[str, spaces.Space[Any]] = {
            "nodes": spaces.Box(-MOST, MOST, (self.nodes, width), np.float32),
            "pod": spaces.Box(0.0, MOST, (width,), np.float32),
            "mask": spaces.MultiBinary(self.nodes + 1),
        }
        self.observation_space = spaces.Dict(parts)
        self.action_space = spaces.Discrete(self.nodes + 1)

    def begin(self, seed: int) -> tuple[Episode, dict[int, Floats]]:
        """Begin an episode.

        Returns
        -------
        requests : dict of int to (resources,) float32 array
            Known requests by pod class; the classes of forks are numbered together.
        """
        clock = VirtualClock()
        if self._start is not None:
            timeline, scheduler = self._start
            return Episode(scheduler.fork(clock), clock, timeline), self._requests
        assert not isinstance(self._timeline, Timeline)
        timeline = self._timeline(seed)
        return Episode(scheduler_at_start(timeline, clock, self._options), clock, timeline), {}

    def request(self, episode: Episode, pod: Pod, known: dict[int, Floats]) -> Floats:
        """Return what a pod requests.

        Parameters
        ----------
        known : dict of int to (resources,) float32 array
            Of the episode.

        Returns
        -------
        (resources,) float32 array
            By the scales.
        """
        classes = episode.scheduler.cache.state.classes
        number = classes.intern(pod)
        request = known.get(number)
        if request is None:
            shape = classes.shape_of(number)
            amounts = {"cpu": shape.requests[0], "memory": shape.requests[1], "pods": 1}
            amounts |= shape.other_requests
            values = [amounts.get(name, 0) for name in self.resources]
            request = known[number] = (np.array(values) * self.scales).astype(np.float32)
        return request


class EpisodeRunner:
    """One environment: its episodes, and the arrays into which it writes what it observes.

    Parameters
    ----------
    nodes : (n, resources) float32 array
    pod : (resources,) float32 array
    mask : (n + 1,) int8 array

    Attributes
    ----------
    done : bool
        Whether the timeline has ended.
    """

    def __init__(self, world: World, reward: Reward, nodes: Floats, pod: Floats, mask: Mask) -> None:
        self._world, self._reward = world, reward
        self._nodes, self._request, self._mask = nodes, pod, mask
        self._known: dict[int, Floats] = {}
        self._pod: Pod | None = None
        self.done = True
        mask[-1] = 1

    def begin(self, seed: int) -> None:
        """Begin an episode.

        Raises
        ------
        InputError
            No pod of the timeline needs a node, or there are more nodes than the spaces have room for.
        """
        self.episode, self._known = self._world.begin(seed)
        self.episode.mask = self._mask[:-1]
        self._go_on()
        if self.done:
            raise InputError("no pod of the timeline needs a node")

    @property
    def time(self) -> float:
        """Seconds since the start of the timeline."""
        return self.episode.clock.now

    @property
    def pending(self) -> int:
        """Number of pods that were left pending."""
        return self.episode.pending

    def step(self, action: int) -> float:
        """Place the pod at hand, or leave it pending, and go on to the next one."""
        episode, pod, nodes = self.episode, self._pod, self._world.nodes
        assert pod is not None
        if not 0 <= action <= nodes:
            raise InvalidAction(
                f"{action} is no action: they go from 0 to {nodes}, which leaves the pod pending"
            )
        node, began = "", episode.clock.now
        if action < nodes and self._mask[action]:
            node = episode.place_on(action)
        else:
            episode.leave_pending()
        pending = episode.pending
        self._go_on()
        return self._reward(Transition(pod, node, began, episode.clock.now - began, pending))

    def _go_on(self) -> None:
        """Go on to the next pod, and write what is observed."""
        episode, world = self.episode, self._world
        table = episode.scheduler.table
        self._pod = episode.next_pod()
        self.done = self._pod is None
        table.write_free(world.resources, world.scales, self._nodes)
        self._request[:] = 0 if self._pod is None else world.request(episode, self._pod, self._known)


def _room(timeline: Timeline, scheduler: Scheduler) -> int:
    """Return the number of rows for the nodes at the start, those that join, and those that pods name."""
    columns = timeline.columns()
    numbers = np.unique(columns["subject"][np.isin(columns["verb"], (Verb.CREATE, Verb.APPLY))])
    references = [timeline.subjects[number] for number in numbers.tolist()]
    names = {reference.removeprefix("node/") for reference in references if reference.startswith("node/")}
    names |= {pod.spec.node_name for pod in timeline.arguments if isinstance(pod, Pod)} - {""}
    return scheduler.table.used + len(names - set(scheduler.table.names))


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
        self._runner = EpisodeRunner(world, reward, *(self._seen[name] for name in NAMES))

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
        InvalidAction
            There is no such action.
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
            for at, own in enumerate(seeds):
                if own is not None:
                    self._generators[at] = np.random.default_rng(own)
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


gymnasium.register(
    "moorage/Scheduling-v0",
    entry_point=f"{__name__}:SchedulingEnv",
    vector_entry_point=f"{__name__}:SchedulingVectorEnv",
)
