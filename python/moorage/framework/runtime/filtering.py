"""Running PreFilter, Filter and PostFilter (kube-scheduler v1.36, framework/runtime/framework.go)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moorage.framework.plugin.cycle_state import CycleState
from moorage.framework.plugin.interface import (
    FilterPlugin,
    NominatingInfo,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterPlugin,
    PreFilterResult,
)
from moorage.framework.plugin.nodes_view import NodesView
from moorage.framework.plugin.nominator import PodNominator, going_before
from moorage.framework.plugin.status import (
    Code,
    Status,
    as_status,
    error_status,
    is_success,
)
from moorage.framework.profiles.in_core import NativePlugin
from moorage.objects.model.pod import Pod

from .call import StatusError, ask, ask_status, wrong_answer
from .kernels import Kernels, place_of, rejection

if TYPE_CHECKING:
    from moorage.cache import NodeInfo, NodeInfoClone
    from moorage.framework.plugin.nodes_view import AnyNodeInfo


@dataclass(frozen=True, slots=True)
class PreFilterRun:
    """What PreFilter made of a pod.

    Attributes
    ----------
    rejection : Status or None
        A rejection, which speaks for all nodes, or an Error.
    node_names : frozenset of str or None
        The only nodes to search.
    plugins : tuple of str
        Who narrowed the search, sorted.
    skipped : frozenset of str
        Plugins whose Filter is passed over.
    """

    rejection: Status | None = None
    node_names: frozenset[str] | None = None
    plugins: tuple[str, ...] = ()
    skipped: frozenset[str] = field(default_factory=frozenset)

    @property
    def absent(self) -> Status | None:
        """The status of nodes outside `node_names`."""
        if self.node_names is None:
            return None
        text = f"node(s) didn't satisfy plugin(s) [{' '.join(self.plugins)}]"
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))

    @property
    def error(self) -> str:
        """Text of the Error that fails the cycle, or ""."""
        failed = self.rejection is not None and not self.rejection.is_rejected
        return self.rejection.message() if failed and self.rejection is not None else ""


def run_pre_filters(
    plugins: Sequence[PreFilterPlugin],
    state: CycleState,
    pod: Pod,
    nodes: NodesView,
    skipping: Sequence[tuple[int, str]] = (),
) -> PreFilterRun:
    """PreFilter in profile order. Code 3 and errors stop at once; after code 2 the others run too, and the
    last one stands. Nothing left of narrowed node sets is a rejection without a plugin. `skipping` names
    plugins that are not asked, since they always answer Skip, each with the number of `plugins` before it."""
    names: PreFilterResult | None = None
    narrowing: set[str] = set()
    rejection: Status | None = None
    state.skip_filter_plugins = skipped = set()
    stop: Status | None = None
    at_fault: tuple[str, ...] = ()
    for at, plugin in enumerate(plugins, 1):
        result, status = _pre_filter(plugin, state, pod, nodes)
        code = Code.SUCCESS if status is None else status.code
        if code == Code.SKIP:
            skipped.add(plugin.name)
        elif status is not None and code == Code.UNSCHEDULABLE:
            rejection = status.with_plugin(plugin.name)
        elif status is not None and code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            stop = status.with_plugin(plugin.name)
        elif status is not None and code != Code.SUCCESS:
            stop = error_status(f'running PreFilter plugin "{plugin.name}"', status, plugin.name)
        elif result is not None and not result.all_nodes():
            narrowing.add(plugin.name)
            names = result.merge(names)
            if names is not None and not names.node_names:
                at_fault = tuple(sorted(narrowing))
                stop = _nothing_left(at_fault)
        if stop is not None:
            skipped.update([name for before, name in skipping if before < at])
            return PreFilterRun(stop, plugins=at_fault, skipped=frozenset(skipped))
    skipped.update([name for _, name in skipping])
    left = None if names is None else names.node_names
    return PreFilterRun(rejection, left, tuple(sorted(narrowing)), frozenset(skipped))


def _pre_filter(
    plugin: PreFilterPlugin, state: CycleState, pod: Pod, nodes: NodesView
) -> tuple[PreFilterResult | None, Status | None]:
    try:
        answer = ask(plugin, pod, plugin.pre_filter, state, pod, nodes)
    except StatusError as error:
        return None, error.status
    if isinstance(answer, PreFilterResult):
        return answer, None
    if answer is None or isinstance(answer, Status):
        return None, answer
    return None, wrong_answer(plugin, answer, "a PreFilterResult or a Status")


def _nothing_left(plugins: Sequence[str]) -> Status:
    who = f"plugin {plugins[0]}" if len(plugins) == 1 else f"plugin(s) [{' '.join(plugins)}] simultaneously"
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (f"node(s) didn't satisfy {who}",))


def run_filters(
    plugins: Sequence[FilterPlugin],
    state: CycleState,
    pod: Pod,
    node_info: AnyNodeInfo,
    kernels: Kernels | None = None,
) -> Status | None:
    """Filter on one node: the first rejection or error. Where `plugins` are those of the kernels' plan, all
    native ones are asked in one go when the first of them has its turn."""
    verdict: int | None = None
    for at, plugin in enumerate(plugins):
        if plugin.name in state.skip_filter_plugins:
            continue
        if kernels is None or not isinstance(plugin, NativePlugin):
            status = filter_status(plugin, ask_status(plugin, pod, plugin.filter, state, pod, node_info))
            if status is not None:
                return status
            continue
        if verdict is None:
            try:
                verdict = ask(plugin, pod, kernels.verdict, _natives(plugins, state), state, node_info)
            except StatusError as error:
                return filter_status(plugin, error.status)
        if place_of(verdict) == at:
            return rejection(plugin, state, verdict)
    return None


def _natives(plugins: Sequence[FilterPlugin], state: CycleState) -> int:
    """The native plugins that PreFilter did not pass over, as bits by their place."""
    asked = 0
    for at, plugin in enumerate(plugins):
        if isinstance(plugin, NativePlugin) and plugin.name not in state.skip_filter_plugins:
            asked |= 1 << at
    return asked


def filter_status(plugin: FilterPlugin, status: Status | None) -> Status | None:
    """What a Filter plugin answered, as the runtime passes it on: None, a rejection, or an Error."""
    if is_success(status) or status is None:
        return None
    if not status.is_rejected:
        return error_status(f'running "{plugin.name}" filter plugin', status, plugin.name)
    return status.with_plugin(plugin.name)


def run_pod_change(
    plugins: Sequence[PreFilterPlugin],
    state: CycleState,
    pod: Pod,
    other: Pod,
    node_info: AnyNodeInfo,
    adds: bool,
) -> Status | None:
    """AddPod or RemovePod of the PreFilter extensions; anything but Success is an Error."""
    for plugin in plugins:
        if plugin.name in state.skip_filter_plugins:
            continue
        extensions = plugin.pre_filter_extensions()
        if extensions is None:
            continue
        change = extensions.add_pod if adds else extensions.remove_pod
        status = ask_status(plugin, pod, change, state, pod, other, node_info)
        if status is not None and not status.is_success:
            what = "AddPod" if adds else "RemovePod"
            return error_status(f'running {what} on PreFilter plugin "{plugin.name}"', status)
    return None


def run_filters_with_nominated_pods(
    filters: Sequence[FilterPlugin],
    pre_filters: Sequence[PreFilterPlugin],
    nominator: PodNominator,
    state: CycleState,
    pod: Pod,
    node_info: NodeInfo | NodeInfoClone,
    kernels: Kernels | None = None,
) -> Status | None:
    """Filter on one node: with the pods of at least this priority that are nominated there, then without.

    The second pass is left out where there are none or where the first one failed."""
    nominated = going_before(pod, nominator.nominated_pods_for_node(node_info.name))
    if nominated:
        with_them, changed = node_info.clone(), state.clone()
        for other in nominated:
            with_them.add_pod(other)
            status = run_pod_change(pre_filters, changed, pod, other, with_them, adds=True)
            if status is not None:
                return status
        status = run_filters(filters, changed, pod, with_them, kernels)
        if status is not None:
            return status
    return run_filters(filters, state, pod, node_info, kernels)


def run_post_filters(
    plugins: Sequence[PostFilterPlugin], state: CycleState, pod: Pod, statuses: Mapping[str, Status]
) -> tuple[PostFilterResult | None, Status | None]:
    """PostFilter in profile order, until one succeeds, says that nothing helps (code 3), or errs."""
    if state.skip_all_post_filter_plugins:
        return None, Status(Code.UNSCHEDULABLE, ("All PostFilter plugins are skipped",))
    reasons: list[str] = []
    rejector, last = "", None
    for plugin in plugins:
        result, status = _post_filter(plugin, state, pod, statuses)
        if status is None or status.is_success:
            return result, status
        if status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return result, status.with_plugin(plugin.name)
        if not status.is_rejected:
            err = status.as_error()
            failed = as_status(err) or Status(Code.ERROR, status.reasons or (str(status.code),))
            return None, failed.with_plugin(plugin.name)
        if result is not None and not result.noop:
            last = result
        reasons.extend(status.reasons)
        rejector = rejector or plugin.name
    return last, Status(Code.UNSCHEDULABLE, tuple(reasons), rejector)


def _post_filter(
    plugin: PostFilterPlugin, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
) -> tuple[PostFilterResult | None, Status | None]:
    try:
        answer = ask(plugin, pod, plugin.post_filter, state, pod, statuses)
    except StatusError as error:
        return None, error.status
    match answer:
        case (None | NominatingInfo() as result, None | Status() as status):
            return result, status
        case _:
            return None, wrong_answer(plugin, answer, "(PostFilterResult, Status)")
