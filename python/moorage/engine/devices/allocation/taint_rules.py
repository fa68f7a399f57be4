"""Taints of devices by DeviceTaintRules (k8s.io/dynamic-resource-allocation, resourceslice/tracker)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from moorage.kube.model.resource_slices import Device, DeviceTaintRule, ResourceSlice

from ..features import Features


def tainted(
    slices: Iterable[ResourceSlice], rules: Sequence[DeviceTaintRule], features: Features
) -> list[ResourceSlice]:
    """Return slices with the taints of rules after those that drivers have published.

    Returns
    -------
    list of ResourceSlice
        A slice without a device that a rule selects is the same object.
    """
    return [_tainted(slice_, rules, features) for slice_ in slices]


def _tainted(published: ResourceSlice, rules: Sequence[DeviceTaintRule], features: Features) -> ResourceSlice:
    chosen = [rule for rule in rules if _may_select(rule, published, features)]
    if not chosen:
        return published
    devices = tuple([_with_taints(device, chosen) for device in published.spec.devices])
    return replace(published, spec=replace(published.spec, devices=devices))


def _with_taints(device: Device, rules: Sequence[DeviceTaintRule]) -> Device:
    taints = [rule.spec.taint for rule in rules if _selects_device(rule, device)]
    return replace(device, taints=(*device.taints, *taints)) if taints else device


def _may_select(rule: DeviceTaintRule, published: ResourceSlice, features: Features) -> bool:
    """Whether a rule selects devices of the pool of a slice."""
    selector = rule.spec.device_selector
    if selector is None:
        return features.release.taint_rules_taint_all
    spec = published.spec
    return selector.driver in (None, spec.driver) and selector.pool in (None, spec.pool.name)


def _selects_device(rule: DeviceTaintRule, device: Device) -> bool:
    selector = rule.spec.device_selector
    return selector is None or selector.device in (None, device.name)
