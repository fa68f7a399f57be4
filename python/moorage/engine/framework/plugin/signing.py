"""Signatures: pods with equal signatures get equal verdicts and scores.

Source: kube-scheduler v1.36, SignPod in framework/runtime/framework.go and the signers of
kube-scheduler/framework.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from moorage._core.base.resources import ZERO, is_counted
from moorage._core.state.pod_spec import spec_key
from moorage.kube import NodeSelectorRequirement, NodeSelectorTerm, Pod, Volume

from ..runtime.call import answer_of
from .amounts import asked_by
from .interface import Plugin, SignPlugin
from .status import Code, Status

logger = logging.getLogger("moorage.framework")
encode = msgspec.json.Encoder(order="sorted").encode
NO_SOURCE = Volume()
STORAGE = "ephemeral-storage"
LIMIT = 1 << 12  # maximum number of cached signatures
UNSIGNED = Status(Code.UNSCHEDULABLE, ("the pod cannot be signed",))


class Signer:
    """Signs the pods of one profile.

    Parameters
    ----------
    plugins : iterable of Plugin
        The plugins that filter or score, each at least once.

    Attributes
    ----------
    plugins : list of SignPlugin
        The plugins, each once; empty if one of them signs no pod.
    """

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        once = dict.fromkeys(plugins)
        signers = [plugin for plugin in once if isinstance(plugin, SignPlugin) and plugin.can_sign]
        self.plugins = signers if len(signers) == len(once) else []
        outside = [plugin for plugin in self.plugins if not plugin.in_core]
        # Cached by spec and labels, since in-tree plugins read nothing else.
        self._signed: dict[Any, bytes | None] | None = None if outside else {}
        # What the last pod was signed by, and its signature: replicas of a template share these objects.
        self._latest: tuple[Any, Any, Any, str, bytes | None] = (None, None, None, "", None)

    @property
    def reads_spec_alone(self) -> bool:
        """Whether signatures follow from namespace, labels, spec and status of a pod."""
        return self._signed is not None

    def sign(self, pod: Pod) -> bytes | None:
        """Return the signature of a pod.

        Returns
        -------
        bytes or None
            None if a plugin refuses, raises, or returns a value that JSON cannot represent.
        """
        if not self.plugins or self._signed is None:
            return self._sign(pod) if self.plugins else None
        spec, labels, status, namespace, signature = self._latest
        is_same = pod.spec is spec and pod.metadata.labels is labels and pod.status is status
        if not is_same or pod.metadata.namespace != namespace:
            signature = self._find(self._signed, pod)
            self._latest = pod.spec, pod.metadata.labels, pod.status, pod.metadata.namespace, signature
        return signature

    def _find(self, signed: dict[Any, bytes | None], pod: Pod) -> bytes | None:
        """Return the signature of a pod by its spec and labels."""
        spec = pod.spec
        key = (
            spec_key(pod),
            pod.metadata.namespace,
            spec.node_name,
            spec.scheduling_group,
            encode(spec.volumes),
            tuple(pod.metadata.labels.items()),
        )
        if key not in signed:
            if len(signed) >= LIMIT:
                signed.clear()
            signed[key] = self._sign(pod)
        return signed[key]

    def _sign(self, pod: Pod) -> bytes | None:
        parts: dict[str, Any] = {"schedulerName": pod.spec.scheduler_name}
        for plugin in self.plugins:
            answer = answer_of(plugin, pod, plugin.sign_pod, pod)
            if isinstance(answer, Mapping):
                parts.update(answer)
            elif answer is not None and not (isinstance(answer, Status) and answer.is_success):
                return None
        try:
            return encode(parts)
        except (TypeError, ValueError, RecursionError) as error:
            logger.error("pod %s: signature: %s", pod.key, error)
            return None


# ---- parts of signatures -----------------------------------------------------------------------------------


def tolerations(pod: Pod) -> dict[str, Any]:
    """Return the tolerations of a pod, sorted by key and value.

    Returns
    -------
    dict of str to object
        Part of a signature.
    """
    return {"tolerations": sorted(pod.spec.tolerations, key=lambda one: (one.key, one.value))}


def requests(plugin: Plugin, pod: Pod) -> dict[str, Any]:
    """Return the requests of a pod, scalar resources of 0 included.

    Parameters
    ----------
    plugin : Plugin
        The plugin; its handle has the gates on which requests depend.

    Returns
    -------
    dict of str to object
        Part of a signature.
    """
    gates = plugin.required_handle().cache.state.classes.gates
    quantities = asked_by(pod, gates)
    plain = [quantities.get(name, ZERO).value() for name in ("memory", STORAGE)]
    scalars = {name: quantities[name].value() for name in quantities if is_counted(name) and name != STORAGE}
    return {"requests": (quantities.get("cpu", ZERO).milli_value(), *plain, scalars)}


def volumes(pod: Pod) -> dict[str, Any]:
    """Return the sources of a pod's volumes, sorted.

    Config maps, secrets and fields that scheduling does not read are omitted.

    Returns
    -------
    dict of str to object
        Part of a signature.
    """
    sources = (msgspec.structs.replace(volume, name="") for volume in pod.spec.volumes)
    return {"volumes": sorted(_text(source) for source in sources if source != NO_SOURCE)}


def node_affinity(pod: Pod) -> dict[str, Any]:
    """Return nodeSelector and node affinity of a pod, with terms, requirements and values sorted.

    As upstream, required affinity without terms is signed as none.

    Returns
    -------
    dict of str to object
        Part of a signature.
    """
    parts: dict[str, Any] = {"nodeSelector": pod.spec.node_selector, "nodeAffinity": None}
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity is not None:
        terms = affinity.required.node_selector_terms if affinity.required else ()
        weighed = ((term.weight, _term(term.preference)) for term in affinity.preferred or ())
        parts["nodeAffinity"] = [sorted(_text(_term(term)) for term in terms), sorted(map(_text, weighed))]
    return parts


def _term(term: NodeSelectorTerm) -> list[list[str]]:
    return [_requirements(term.match_expressions), _requirements(term.match_fields)]


def _requirements(requirements: Iterable[NodeSelectorRequirement]) -> list[str]:
    return sorted(_text((item.key, item.operator, sorted(item.values))) for item in requirements)


def _text(value: Any) -> str:
    return encode(value).decode()
