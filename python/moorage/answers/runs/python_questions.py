"""`check`, `simulate` and `compare`: the questions of commands, as Python asks them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from moorage.cluster.verbs import ALLOWABLE, BY_NAME, RequestedChange
from moorage.errors import InputError, located, nearest
from moorage.kube import Cluster
from moorage.kube.read.deciding_release import deciding_release
from moorage.kube.read.load import load_before_and_after
from moorage.kube.read.python_values import Source, is_path
from moorage.kube.releases import release_named

from .alternatives import ComparedInputs, compare_alternatives, compare_two_releases
from .check_answer import CheckAnswer
from .check_question import CheckQuestion, LossQuestion, releases_of_upgrade
from .comparison import ComparisonAnswer, releases_named
from .loaded_cluster import SchedulerSettings, ServerChecks
from .new_node_settings import NewNodeSettings
from .simulation import SimulationSetup
from .simulation_answer import SimulationAnswer, shows, simulation_answer

if TYPE_CHECKING:
    from .coming_nodes import ComingNodes

_OF_LOSSES = {"survive_only": "only", "within_budgets": "within_budgets", "at_once": "at_once"}
_OF_LOSSES |= {"time_limit": "seconds"}
_OF_SCHEDULER = {"config": "config", "registry": "registry", "kubernetes_version": "version", "seed": "seed"}
_OF_SCHEDULER |= {"tie_break": "tie_break", "percentage_of_nodes_to_score": "percentage"}
_OF_SCHEDULER |= {"pod_times": "pod_times"}
_OF_CHECK = ("new_only", "allow", "survive", *_OF_LOSSES, "upgrade_from")


class _Options:
    """The keyword arguments of a question.

    Parameters
    ----------
    own : collection of str
        Those of the question alone.
    """

    def __init__(self, question: str, given: dict[str, Any], own: Collection[str] = ()) -> None:
        self.own = {name: value for name, value in given.items() if name in own}
        values = {field: given[name] for name, field in _OF_SCHEDULER.items() if name in given}
        if (version := values.get("version")) is not None:
            with located(ValueError):
                values["version"] = release_named(version).version
        gates = (f"{name}={str(on).lower()}" for name, on in given.get("feature_gates", {}).items())
        self.scheduler = SchedulerSettings(gates=",".join(gates), **values)
        of_nodes = {name: given[name] for name in NewNodeSettings.__struct_fields__ if name in given}
        for name in ("instance_types", "unavailable"):
            if isinstance(of_nodes.get(name), str):
                of_nodes[name] = (of_nodes[name],)
        self.nodes = NewNodeSettings(**of_nodes)
        known = [*own, *_OF_SCHEDULER, "feature_gates", *NewNodeSettings.__struct_fields__]
        self.changes = [*_changes(question, {n: v for n, v in given.items() if n not in known}, known)]

    def load(self, cluster: Cluster | Source, *change: Source) -> tuple[Cluster, Cluster]:
        """Return a cluster before and after further sources, with the releases that decide."""
        if isinstance(cluster, Cluster) and not change:
            before = after = cluster
        else:
            checks = ServerChecks(self.scheduler.version, self.scheduler.gates)
            first = cluster.to_dict() if isinstance(cluster, Cluster) else cluster
            before, after = load_before_and_after(first, *change, check=checks)
            after.warnings += checks.warnings
        for each in (before, after):
            each.release = deciding_release(each, self.scheduler.version)
        return before, after

    def coming(self, nodes: NewNodeSettings, cluster: Cluster) -> ComingNodes | None:
        """Return with what nodes come in a cluster."""
        coming = nodes.coming(cluster, self.scheduler.seed)
        for name in nodes.given if coming is None else ():
            raise InputError(f"{name} has no effect: the input has no NodePool, or no node is to come")
        return coming


def _changes(question: str, options: dict[str, Any], known: Collection[str]) -> Iterator[RequestedChange]:
    """Yield the changes of options with the names of verbs."""
    for name, value in options.items():
        verb = BY_NAME.get(name.replace("_", "-"))
        if verb is None:
            verbs = (each.replace("-", "_") for each in BY_NAME)
            raise InputError(f"{question} has no option {name}{nearest(name, [*verbs, *known])}")
        if not verb.words:
            yield from [RequestedChange(f"--{verb.name}", ())] * bool(value)
            continue
        listed = value if isinstance(value, list) else [value]
        for words in listed:
            given = tuple(map(str, words)) if isinstance(words, tuple) else (words,)
            if len(given) != verb.words or not all(isinstance(word, str) for word in given):
                raise InputError(f"{name} takes {verb.metavar}, not {words!r}")
            yield RequestedChange(f"--{verb.name}", given)


def check(cluster: Cluster | Source, *change: Source, **options: Any) -> CheckAnswer:
    """Check that every pod that should run has a node, as ``moorage check`` does.

    Parameters
    ----------
    cluster : Cluster or source
        A cluster, or what `load` reads.
    *change : source
        Files or objects that change the cluster.
    **options
        Changes by the names of the verbs, made in this order after the files: ``drain="pool=old"``,
        ``scale=["deploy/web=4", "deploy/api=2"]``, ``taint=("n1", "a=b:NoSchedule")``, ``restart_all=True``.
        new_only, allow, survive, survive_only, within_budgets, at_once, time_limit (in seconds) and
        upgrade_from are those of the command; instance_types, node_groups, group_sizes, unavailable,
        preference_policy, ignore_dra_requests, seeds and autoscale say which nodes come, as there; and
        kubernetes_version, feature_gates, config, registry, seed, tie_break, percentage_of_nodes_to_score and
        pod_times are those of the scheduler.

    Returns
    -------
    CheckAnswer
        False if the gate fails; its text is the table of the command, and its document ``-o json``.

    Raises
    ------
    InputError
        A source or a change is not valid, or there is no such option.
    """
    question = _Options("check", options, _OF_CHECK)
    own = question.own
    allowed, earlier, losses = own.get("allow", ()), own.get("upgrade_from"), None
    allowed = (allowed,) if isinstance(allowed, str) else tuple(allowed)
    for problem in allowed:
        if problem not in ALLOWABLE:
            raise InputError(f"must be some of {', '.join(ALLOWABLE)}, not {problem!r}", path="allow")
    more = {field: own[name] for name, field in _OF_LOSSES.items() if name in own}
    if (by := own.get("survive")) is not None:
        if not isinstance(by, str):
            raise InputError(f'survive takes "node", "zone" or a label of nodes, not {by!r}')
        losses = LossQuestion(by, grows=options.get("autoscale", False), **more)
    elif more:
        raise InputError(f"{next(name for name in _OF_LOSSES if name in own)} needs survive")
    before, after = question.load(cluster, *change)
    question.nodes.refuse_no_node(after)
    assert after.release is not None
    if earlier is not None:
        with located(ValueError):
            earlier = release_named(earlier, "upgrade_from").version
        earlier = releases_of_upgrade(earlier, after.release)
    return CheckQuestion(
        before,
        after,
        question.scheduler,
        [str(source) if is_path(source) else "objects" for source in change],
        question.changes,
        None if earlier else question.coming(question.nodes, after),
        new_only=own.get("new_only", False),
        allowed=allowed,
        releases=earlier,
        losses=losses,
        knows_times="pod_times" in options,
        nodes=question.nodes,
    ).answer()


def simulate(
    cluster: Cluster | Source,
    *change: Source,
    namespace: str | None = None,
    selector: str = "",
    **options: Any,
) -> SimulationAnswer:
    """Schedule all pending pods, as ``moorage simulate`` does, and say where they are, or why nowhere.

    Parameters
    ----------
    cluster, *change
        As for `check`.
    namespace : str, optional
        The answer has its pods alone.
    selector : str, optional
        The answer has pods with these labels alone, in kubectl's syntax.
    **options
        Changes, and what is said of new nodes and of the scheduler, as for `check`.

    Returns
    -------
    SimulationAnswer
        Its text is the table of the command, and its document ``-o json``.

    Raises
    ------
    InputError
        As for `check`.
    """
    question, is_shown = _Options("simulate", options), shows(namespace, selector)
    after = question.load(cluster, *change)[1]
    question.nodes.refuse_no_node(after)
    settings, coming = question.scheduler.of(after), question.coming(question.nodes, after)
    setup = SimulationSetup(after, settings, question.changes, coming)
    return simulation_answer(setup, len(change), is_shown)


def compare(
    cluster: Cluster | Source, *alternatives: str | Path, from_scratch: bool = False, **options: Any
) -> ComparisonAnswer:
    """Compare runs, as ``moorage compare`` does: their measures, and the pods that are elsewhere.

    Parameters
    ----------
    cluster : Cluster or source
        As for `check`.
    *alternatives : str or path
        What the arguments of the command are: ``"as-is"``, changes such as
        ``"drain n1; scale deploy/web=4"``, files, or two releases (``"kubernetes 1.36"``).
    from_scratch : bool, optional
        Whether bound pods are placed anew.
    **options
        What is said of new nodes and of the scheduler, as for `check`.

    Returns
    -------
    ComparisonAnswer
        Its text is the tables of the command, and its document ``-o json``.

    Raises
    ------
    InputError
        As for `check`; or there are less than two alternatives, or one is not valid.
    """
    question, names = _Options("compare", options), [str(name) for name in alternatives]
    if question.changes:
        raise InputError(
            f"changes are alternatives of compare: {question.changes[0].text.removeprefix('--')!r}"
        )
    first = cluster.to_dict() if isinstance(cluster, Cluster) else cluster  # each run has one of its own
    scheduler = question.scheduler
    if (sides := releases_named(names)) is not None:
        if scheduler.version is not None:
            raise InputError("the alternatives name the releases", path="kubernetes_version")
        question.scheduler = structs.replace(scheduler, version=sides[1].version)
        return compare_two_releases(sides, question.load(first)[1], scheduler, question.nodes, from_scratch)
    inputs = ComparedInputs(
        lambda name: question.load(first, *filter(None, (name,)))[1],
        lambda name: question.load(name)[1],
        True,
        scheduler,
        lambda name: structs.replace(scheduler, config=name),
        question.nodes,
        question.coming,
    )
    return compare_alternatives(inputs, names, from_scratch)
