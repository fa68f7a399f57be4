"""World: what the episodes of environments begin with, and how they are observed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from moorage.answers.scheduler import Scheduler
from moorage.errors import InputError
from moorage.kube import Pod

from ..replay.replay_timeline import scheduler_at_start
from ..timeline import Timeline, Verb
from ..virtual_clock import VirtualClock
from .episode import Episode, Mask
from .transition import Reward, Transition

RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
"""Columns of nodes and pods by default."""

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
    resources : tuple of str
    scales : (resources,) float64 array
        Factors: 1 by the largest allocatable amount of a node at the start.
    observation_space : gymnasium.spaces.Dict
    action_space : gymnasium.spaces.Discrete
    """

    def __init__(
        self, timeline: Timelines, resources: Sequence[str], nodes: int | None, options: dict[str, Any]
    ) -> None:
        self._timeline, self._options = timeline, options
        first = timeline if isinstance(timeline, Timeline) else timeline(0)
        scheduler = scheduler_at_start(first, VirtualClock(), options)
        self._start = (first, scheduler) if isinstance(timeline, Timeline) else None
        self._requests: dict[int, Floats] = {}
        self.resources = tuple(resources)
        if not self.resources:
            raise InputError("must not be empty", path="resources")
        columns = [scheduler.table.column("allocatable", one) for one in self.resources]
        self.scales = np.array([1.0 / max(1, *column.tolist(), 1) for column in columns])
        self.nodes = _room(first, scheduler) if nodes is None else nodes
        if self.nodes < 1:
            raise InputError(f"must be at least 1, not {self.nodes}", path="nodes")
        width = len(self.resources)
        parts: dict[str, spaces.Space[Any]] = {
            "nodes": spaces.Box(-np.inf, np.inf, (self.nodes, width), np.float32),
            "pod": spaces.Box(0.0, np.inf, (width,), np.float32),
            "mask": spaces.MultiBinary(self.nodes + 1),
        }
        self.observation_space = spaces.Dict(parts)
        self.action_space = spaces.Discrete(self.nodes + 1)

    def begin(self, seed: int) -> tuple[Episode, dict[int, Floats]]:
        """Begin an episode.

        Parameters
        ----------
        seed : int
            Of the timeline.

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
        found = known.get(number)
        if found is None:
            shape = classes.shape_of(number)
            amounts = {"cpu": shape.requests[0], "memory": shape.requests[1], "pods": 1}
            amounts |= shape.other_requests
            values = [amounts.get(one, 0) for one in self.resources]
            found = known[number] = (np.array(values) * self.scales).astype(np.float32)
        return found


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

        Parameters
        ----------
        seed : int
            Of the timeline.

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
        """Place the pod at hand, or leave it pending, and go on to the next one.

        Returns
        -------
        float
            The reward.
        """
        episode, pod = self.episode, self._pod
        assert pod is not None
        node, began = "", episode.clock.now
        if 0 <= action < self._world.nodes and self._mask[action]:
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
    made = np.unique(columns["subject"][np.isin(columns["verb"], (Verb.CREATE, Verb.APPLY))])
    references = [timeline.subjects[number] for number in made.tolist()]
    names = {one.removeprefix("node/") for one in references if one.startswith("node/")}
    names |= {one.spec.node_name for one in timeline.arguments if isinstance(one, Pod)} - {""}
    return scheduler.table.used + len(names - set(scheduler.table.names))
