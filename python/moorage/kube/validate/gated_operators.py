"""Refuses tolerations with operators that a feature gate of the API server allows."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.errors import InputError

from ..model.meta import Object
from ..model.pod import Pod, PodSpec

GATE = "TaintTolerationComparisonOperators"
SUPPORTED = '"Equal", "Exists", "Lt", "Gt"'  # as the API server says it


def refuse_comparisons(obj: Object) -> None:
    """Refuse a manifest with tolerations that compare numbers (kubernetes v1.36, ValidateTolerations).

    Call it where the gate TaintTolerationComparisonOperators is off. Objects of a server, which has accepted
    them, stay.

    Parameters
    ----------
    obj : Object
        Of any kind; pods and templates of pods are looked at.

    Raises
    ------
    InputError
        A toleration has the operator Lt or Gt.
    """
    if obj.metadata.uid or obj.metadata.resource_version:
        return
    for path, spec in _pod_specs(obj):
        for at, toleration in enumerate(spec.tolerations):
            if toleration.operator in ("Lt", "Gt"):
                text = f'Unsupported value: "{toleration.operator}": supported values: {SUPPORTED}'
                where = f"{path}.tolerations[{at}].operator"
                raise InputError(f"{text}. This operator needs the feature gate {GATE}", path=where)


def _pod_specs(obj: Object) -> Iterator[tuple[str, PodSpec]]:
    if isinstance(obj, Pod):
        yield "spec", obj.spec
    template = getattr(getattr(obj, "spec", None), "template", None)
    if isinstance(spec := getattr(template, "spec", None), PodSpec):
        yield "spec.template.spec", spec
