"""Autoscaler: adds nodes for pods that fit nowhere, and removes nodes that are not needed, in a replay."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from moorage.objects import Node
from moorage.planning.pod_moves import pods_to_move
from moorage.sim.timeline import Event, Verb
from moorage.sim.timeline.autoscaler_spec import AutoscalerSpec, NodeGroup

from .autoscaler_state import AutoscalerState, Replacement, Upcoming
from .consolidating import Command, Consolidator
from .expanders import Option, choose
from .forked_dry_run import GROUP_LABEL, DryRun, new_node
from .karpenter_scaler import KarpenterScaler, KarpenterState
from .scale_down import find_candidates, find_unneeded, leaving

if TYPE_CHECKING:
    from moorage.sim.replay.replayer import Replayer

DISRUPTED = "karpenter.sh/disrupted:NoSchedule"


def autoscale(replayer: Replayer, state: AutoscalerState | KarpenterState | None = None) -> None:
    """Have the autoscaler of its timeline, if there is one, add and remove nodes in a replay.

    Parameters
    ----------
    state : AutoscalerState, optional
        Of another autoscaler, which this one continues.
    """
    spec = replayer.timeline.autoscaler
    if spec is None:
        return
    if spec.karpenter is not None:
        assert not isinstance(state, AutoscalerState)
        replayer.autoscaler = KarpenterScaler(spec.karpenter, replayer, state)
    else:
        assert not isinstance(state, KarpenterState)
        replayer.autoscaler = Autoscaler(spec, replayer, state)


class Autoscaler:
    """The autoscaler of a replay.

    It scans the cluster at multiples of the interval, after the events and the attempts of that instant. A
    scan at which nothing has changed and no time has run out would change nothing, and is left out.

    Parameters
    ----------
    spec : AutoscalerSpec
        Checked (`moorage.sim.timeline.autoscaler_spec.checked`).
    state : AutoscalerState, optional
        Of another autoscaler, which this one continues.
    """

    def __init__(
        self, spec: AutoscalerSpec, replayer: Replayer, state: AutoscalerState | None = None
    ) -> None:
        self.spec, self._replayer = spec, replayer
        self.state = AutoscalerState() if state is None else state
        self._groups = {one.name: one for one in spec.node_groups}
        self._interval = float(spec.scan_interval)
        self._forked: DryRun | None = None  # of this scan, with the nodes that are requested now
        if state is None:
            self._start()

    def _start(self) -> None:
        """Give each group its minimum of nodes at once."""
        sizes = Counter(self._members().values())
        for group in self.spec.node_groups:
            for _ in range(group.min_size - sizes[group.name]):
                self._join(Upcoming(0.0, group.name, self._name(group)))

    # ---- time ----------------------------------------------------------------------------------------------

    def next_time(self) -> float:
        """Return when the autoscaler acts next: a node joins, or a scan.

        Returns
        -------
        float
            Seconds from the start; infinite if it waits for a change.
        """
        return min([self._next_scan(), *(one.time for one in self.state.upcoming)])

    def _next_scan(self) -> float:
        ticks = [] if self._is_over() else self._ticks()
        if self._mark() != self.state.mark:
            ticks.append(math.ceil(self._replayer.clock.now / self._interval))
            ticks[-1] = max(ticks[-1], self.state.tick + 1)
        return min((tick * self._interval for tick in ticks if tick > self.state.tick), default=math.inf)

    def _ticks(self) -> list[int]:
        """Return the scans at which times that rules set have run out."""
        state, interval = self.state, self._interval
        ticks: list[int] = []
        if (down := self.spec.scale_down) is not None and state.unneeded:
            unneeded = float(down.unneeded_time)
            ticks += [math.floor((since + unneeded) / interval) + 1 for since in state.unneeded.values()]
            delays = (
                state.added + float(down.delay_after_add),
                state.removed + float(down.delay_after_delete),
            )
            ticks += [math.ceil(time / interval) for time in delays if time > 0]
        if (rules := self.spec.consolidation) is not None:
            after = float(rules.consolidate_after)
            ticks += [math.ceil((since + after) / interval) for _, since in state.pods.values()]
        return ticks

    def _is_over(self) -> bool:
        """Whether the timeline has ended: then nodes are added for pods that wait, but none is removed."""
        return self._replayer.cursor.time == math.inf

    def _mark(self) -> tuple[int, ...]:
        """Return numbers that differ if the cluster has changed."""
        replayer = self._replayer
        recorder = replayer.recorder
        return recorder.next_pod, recorder.ended, len(recorder.live), replayer.store.changes

    # ---- acts ----------------------------------------------------------------------------------------------

    def act(self) -> None:
        """Have nodes join whose time has come, and scan if it is time for a scan."""
        replayer, now = self._replayer, self._replayer.clock.now
        ready = [one for one in self.state.upcoming if one.time <= now]
        if ready:
            replayer.settle()
            self.state.upcoming = [one for one in self.state.upcoming if one.time > now]
            for one in ready:
                self._join(one)
            self._replace()
            replayer.try_again()
        if self._next_scan() <= now and not replayer.scheduler.bindings.running:
            self._scan(now)

    def _scan(self, now: float) -> None:
        replayer, state, self._forked = self._replayer, self.state, None
        replayer.settle()
        replayer.scheduler.sync()
        state.tick = math.ceil(now / self._interval)
        members = self._members()
        self._note_pods(members, now)
        has_changed = self._add_nodes(members, now)
        if not self._is_over():
            if self.spec.scale_down is not None:
                has_changed |= self._scale_down(members, now)
            elif self.spec.consolidation is not None and not (state.replacements or state.upcoming):
                has_changed |= self._consolidate(members, now)
        state.mark = () if has_changed else self._mark()
        self._forked = None

    def _members(self) -> dict[str, str]:
        """Return the group of each node that belongs to one, in list order."""
        scheduler = self._replayer.scheduler
        objects = scheduler.table.objects
        nodes = [objects[row] for row in scheduler.context.view_rows().tolist()]
        groups = {one.name: one.metadata.labels.get(GROUP_LABEL, "") for one in nodes if one is not None}
        return {name: group for name, group in groups.items() if group in self._groups}

    def _dry_run(self) -> DryRun:
        """Return a fork in which the requested nodes are there and the pending pods have been placed.

        The steps of a scan share it as long as no node is requested; the first, which looks for nodes to add,
        undoes what it tries.
        """
        if self._forked is None:
            scheduler, now = self._replayer.scheduler, self._replayer.clock.now
            upcoming = [(self._groups[one.group], one) for one in self.state.upcoming]
            cutoff = self.spec.expendable_pods_priority_cutoff
            self._forked = DryRun(scheduler, now, upcoming, cutoff)
        return self._forked

    def _sizes(self, members: dict[str, str]) -> Counter[str]:
        """Return the number of nodes of each group, with those that were requested."""
        sizes = Counter(dict.fromkeys(self._groups, 0))
        sizes.update(members.values())
        sizes.update(one.group for one in self.state.upcoming)
        return sizes

    def _note_pods(self, members: dict[str, str], now: float) -> None:
        """Note when pods have come to nodes or left them."""
        if self.spec.consolidation is None:
            return
        pods, scheduler = self.state.pods, self._replayer.scheduler
        found = {name: tuple([one.metadata.uid for one in pods_to_move(scheduler, name)]) for name in members}
        self.state.pods = {
            name: pods[name] if name in pods and pods[name][0] == uids else (uids, now)
            for name, uids in found.items()
        }

    # ---- more nodes ----------------------------------------------------------------------------------------

    def _add_nodes(self, members: dict[str, str], now: float) -> bool:
        """Request nodes: up to the minimum of each group, then for pods that fit nowhere."""
        sizes = self._sizes(members)
        option = None
        short = [one for one in self.spec.node_groups if sizes[one.name] < one.min_size]
        for group in short:
            self._request(group, group.min_size - sizes[group.name], now, "minimum size")
        if not short and self._replayer.recorder.pending:
            option = self._best_option(sizes, len(self._replayer.scheduler.context.view_rows()))
        if option is not None:
            self._request(option.group, option.nodes, now, f"{len(option.pods)} pods")
        if short or option is not None:
            self.state.added = now
        return bool(short) or option is not None

    def _best_option(self, sizes: Counter[str], cluster: int) -> Option | None:
        dry_run = self._dry_run()
        options = []
        for group in self.spec.node_groups if dry_run.unschedulable else ():
            nodes, fitting = dry_run.estimate(group, group.max_size - sizes[group.name])
            if nodes:
                options.append(Option(group, nodes, fitting))
        return choose(self.spec, options, cluster, self.state.tick) if options else None

    def _request(self, group: NodeGroup, count: int, now: float, why: str) -> list[str]:
        names = [self._name(group) for _ in range(count)]
        self._forked = None
        ready = now + float(group.provision_time)
        self.state.upcoming += [Upcoming(ready, group.name, name) for name in names]
        self._replayer.recorder.scalings.append((now, "add", group.name, count, why))
        return names

    def _name(self, group: NodeGroup) -> str:
        """Return the name of a new node."""
        serials, find_row = self.state.serials, self._replayer.scheduler.cache.state.find_row
        while True:
            serials[group.name] = serials.get(group.name, 0) + 1
            name = f"{group.name}-{serials[group.name]}"
            if find_row(name) is None:
                return name

    def _join(self, one: Upcoming) -> None:
        node: Node = new_node(self._groups[one.group], one.name)
        self._replayer.apply(Event(self._replayer.clock.now, Verb.CREATE, f"node/{one.name}", node))

    # ---- fewer nodes ---------------------------------------------------------------------------------------

    def _spare(self, members: dict[str, str]) -> dict[str, int]:
        """Return how many nodes each group has above its minimum, without those that were requested."""
        sizes = Counter(members.values())
        return {one.name: sizes[one.name] - one.min_size for one in self.spec.node_groups}

    def _scale_down(self, members: dict[str, str], now: float) -> bool:
        rules, state = self.spec.scale_down, self.state
        assert rules is not None
        unneeded: dict[str, int] = {}
        if candidates := find_candidates(self._replayer.scheduler, list(members), rules):
            unneeded = find_unneeded(self._dry_run(), candidates, state.unneeded)
        state.unneeded = {name: state.unneeded.get(name, now) for name in unneeded}
        names = leaving(unneeded, state, rules, now, self._spare(members), members)
        return self._remove(names, members, "unneeded")

    def _consolidate(self, members: dict[str, str], now: float) -> bool:
        rules = self.spec.consolidation
        assert rules is not None
        after = float(rules.consolidate_after)
        quiet = {name: group for name, group in members.items() if self.state.pods[name][1] + after <= now}
        if not quiet:
            return False
        sizes = self._sizes(members)
        consolidator = Consolidator(
            self._dry_run(), rules, self.spec.node_groups, self._spare(members), sizes
        )
        command = consolidator.find(quiet)
        return command is not None and self._carry_out(command, members, now)

    def _carry_out(self, command: Command, members: dict[str, str], now: float) -> bool:
        if command.group is None:
            return self._remove(command.nodes, members, command.reason)
        (new,) = self._request(command.group, 1, now, f"replaces {len(command.nodes)}")
        self.state.replacements.append(Replacement(new, command.nodes))
        for name in command.nodes:
            self._replayer.scheduler.taint(name, DISRUPTED)
        return True

    def _replace(self) -> None:
        """Remove the nodes whose replacement has joined."""
        members = self._members()
        done = [one for one in self.state.replacements if one.new in members]
        self.state.replacements = [one for one in self.state.replacements if one.new not in members]
        for one in done:
            names = [name for name in one.nodes if name in members]
            self._remove(names, members, "Underutilized")
            for name in names:
                if self._replayer.scheduler.cache.state.find_row(name) is not None:
                    self._replayer.scheduler.taint(name, f"{DISRUPTED}-")

    def _remove(self, names: list[str], members: dict[str, str], why: str) -> bool:
        """Remove nodes; those that keep a pod stay."""
        replayer = self._replayer
        gone = [name for name in names if replayer.retire_node(name)]
        for group, count in Counter(members[name] for name in gone).items():
            replayer.recorder.scalings.append((replayer.clock.now, "remove", group, count, why))
        for name in gone:
            self.state.unneeded.pop(name, None)
            self.state.pods.pop(name, None)
        if gone:
            self.state.removed = replayer.clock.now
        if names:
            replayer.try_again()
        return bool(gone)
