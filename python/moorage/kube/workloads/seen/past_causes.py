"""Whether the input still has the cause for which the cluster refused pods: a bound may be another one since,
and the controller has not tried again."""

from __future__ import annotations

import re
from collections.abc import Collection

from moorage._core.base.quantity import Quantity
from moorage.kube.model.admission_policies import LimitRange, ResourceQuota
from moorage.kube.model.meta import Object
from moorage.kube.model.node import Namespace

_EXCEEDED = re.compile(r"exceeded quota: (\S+), requested: .*, limited: (\S+)$")
_MUST_SPECIFY = re.compile(r"failed quota: (\S+): must specify (.*)$")
_BOUND = re.compile(r"(maximum|minimum) (\S+) usage per (\w+) is ([^,\s]+?)[,.]")
_LEVEL = re.compile(r'violates PodSecurity "(\w+):')
_ENFORCE = "pod-security.kubernetes.io/enforce"


def past_cause(message: str, namespace: str, near: Collection[Object]) -> str:
    """Return what the input has in place of the cause of a refusal; "" if the cause is there, or not known.

    moorage judges quotas, limit ranges and Pod Security itself, so pods are judged anew then.

    Parameters
    ----------
    message : str
        That of the API server.
    near : collection of Object
        What the namespace has, and the Namespace.
    """
    quotas = {one.name: one for one in near if isinstance(one, ResourceQuota)}
    if (match := _EXCEEDED.search(message)) and (quota := quotas.get(match[1])) is not None:
        limits = dict(part.split("=", 1) for part in match[2].split(","))
        hard = {name: quota.spec.hard.get(name) for name in limits}
        if all(now is None or Quantity(now) > Quantity(limits[name]) for name, now in hard.items()):
            shown = ",".join([f"{name}={now or 'any'}" for name, now in hard.items()])
            return f"quota {quota.name} is limited to {shown} now"
    if (match := _MUST_SPECIFY.search(message)) and (quota := quotas.get(match[1])) is not None:
        names = [part.split(" for: ")[0] for part in match[2].split("; ")]
        if quota.spec.hard.keys().isdisjoint(names):
            return f"quota {quota.name} does not limit {', '.join(names)} now"
    ranges = [one for one in near if isinstance(one, LimitRange)]
    if (match := _BOUND.search(message)) and ranges:
        which, name, type_, bound = match.groups()
        items = [item for one in ranges for item in one.spec.limits if item.type == type_]
        bounds = [(item.max if which == "maximum" else item.min).get(name) for item in items]
        if all(now is None or Quantity(now) != Quantity(bound) for now in bounds):
            return f"no limit range has the {which} {name} {bound} per {type_} now"
    if match := _LEVEL.search(message):
        for one in near:
            if isinstance(one, Namespace) and one.metadata.uid:
                level = one.metadata.labels.get(_ENFORCE, "privileged")
                return f"namespace {namespace} enforces {level} now" if level != match[1] else ""
    return ""
