"""What each in-tree plugin says of a pod in its signature, and when a pod has none (kube-scheduler v1.36)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doors.engine import PodGates
from tests.make import Json, container, in_tree, pod, port

import moorage.engine.framework as fwk
from moorage import default_profile
from moorage.engine.cache import SchedulerCache
from moorage.engine.framework import Code, Framework, FrameworkHandle, Status
from moorage.engine.scheduler import Profile
from moorage.kube import Pod
from moorage.store import ObjectStore

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
PodTopologySpread, InterPodAffinity = in_tree("PodTopologySpread"), in_tree("InterPodAffinity")
LISTED = PodTopologySpread({"defaultingType": "List"})


def framework(*plugins: Any, pod_level: bool = True, without: tuple[str, ...] = ()) -> Framework:
    """Over the default profile without default constraints and with these plugins, in place of those of the
    same names."""
    given = {plugin.name: plugin for plugin in (*default_profile().plugins, LISTED, *plugins)}
    kept = tuple(plugin for name, plugin in given.items() if name not in without)
    cache = SchedulerCache(gates=PodGates(pod_level))
    for plugin in kept:
        plugin.handle = None
    return Framework(Profile(kept), FrameworkHandle(cache, ObjectStore()))


def signature(one: Pod, *plugins: Any, **settings: Any) -> bytes | None:
    return framework(*plugins, **settings).sign_pod(one)


def affine(*terms: Json, preferred: tuple[tuple[int, Json], ...] = ()) -> Json:
    listed = [{"weight": weight, "preference": term} for weight, term in preferred]
    required = {REQUIRED: {"nodeSelectorTerms": list(terms)}} if terms else {}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": listed} | required}


def term(*requirements: tuple[str, str, list[str]], field: str = "matchExpressions") -> Json:
    return {field: [{"key": key, "operator": of, "values": values} for key, of, values in requirements]}


A, B = term(("a", "In", ["x", "y"]), ("b", "Exists", [])), term(("b", "Exists", []))
ALMOST_A = term(("b", "Exists", []), ("a", "In", ["y", "x"]))
ON_A, ON_B = (term(("metadata.name", "In", [name]), field="matchFields") for name in "ab")
CLAIM = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
INIT = {"init_containers": [container("i", ports=(port(80),))]}
DISK = {"name": "v", "gcePersistentDisk": {"pdName": "d"}}


@pytest.mark.parametrize(
    ("spec", "other"),
    [
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}),
        ({"requests": {"memory": "1Gi"}}, {"requests": {"memory": "2Gi"}}),
        ({"requests": {"ephemeral-storage": "1"}}, {}),
        ({"requests": {"example.com/gpu": "0"}}, {}),
        ({"containers": (container(image="a"),)}, {"containers": (container(image="b"),)}),
        ({"ports": [port(80)]}, {"ports": [port(81)]}),
        ({"ports": [port(80)]}, {}),
        (INIT, {"init_containers": (container("i"),)}),
        ({"labels": {"a": "x"}}, {"labels": {"a": "y"}}),
        ({"node_selector": {"a": "x"}}, {"node_selector": {"a": "y"}}),
        ({"node_selector": {}}, {"node_selector": None}),
        ({"affinity": affine(A)}, {"affinity": affine(B)}),
        ({"affinity": affine(A, B)}, {"affinity": affine(A)}),
        ({"affinity": affine(preferred=((1, A),))}, {"affinity": affine(preferred=((2, A),))}),
        ({"affinity": affine(preferred=((1, A),))}, {"affinity": affine(A)}),
        ({"affinity": affine(ON_A)}, {"affinity": affine(ON_B)}),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}),
        ({"tolerations": [{"key": "a", "tolerationSeconds": 1}]}, {"tolerations": [{"key": "a"}]}),
        ({"volumes": [CLAIM]}, {}),
        ({"volumes": [DISK]}, {"volumes": [CLAIM]}),
        ({"scheduler_name": "x"}, {"scheduler_name": "y"}),
        ({"on": "a"}, {"on": "b"}),
    ],
)
def test_what_a_decision_depends_on_is_signed(spec: dict[str, Any], other: dict[str, Any]) -> None:
    one = framework()
    assert one.sign_pod(pod("p", **spec)) == one.sign_pod(pod("q", **spec)) is not None
    assert one.sign_pod(pod("p", **spec)) != one.sign_pod(pod("p", **other))


@pytest.mark.parametrize(
    ("spec", "other"),
    [
        ({"priority": 1}, {"priority": 2}),
        ({"owner": "o"}, {}),
        ({"ports": [port(80, "10.0.0.1", "UDP")]}, {"ports": [port(80)]}),
        ({"affinity": affine(A, B)}, {"affinity": affine(B, ALMOST_A)}),
        (
            {"affinity": affine(preferred=((1, A), (2, B)))},
            {"affinity": affine(preferred=((2, B), (1, ALMOST_A)))},
        ),
        ({"affinity": {"nodeAffinity": {REQUIRED: {}}}}, {"affinity": {"nodeAffinity": {}}}),
        ({"tolerations": [{"key": "b"}, {"key": "a"}]}, {"tolerations": [{"key": "a"}, {"key": "b"}]}),
        ({"volumes": [CLAIM, {"name": "config"}]}, {"volumes": [{"name": "other"}, CLAIM]}),
        (
            {"containers": (container("a", image="i"), container("b", image="i"))},
            {"containers": (container("a", image="i:latest"),)},
        ),
        ({"labels": {"a": "x", "b": "y"}}, {"labels": {"b": "y", "a": "x"}}),
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "1000m"}}),
    ],
)
def test_what_upstream_does_not_tell_apart_is_signed_alike(
    spec: dict[str, Any], other: dict[str, Any]
) -> None:
    assert signature(pod("p", **spec)) == signature(pod("q", **other)) is not None


@pytest.mark.parametrize(
    "spec",
    [
        {"topologySpreadConstraints": [SPREAD]},
        {"affinity": {"podAffinity": {}}},
        {"affinity": {"podAntiAffinity": {}}},
        {"resourceClaims": [{"name": "c"}]},
    ],
)
def test_pods_that_look_at_other_pods_are_not_signed(spec: dict[str, Any]) -> None:
    assert signature(pod("p", **spec)) is None


@pytest.mark.parametrize(
    ("args", "signed"),
    [
        ({}, False),
        ({"defaultingType": "List"}, True),
        (
            {
                "defaultingType": "List",
                "defaultConstraints": (SPREAD,),
            },
            False,
        ),
    ],
)
def test_default_constraints_sign_no_pod(args: dict[str, Any], signed: bool) -> None:
    one = framework(PodTopologySpread(args))
    assert bool(one.signer.plugins) == signed
    assert (one.sign_pod(pod("p")) is not None) == signed


def test_the_default_profile_signs_no_pod_and_one_without_the_plugin_does() -> None:
    assert signature(pod("p"), PodTopologySpread()) is None
    assert signature(pod("p"), without=("PodTopologySpread",)) is not None


def test_labels_do_not_count_where_preferred_terms_of_others_are_ignored() -> None:
    ignoring = InterPodAffinity({"ignorePreferredTermsOfExistingPods": True})
    one = framework(ignoring)
    assert one.sign_pod(pod("p", labels={"a": "x"})) == one.sign_pod(pod("p")) is not None


@pytest.mark.parametrize("pod_level", [True, False])
def test_pod_level_resources_count_where_their_gate_is_on(pod_level: bool) -> None:
    one = framework(pod_level=pod_level)
    spec = {"resources": {"requests": {"cpu": "2"}}}
    assert (one.sign_pod(pod("p", **spec)) != one.sign_pod(pod("p"))) == pod_level


def test_a_resize_in_progress_is_not_signed() -> None:
    """As upstream has it: a signature holds what must be free, by the spec alone."""
    one, waiting = framework(), pod("p", requests={"cpu": "1"})
    held = {"name": "c", "resources": {"requests": {"cpu": "2"}}}
    resized = pod("p", requests={"cpu": "1"}, status={"containerStatuses": [held]})
    assert one.sign_pod(resized) == one.sign_pod(waiting) is not None


# ---- plugins of others


class Filters(fwk.FilterPlugin):
    name, filter_all = "Filters", None  # which nobody calls here


class Signs(fwk.FilterPlugin, fwk.ScorePlugin, fwk.SignPlugin):
    """Answers what a test wants, and counts."""

    name, filter_all, score_all = "Signs", None, None

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer
        self.asked = 0

    def sign_pod(self, pod: Pod) -> Any:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class PostFilters(fwk.PostFilterPlugin):
    name = "PostFilters"


def test_a_plugin_without_a_rule_signs_no_pod_where_it_filters_or_scores() -> None:
    assert signature(pod("p"), Filters()) is None
    assert signature(pod("p"), PostFilters()) is not None


@pytest.mark.parametrize(
    ("answer", "signed"),
    [
        (None, True),
        ({"x": [1]}, True),
        (Status(Code.SUCCESS), True),
        (Status(Code.UNSCHEDULABLE), False),
        (Status(Code.ERROR, ("no",)), False),
        (ValueError("no"), False),
        ({"x": object()}, False),
        ("x", False),
    ],
)
def test_what_a_plugin_answers(answer: Any, signed: bool) -> None:
    assert (signature(pod("p"), Signs(answer)) is not None) == signed


def test_a_plugin_is_asked_once_and_its_part_counts() -> None:
    plugin = Signs({"x": 1})
    one = framework(plugin)
    first = one.sign_pod(pod("p"))
    assert plugin.asked == 1
    plugin.answer = {"x": 2}
    assert one.sign_pod(pod("p")) != first


def test_remembered_signatures_tell_volumes_apart() -> None:
    one = framework()
    disks = [pod("p", volumes=[{"azureDisk": {"diskURI": name}}]) for name in "aab"]
    first, again, other = map(one.sign_pod, disks)
    assert first == again
    assert None not in (first, other)
    assert first != other


def test_signatures_of_in_tree_plugins_are_remembered_within_bounds() -> None:
    """Bytes that are the same object are remembered ones."""
    one, kinds = framework(), [pod("p", labels={"at": str(at)}) for at in range(5000)]
    first = one.sign_pod(kinds[0])
    assert one.sign_pod(kinds[1]) != first
    assert one.sign_pod(kinds[0]) is first
    signatures = [one.sign_pod(each) for each in kinds]
    assert len({*signatures}) == len(kinds)
    again = one.sign_pod(kinds[0])
    assert again == first == framework().sign_pod(kinds[0])
    assert again is not first


class OfNamespace(Signs):
    """Signs the namespace."""

    in_core = True

    def sign_pod(self, pod: Pod) -> Any:
        return {"namespace": pod.metadata.namespace}


def test_pods_of_two_namespaces_have_signatures_of_their_own() -> None:
    one = framework(OfNamespace(None))
    assert one.sign_pod(pod("p")) != one.sign_pod(pod("elsewhere/p"))
