"""Running the extension points that look at a pod alone: PreFilter and PreScore."""

from __future__ import annotations

from dataclasses import dataclass, field

from moorage._core.pod_class import Shape
from moorage._core.terms import Terms
from moorage.framework.interface import Code, Status
from moorage.framework.profile import Profile
from moorage.objects.pod import Pod


@dataclass(frozen=True, slots=True)
class PreFilterRun:
    """What PreFilter made of a pod.

    Attributes
    ----------
    rejection : Status or None
        A plugin's rejection, which speaks for all nodes.
    node_names : frozenset of str or None
        The only nodes to search.
    plugins : tuple of str
        Who narrowed the search.
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


def run_pre_filters(profile: Profile, pod: Pod, shape: Shape, terms: Terms) -> PreFilterRun:
    """PreFilter in profile order; code 3 stops at once (kube-scheduler v1.36, RunPreFilterPlugins)."""
    names: frozenset[str] | None = None
    narrowing: list[str] = []
    skipped: set[str] = set()
    for plugin in profile.pre_filters:
        answer = plugin.pre_filter(pod, shape, terms)
        if isinstance(answer, frozenset):
            names = answer if names is None else names & answer
            narrowing.append(plugin.name)
        elif answer is not None and answer.code == Code.SKIP:
            skipped.add(plugin.name)
        elif answer is not None:
            return PreFilterRun(rejection=answer, skipped=frozenset(skipped))
    return PreFilterRun(None, names, tuple(narrowing), frozenset(skipped))


def run_pre_scores(profile: Profile, pod: Pod, shape: Shape, terms: Terms) -> tuple[frozenset[str], str]:
    """PreScore in profile order: the plugins whose Score is passed over, and the error that fails a cycle."""
    skipped: set[str] = set()
    for plugin in profile.pre_scores:
        status = plugin.pre_score(pod, shape, terms)
        if status is None:
            continue
        if status.code != Code.SKIP:
            return frozenset(skipped), f'running PreScore plugin "{plugin.name}": {status.message()}'
        skipped.add(plugin.name)
    return frozenset(skipped), ""
