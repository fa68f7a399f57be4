"""Which admission plugins the API server runs: its options, and those of commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..model.meta import Object
from ..model.policy import AdmissionPlugins
from ..releases import ADMISSION_PLUGINS, DEFAULT_TOLERATIONS, NOT_EVALUATED


class SwitchedPlugins(NamedTuple):
    """Plugins that are on besides the default ones, those that are off, and what moorage does not know."""

    enabled: frozenset[str]
    disabled: frozenset[str]
    notes: list[str]


def switched_plugins(objects: Iterable[Object]) -> SwitchedPlugins:
    """Return the plugins that are switched on and off.

    Parameters
    ----------
    objects : iterable of Object
        With AdmissionPlugins; other kinds are ignored. An option of a pod of kube-apiserver counts where
        nobody has given it.
    """
    listed = [obj for obj in objects if isinstance(obj, AdmissionPlugins)]
    given, read = ([obj for obj in listed if bool(obj.pod) == is_read] for is_read in (False, True))
    enabled, disabled = (
        frozenset(name for obj in given for name in getattr(obj, field))
        or frozenset(name for obj in read for name in getattr(obj, field))
        for field in ("plugins", "disabled_plugins")
    )
    unknown = () if any(obj.plugins for obj in given) else [name for obj in read for name in obj.unknown]
    files = [obj.config_file for obj in read]
    return SwitchedPlugins(enabled, disabled, [*_notes(enabled.union(unknown), disabled, files)])


def _notes(enabled: frozenset[str], disabled: frozenset[str], files: Iterable[str]) -> Iterator[str]:
    if others := sorted(name for name in enabled if name in NOT_EVALUATED or name not in ADMISSION_PLUGINS):
        yield f"Admission plugins of the API server that are on and not evaluated: {', '.join(others)}."
    if DEFAULT_TOLERATIONS in disabled:
        yield f"New pods have the tolerations of {DEFAULT_TOLERATIONS}, although it is off."
    for file in sorted({*files} - {""}):
        option = f"--admission-control-config-file {file}"
        yield f"The API server has {option}, which is not read: --exempt has what Pod Security exempts."
