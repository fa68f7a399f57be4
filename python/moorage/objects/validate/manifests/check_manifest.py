"""Checks a new or changed object by all rules of its kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain

from moorage.errors import InputError
from moorage.objects.model.meta import Object

from . import job_rules, quota_rules, workload_rules
from .rule import Rule

_RULES: dict[str, list[Rule]] = defaultdict(list)
for _rule in chain(workload_rules.RULES, job_rules.RULES, quota_rules.RULES):
    for _kind in _rule.kinds.split():
        _RULES[_kind].append(_rule)


def check_manifest(obj: Object, before: Object | None = None) -> None:
    """Check an object as the API server does that creates or changes it.

    Objects that are in a cluster have passed these rules once, and are not looked at.

    Parameters
    ----------
    obj : Object
        Valid (see `validate`), without defaults.
    before : Object, optional
        What it changes. The API server has accepted what is wrong with that as well.

    Raises
    ------
    InputError
        It is refused. The text has all causes, in the order of the rules.
    """
    known = () if before is None else {*_causes(before)}
    causes = [cause for cause in dict.fromkeys(_causes(obj)) if cause not in known]
    if len(causes) == 1:
        path, _, text = causes[0].partition(": ")
        raise InputError(text, path=path)
    if causes:
        raise InputError(f"[{', '.join(causes)}]")


def _causes(obj: Object) -> Iterator[str]:
    """Yield field and text of what is wrong."""
    for rule in _RULES.get(type(obj).__name__, ()):
        for values in rule.breaches(obj):
            yield f"{rule.field}: {rule.text}".format(*values)
