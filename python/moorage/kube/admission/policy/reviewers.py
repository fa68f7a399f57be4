"""Who else decides about requests, and cannot be asked without a cluster: webhooks, and the policies of
Kyverno and Gatekeeper. Which requests they are for follows from the input, and not what they answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from moorage.lazy import NamedTuple

from ...apiserver.unknown_fields import struct_of
from ...cel.cel_errors import CompileError, NotKnownError
from ...cel.values import of_json
from ...field_errors import Json
from ...model.admission_registration import PolicySpec, Webhook
from ...model.cluster import Cluster, NotAsked, OutsidePolicy, RequestedObject
from ...model.pod import Pod
from ...model.workload import CustomObject
from ...plain import plain
from ...workloads.kind_table import POLICY_GROUPS
from ..built_in_plugins import webhooks_that_fail_closed
from ..request import full_value
from ..stored.version_defaults import with_version_defaults
from .bound_policies import BoundPolicy
from .policy_expressions import ExpressionError, Facts
from .policy_matching import Namespaces, PolicyRequest, Reviews, is_exempt

_CONFIG = "Config.config.gatekeeper.sh"


class AskingTool(NamedTuple):
    """A command that gives the answer of somebody who decides about objects.

    Attributes
    ----------
    head, option : str
        What comes before the files with the objects, and before each of them.
    files : sequence of str
        Those that it needs beside them.
    """

    head: str
    option: str
    files: Sequence[str] = ()

    def command(self, files: Sequence[str]) -> str:
        """Return the command for the objects of some files."""
        listed = dict.fromkeys([*self.files, *files])
        return " ".join([self.head, *(f"{self.option} {file}" for file in listed)])


_VALIDATION = "APIServer", "validation"
"""What judges built-in kinds."""
_SERVER = AskingTool("kubectl apply --dry-run=server", "-f")


class Reviewer(NamedTuple):
    """Who decides about requests.

    Attributes
    ----------
    kind, namespace, name : str
        Of the object of the input.
    webhook : str
        Its name in a configuration; "" for a policy.
    reviews : callable
        Whether a request is one of those about which it decides.
    """

    kind: str
    namespace: str
    name: str
    webhook: str
    tool: AskingTool
    reviews: Reviews


class Reviewers:
    """Those of a cluster; of its webhooks, those that fail closed."""

    def __init__(self, cluster: Cluster) -> None:
        self._listed = [
            Reviewer(obj.kind, "", obj.name, webhook.name, _SERVER, reviews_of(webhook))
            for obj, webhook in webhooks_that_fail_closed(cluster.others)
            if webhook.rules
        ]
        self._listed += _policies(cluster.outside_policies) if cluster.outside_policies else ()
        self._namespaces = {each.name: plain(each) for each in cluster.namespaces} if self._listed else {}

    def not_asked(self, objects: Sequence[RequestedObject], pods: Mapping[str, Pod]) -> list[NotAsked]:
        """Return who decides about objects of a change, or about new pods.

        Parameters
        ----------
        pods : mapping of str to Pod
            New ones, by what they are called; of those of one template one is enough.
        """
        values = [(each, each.value()) for each in objects]
        requests = [(name_of(value), each.source, _requests(each, value)) for each, value in values]
        created = {name: [PolicyRequest("CREATE", full_value(pod, {}))] for name, pod in pods.items()}
        requests += [(f"pods of {name}", "", alternatives) for name, alternatives in created.items()]
        listed = []
        for reviewer in self._listed:
            sources = {
                name: source
                for name, source, alternatives in requests
                if any(reviewer.reviews(request, self._namespaces) for request in alternatives)
            }
            if sources:
                files = [*dict.fromkeys(filter(None, sources.values()))] or ["POD.yaml"]
                listed.append(NotAsked(*reviewer[:4], [*sources], reviewer.tool.command(files)))
        return listed


def schemas_not_asked(objects: Sequence[RequestedObject]) -> list[NotAsked]:
    """Return the schemas that decide about custom objects of a change, and what the API server itself decides
    by rules that are not known."""
    by_judge = defaultdict[tuple[str, str], list[tuple[str, str]]](list)
    for each in objects:
        if each.unjudged_kind:
            value = each.value()
            is_built_in = struct_of(value["kind"], value["apiVersion"])
            who = _VALIDATION if is_built_in else ("CustomResourceDefinition", each.unjudged_kind)
            by_judge[who].append((name_of(value), each.source))
    return [
        NotAsked(kind, "", name, "", [about for about, _ in its], _SERVER.command([file for _, file in its]))
        for (kind, name), its in by_judge.items()
    ]


def name_of(value: Json) -> str:
    """Return kind, namespace and name of a JSON value."""
    kind, meta = value.get("kind"), value.get("metadata") or {}
    name, namespace = meta.get("name") or meta.get("generateName") or "", meta.get("namespace")
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def _requests(obj: RequestedObject, value: Json) -> list[PolicyRequest]:
    value = with_version_defaults(value, str(value.get("kind")), str(value.get("apiVersion")))
    create, update = PolicyRequest("CREATE", value), PolicyRequest("UPDATE", value, value)
    return [create, update] if obj.is_new is None else [create if obj.is_new else update]


def reviews_of(webhook: Webhook) -> Reviews:
    """Return whether a webhook is asked about a request."""
    spec = PolicySpec(
        match_constraints=webhook.match_resources,
        match_conditions=webhook.match_conditions,
        failure_policy=webhook.failure_policy,
    )
    policy = BoundPolicy(webhook.name, spec, ())
    expressions = " ".join(condition.expression for condition in webhook.match_conditions)

    def reviews(request: PolicyRequest, namespaces: Namespaces) -> bool:
        resource = None if is_exempt(request) else policy.matcher.resource(request, namespaces)
        if resource is None or not webhook.match_conditions:
            return resource is not None
        if request.old_object is not None and "oldObject" in expressions:
            return True  # what is stored is not compared
        values = Facts(request, resource).values((of_json(request.object), of_json(request.old_object)))
        try:
            return policy.is_met(values)
        except (ExpressionError, CompileError, NotKnownError):  # which fails closed, too
            return True

    return reviews


def _policies(policies: Iterable[OutsidePolicy]) -> Iterator[Reviewer]:
    from . import outside_policies as rules  # few clusters have them

    values = [(*policy, msgspec.json.decode(policy.obj.document)) for policy in policies]
    configs = [value for obj, _, value in values if obj.full_kind == _CONFIG]
    gator = AskingTool("gator test", "-f", [source for obj, source, _ in values if _is_gatekeepers(obj)])
    for obj, source, value in values:
        if _is_gatekeepers(obj):
            reviews, tool = rules.gatekeeper_reviews(obj.api_version.partition("/")[0], value, configs), gator
        else:
            reviews = rules.kyverno_reviews(obj.kind, value)
            tool = AskingTool(f"kyverno apply {source}", "--resource")
        if reviews is not None:
            yield Reviewer(obj.full_kind, obj.namespace, obj.name, "", tool, _of_others(reviews))


def _of_others(reviews: Reviews) -> Reviews:
    """Return which requests a policy decides about that are not about such policies themselves."""
    return lambda request, namespaces: (
        request.resource.group not in POLICY_GROUPS and reviews(request, namespaces)
    )


def _is_gatekeepers(obj: CustomObject) -> bool:
    return obj.api_version.partition("/")[0].endswith("gatekeeper.sh")
