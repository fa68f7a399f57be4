"""The question of ``moorage compare``: what its arguments stand for, and their runs side by side."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, cast

from msgspec import structs

from moorage.cluster.verbs import BY_NAME, parse_changes
from moorage.errors import ConfigurationError, InputError, first_of, located, nearest
from moorage.grouped import grouped
from moorage.kube import Cluster, Node, Object, Pod
from moorage.kube.model.workload import TEMPLATED
from moorage.kube.read.files import is_input
from moorage.kube.read.read_objects import read_objects
from moorage.notes import RoutineNote, reworded

from .changed_objects import ObjectChanges, object_changes
from .comparison import (
    AS_IS,
    KUBERNETES,
    Alternative,
    ComparisonAnswer,
    Side,
    compare_releases,
    without_bindings,
)
from .loaded_cluster import PreparedInput, SchedulerSettings, begin
from .new_node_settings import NewNodeSettings
from .simulation import SILENCE, Progress, SimulationSetup

if TYPE_CHECKING:
    from moorage.kube import NodePool

    from .coming_nodes import ComingNodes

CONFIGURATION = b"KubeSchedulerConfiguration"
NODE_GROUPS = re.compile(rb"^nodeGroups:", re.MULTILINE)


@dataclass(frozen=True)
class ComparedInputs:
    """What alternatives are run over.

    Attributes
    ----------
    load : callable
        Returns the cluster of the input and of a file that changes it, "" for none.
    load_alone : callable
        Returns the cluster of a file.
    has_input : bool
        Whether there is an input that a file can change.
    configured : callable
        Returns them with the configuration of a file.
    coming : callable
        Returns with what nodes come in a cluster.
    recursive : bool
        Whether directories are read with those inside them.
    """

    load: Callable[[str], Cluster]
    load_alone: Callable[[str], Cluster]
    has_input: bool
    scheduler: SchedulerSettings
    configured: Callable[[str], SchedulerSettings]
    nodes: NewNodeSettings
    coming: Callable[[NewNodeSettings, Cluster], ComingNodes | None]
    recursive: bool = False
    prepared: Iterable[PreparedInput] = ()

    def run(self, name: str, from_scratch: bool) -> Alternative:
        """Run what an argument of ``moorage compare`` stands for.

        Parameters
        ----------
        name : str
            ``as-is``, changes such as ``drain n1; scale deploy/web=4``, a file with a
            KubeSchedulerConfiguration, a file or directory with a cluster, one without nodes or with nodes
            alone, which changes the cluster, or one with node groups.
        from_scratch : bool
            Whether bound pods are placed anew.

        Raises
        ------
        InputError
            The file or a change is not valid.
        """
        changes = [] if name == AS_IS else parse_changes(name)
        is_file, nodes = name != AS_IS and not changes, self.nodes
        head = _head_of(name) if is_file else b""
        is_configuration = CONFIGURATION in head
        if is_file and not is_configuration and not is_input(name):
            raise InputError(f"no such file, {_other_forms(name)}", source=name)
        has_groups = not is_configuration and NODE_GROUPS.search(head) is not None
        if has_groups:
            nodes = structs.replace(nodes, node_groups=name)
        is_cluster = is_file and not (is_configuration or has_groups)
        cluster = self._cluster(name) if is_cluster else self.load("")
        nodes.refuse_no_node(cluster, name if is_cluster else "-f")
        settings = self.scheduler.of(cluster)
        if is_configuration:
            with located(source=name):
                try:
                    settings = self.configured(name).with_gates(settings["feature_gates"])
                except ConfigurationError as error:
                    raise error.located() from None
        coming = self.coming(nodes, cluster)
        if from_scratch:
            cluster = without_bindings(cluster)
        loaded = begin(cluster, settings, changes=changes, prepared=self.prepared)
        return Alternative(name, SimulationSetup(cluster, settings, changes, coming, loaded).run())

    def _cluster(self, name: str) -> Cluster:
        """Return the cluster of a file; one without nodes, or that nothing runs on, changes the input."""
        try:
            cluster = self.load_alone(name)
            if not self.has_input:
                return cluster
            if _is_cluster([*cluster.nodes, *cluster.pods, *cluster.others]):
                own = (
                    "has nodes and what runs there, so it is a cluster by itself, and no change of that of -f"
                )
                cluster.warnings.append(f"{name} {own}.")
                return cluster
        except InputError:
            if not self.has_input or _is_cluster(
                read_objects(name, recursive=self.recursive, validate="ignore").objects
            ):
                raise
        return self.load(name)


def compare_alternatives(
    inputs: ComparedInputs, names: Sequence[str], from_scratch: bool = False, stages: Progress = SILENCE
) -> ComparisonAnswer:
    """Return the runs of what arguments of ``moorage compare`` stand for.

    Raises
    ------
    InputError
        There are less than two, or one is not valid.
    """
    if len(names) < 2:
        raise InputError("give at least two alternatives")
    runs = list[Alternative]()
    for name in names:
        runs.append(inputs.run(name, from_scratch))
        stages()
    return ComparisonAnswer(runs, _warnings(runs), objects=_object_changes(runs))


def _object_changes(runs: Sequence[Alternative]) -> ObjectChanges | None:
    """Return what differs between the objects of two runs; None where these are not two clusters."""
    if len(runs) != 2 or any(run.simulation.setup.changes for run in runs):
        return None
    first, last = (run.simulation for run in runs)
    changes = object_changes((first.cluster, last.cluster), (first.scheduler, last.scheduler))
    return changes if changes.fields else None


def compare_two_releases(
    sides: tuple[Side, Side],
    cluster: Cluster,
    scheduler: SchedulerSettings,
    nodes: NewNodeSettings,
    from_scratch: bool = False,
    stages: Progress = SILENCE,
) -> ComparisonAnswer:
    """Return the runs of two releases, and what makes the differences; see `compare_releases`."""
    releases = compare_releases(sides, cluster, scheduler, (), from_scratch, stages)
    runs = [releases.before, releases.after]
    none = nodes.makes_none(cluster, "a comparison of releases")
    return ComparisonAnswer(runs, [*_warnings(runs), *none], releases)


def _warnings(alternatives: Sequence[Alternative]) -> list[str]:
    """Return the warnings of all alternatives. Those that only some have begin with the names of these, but
    for a change, which they name anyway."""
    by_text = grouped(
        (text, run.name) for run in alternatives for text in dict.fromkeys(run.simulation.warnings())
    )
    warnings = [
        text
        if len(names) == len(alternatives) or names[0] in text
        else reworded(text, f"{', '.join(dict.fromkeys(names))}: {text}")
        for text, names in by_text.items()
    ]
    grown = [run.simulation.scale_up for run in alternatives if run.simulation.scale_up is not None]
    makers = {scale_up.source: "; ".join(scale_up.coming.makers) for scale_up in grown}
    warnings += (RoutineNote(text, short) for text, short in makers.items())
    return [*warnings, *_differing_disruption([run.simulation.cluster for run in alternatives])]


def _differing_disruption(clusters: Sequence[Cluster]) -> Iterator[str]:
    """Yield that clusters whose NodePools differ in when nodes go are not told apart by a run."""
    listed = chain.from_iterable(cluster.others for cluster in clusters)
    pools = (cast("NodePool", obj) for obj in listed if obj.kind == "NodePool")
    rules = grouped((pool.name, pool.spec.disruption) for pool in pools)
    names = [
        name
        for name, disruptions in rules.items()
        if any(disruption != disruptions[0] for disruption in disruptions)
    ]
    if names:
        yield (
            f"The disruption of NodePool {first_of(names, 3)} differs, but no node goes in a comparison: ask "
            "plan consolidate with each, or sweep over a replay (docs/karpenter.md)."
        )


def _is_cluster(objects: Sequence[Object]) -> bool:
    """Whether objects are a cluster: nodes, and pods or workloads."""
    runs = any(isinstance(obj, (Pod, *TEMPLATED)) for obj in objects)
    return runs and any(isinstance(obj, Node) for obj in objects)


def _other_forms(name: str) -> str:
    """Return what an error adds about what else an alternative may be."""
    word = name.split()[0] if name.strip() else ""
    if word in BY_NAME and BY_NAME[word].words:
        return f"and the change {word} is written {word} {BY_NAME[word].metavar}"
    known = [AS_IS, KUBERNETES, *BY_NAME]
    forms = f"and not {AS_IS}, a change such as 'drain n1', or a release such as 'kubernetes 1.36'"
    return forms + nearest(word, known)


def _head_of(name: str) -> bytes:
    """The first bytes of a file; none of a directory, and of what the reader of clusters refuses."""
    try:
        with open(name, "rb") as file:
            return file.read(1 << 16)
    except (OSError, ValueError):
        return b""
