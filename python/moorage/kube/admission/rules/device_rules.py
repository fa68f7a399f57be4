"""Rules of claims for devices, and of the slices that publish devices
(kubernetes v1.34 to v1.38, pkg/apis/resource/validation)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from ...field_errors import (
    Fault,
    Json,
    duplicate,
    forbidden,
    invalid,
    not_found,
    part,
    parts,
    required,
    unsupported,
)
from ...model.meta import is_native
from ...model.resource_slices import SEMVER
from ..field_checks import IDENTIFIER, Rules, during, format_causes, quantity


def _opaque_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    given = value.get("parameters")
    if given is not None and not isinstance(given, dict):
        yield Fault(f"{path}.parameters", invalid("<value omitted>", "must be a valid JSON object"))


def _constraint_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    name = value.get("matchAttribute")
    why = "exactly one of `matchAttribute` or `distinctAttribute` is required"
    given = [attribute for attribute in (name, value.get("distinctAttribute")) if attribute is not None]
    if not given:
        yield Fault(path, required(why))
    elif len(given) > 1:
        yield Fault(path, invalid(None, f"{why}, but multiple fields are set"))
    if isinstance(name, str) and name and "/" not in name:
        why = "a fully qualified name must be a domain and a name separated by a slash"
        yield Fault(f"{path}.matchAttribute", invalid(name, why))


def _extended_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    from ..validate_object import is_extended  # few manifests are DeviceClasses

    name = value.get("extendedResourceName")
    if isinstance(name, str) and not is_extended(name):
        yield Fault(f"{path}.extendedResourceName", invalid(name, "must be a valid extended resource name"))


_NO_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)


def _device_errors(devices: Json, path: str, _root: Json) -> Iterator[Fault]:
    """Requests of a claim, and what names them."""
    requests, known = parts(devices, "requests"), set[str]()
    for at, request in enumerate(requests):
        field, name = f"{path}.requests[{at}]", request.get("name") or ""
        if not name:
            yield from format_causes("dns1123Label", name, f"{field}.name")
        elif name in known:
            yield Fault(field, duplicate(name))
        known.add(name)
        exactly, others = request.get("exactly"), request.get("firstAvailable")
        if exactly is None and not others:
            yield Fault(field, required("exactly one of `exactly` or `firstAvailable` is required"))
        if exactly is not None and others:
            why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
            yield Fault(field, invalid(None, why))
        names: list[Any] = []
        for index, other in enumerate(parts(request, "firstAvailable")):
            if (short := other.get("name")) and short in names and exactly is None:
                yield Fault(f"{field}.firstAvailable[{index}]", duplicate(short))
            names.append(short)
            known.add(f"{name}/{short}")
    for which in ("constraints", "config"):
        for at, item in enumerate(parts(devices, which)):
            for index, name in enumerate(item.get("requests") or ()):
                if name not in known:
                    yield Fault(f"{path}.{which}[{at}].requests[{index}]", invalid(name, _NO_REQUEST))


def _request_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    """How many devices a request wants."""
    mode, count = value.get("allocationMode") or "ExactCount", value.get("count")
    if mode == "All" and count:
        why = "must not be specified when allocationMode is 'All'"
        yield Fault(f"{path}.count", invalid(count, why))
    if mode == "ExactCount" and isinstance(count, int) and count < 0:
        yield Fault(f"{path}.count", invalid(count, "must be greater than zero"))


def _device_toleration_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    effect = value.get("effect")
    if effect and effect not in ("NoExecute", "NoSchedule", "None"):
        yield Fault(f"{path}.effect", unsupported(effect, ("NoExecute", "NoSchedule")))


def _device_selector_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    if value.get("cel") is None:
        return
    from ...cel.cel_errors import CompileError, EvaluationError, ProgramError
    from ...cel.device_expressions import checked_device_expression  # few clusters have devices

    text = str(part(value, "cel").get("expression") or "")
    try:
        checked_device_expression(text, list_attributes=True)
    except (CompileError, EvaluationError, RecursionError) as error:
        known = error if isinstance(error, CompileError) else ProgramError(str(error))
        yield Fault(f"{path}.cel.expression", invalid(text, str(known).partition("\n")[0]))


_NO_IDENTIFIER = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is "
    "'[A-Za-z_][A-Za-z0-9_]*')"
)


_NODES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_EXACTLY = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_PER_DEVICE = "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
_ONE_PLACE = f"exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when {_PER_DEVICE}"
_LISTS = ("ints", "bools", "strings", "versions")
_SCALARS = ("int", "bool", "string", "version")
_MOST_TEXT = 64
_MOST_DEVICES = {False: 128, True: 64}
"""In a slice; by whether a device has taints, counters or lists of attributes."""
_MOST_PROPERTIES = 32
_NO_VERSION = "must be a string compatible with semver.org spec 2.0.0"


def _slice_errors(spec: Json, path: str, _root: Json) -> Iterator[Fault]:
    """The nodes that the devices of a slice are on, and what each has."""
    given = [f"`{name}`" for name in _NODES if spec.get(name) or spec.get(name) == {}]
    if not given:
        yield Fault(path, required(_EXACTLY))
    elif len(given) > 1:
        yield Fault(path, invalid(f"{{{', '.join(given)}}}", f"{_EXACTLY}, but multiple fields are set"))
    terms = part(spec, "nodeSelector").get("nodeSelectorTerms")
    if spec.get("nodeSelector") is not None and len(terms or ()) != 1:
        field = f"{path}.nodeSelector.nodeSelectorTerms"
        yield Fault(field, invalid(terms or [], "must have exactly one node selector term"))
    devices = parts(spec, "devices")
    most = _MOST_DEVICES[any(map(_is_advanced, devices))]
    if len(devices) > most:
        yield Fault(f"{path}.devices", f"Too many: {len(devices)}: must have at most {most} items")
        return
    for at, device in enumerate(devices):
        field = f"{path}.devices[{at}]"
        yield from _property_errors(device, field)
        yield from _place_errors(device, field, bool(spec.get("perDeviceNodeSelection")))
        yield from _condition_errors(device, field)
        yield from _mapping_errors(device, f"{field}.nodeAllocatableResourceMappings")


def _is_advanced(device: Json) -> bool:
    """Whether a slice has room for fewer devices of a kind."""
    attributes = part(device, "attributes").values()
    has_lists = any(attribute.get(name) for attribute in attributes for name in _LISTS)
    return bool(device.get("taints") or device.get("consumesCounters") or has_lists)


def _counter_errors(spec: Json, path: str, _root: Json) -> Iterator[Fault]:
    """Counters that stand in one slice with the devices that share them."""
    if spec.get("sharedCounters") and spec.get("devices") is not None:
        yield Fault(path, invalid("", "only one of `sharedCounters` or `devices` is allowed"))


def _property_errors(device: Json, path: str) -> Iterator[Fault]:
    """Attributes and capacities of a device."""
    capacities = part(device, "capacity")
    if (count := len(part(device, "attributes")) + len(capacities)) > _MOST_PROPERTIES:
        why = f"the total number of attributes and capacities must not exceed {_MOST_PROPERTIES}"
        yield Fault(path, invalid(count, why))
    for which in ("attributes", "capacity"):
        for name in part(device, which):
            domain, slash, short = name.rpartition("/")
            if IDENTIFIER.fullmatch(short) is None:
                yield Fault(f"{path}.{which}", invalid(short, _NO_IDENTIFIER))
            if slash:
                yield from format_causes("dns1123Subdomain", domain, f"{path}.{which}")
    for name in capacities:
        field, capacity = f"{path}.capacity[{name}].requestPolicy", part(capacities, name)
        if device.get("allowMultipleAllocations"):
            yield from _policy_errors(part(capacity, "requestPolicy"), capacity, field)
        elif capacity.get("requestPolicy") is not None:
            yield Fault(field, forbidden("allowMultipleAllocations must be true"))


def _attribute_errors(value: Json, path: str, _root: Json, names: tuple[str, ...]) -> Iterator[Fault]:
    """The value of an attribute, in one of some fields."""
    given = [name for name in names if value.get(name) is not None]
    for name in given:
        texts: Any = value[name]
        is_list = isinstance(texts, list | tuple)
        for at, text in enumerate(texts if is_list else [texts]):
            field = f"{path}.{name}[{at}]" if is_list else f"{path}.{name}"
            if not isinstance(text, str):
                continue
            if name.startswith("version") and SEMVER.fullmatch(text) is None:
                yield Fault(field, invalid(text, _NO_VERSION))
            if len(text.encode()) > _MOST_TEXT:
                yield Fault(field, f"Too long: may not be more than {_MOST_TEXT} bytes")
    if len(given) != 1:
        yield Fault(path, invalid(value if given else "", "exactly one value must be specified"))


def _policy_errors(policy: Json, capacity: Json, path: str) -> Iterator[Fault]:
    """How much of a capacity a request may ask for: some amounts, or those of a range."""
    values, within = policy.get("validValues") or (), policy.get("validRange")
    name = "validValues" if values else "validRange"
    if values and within is not None:
        why = 'cannot specify "validValues" and "validRange" at the same time'
        yield Fault(path, forbidden(f"exactly one policy can be specified, {why}"))
    elif (values or within is not None) and policy.get("default") is None:
        yield Fault(f"{path}.default", required(f"required when {name} is defined"))
    elif within is not None:
        yield from _range_errors(part(policy, "validRange"), policy, capacity, f"{path}.validRange")
    else:
        most, default = quantity(capacity.get("value")), quantity(policy.get("default"))
        for at, value in enumerate(amounts := [quantity(each) for each in values]):
            if value is not None and most is not None and value > most:
                why = f"option is larger than capacity value: {most}"
                yield Fault(f"{path}.validValues[{at}]", invalid(str(value), why))
        if amounts and default not in amounts:
            why = "default value is not valid according to the requestPolicy"
            yield Fault(f"{path}.validValues", invalid(str(default), why))


def _range_errors(within: Json, policy: Json, capacity: Json, path: str) -> Iterator[Fault]:
    if within.get("min") is None:
        yield Fault(f"{path}.min", required("required when validRange is defined"))
        return
    values = {name: quantity(within.get(name)) for name in ("min", "max", "step")}
    values |= {"default": quantity(policy.get("default")), "capacity value": quantity(capacity.get("value"))}
    for field, more, less, relation in (
        ("min", "min", "capacity value", "larger than"),
        ("min", "min", "default", "less than"),
        ("max", "min", "max", "larger than"),
        ("max", "max", "capacity value", "larger than"),
        ("max", "default", "max", "more than"),
    ):
        greater, lower = values[more], values[less]
        if greater is not None and lower is not None and greater > lower:
            first, last = (less, more) if relation == "less than" else (more, less)
            why = f"{first} is {relation} {last}: {values[last]}"
            yield Fault(f"{path}.{field}", invalid(str(values[first]), why))
    if (step := values["step"]) is not None and step.sign() <= 0:
        yield Fault(f"{path}.step", invalid(str(step), "must be positive"))


def _place_errors(device: Json, path: str, has_nodes: bool) -> Iterator[Fault]:
    """The nodes of a device, where the slice leaves them to its devices."""
    given = [f"`{name}`" for name in _NODES[:3] if device.get(name) or device.get(name) == {}]
    if given and not has_nodes:
        why = f"`nodeName`, `nodeSelector` and `allNodes` can only be set if {_PER_DEVICE}"
        yield Fault(path, invalid(None, why))
    elif has_nodes and not given:
        yield Fault(path, required(_ONE_PLACE))
    elif len(given) > 1:
        yield Fault(path, invalid(f"{{{', '.join(given)}}}", _ONE_PLACE))


def _condition_errors(device: Json, path: str) -> Iterator[Fault]:
    """Conditions that say that a device is ready for its pod, or will not be."""
    conditions, failures = device.get("bindingConditions") or (), device.get("bindingFailureConditions") or ()
    for index, name in enumerate(failures):
        if name in conditions:
            why = "bindingFailureConditions must not overlap with bindingConditions"
            yield Fault(f"{path}.bindingFailureConditions[{index}]", invalid(name, why))
    if bool(conditions) != bool(failures):
        names = ["bindingConditions", "bindingFailureConditions"]
        own, needed = names if conditions else reversed(names)
        yield Fault(f"{path}.{needed}", invalid(None, f"{needed} are required to use {own}"))


def _mapping_errors(device: Json, path: str) -> Iterator[Fault]:
    """Resources of the node that a device takes."""
    for resource in (mappings := part(device, "nodeAllocatableResourceMappings")):
        field, mapping = f"{path}[{resource}]", part(mappings, resource)
        multiplier, key = mapping.get("allocationMultiplier"), mapping.get("capacityKey")
        if not is_native(resource):
            yield Fault(field, invalid(resource, "must be a node allocatable resource name"))
        if multiplier is None and key is None:
            why = "at least one of allocationMultiplier or capacityKey must be set"
            yield Fault(field, invalid("", why))
        if (amount := quantity(multiplier)) is not None and amount.sign() <= 0:
            yield Fault(f"{field}.allocationMultiplier", invalid(str(amount), "must be positive"))
        if key == "":
            yield Fault(f"{field}.capacityKey", invalid("", "capacityKey must not be an empty string"))
        elif key is not None and key not in part(device, "capacity"):
            yield Fault(f"{field}.capacityKey", not_found(key))


RULES: Rules = {
    "resource.v1.DeviceClaim": (_device_errors,),
    "resource.v1.ExactDeviceRequest": (_request_errors,),
    "resource.v1.DeviceSubRequest": (_request_errors,),
    "resource.v1.DeviceToleration": (_device_toleration_errors,),
    "resource.v1.DeviceSelector": (_device_selector_errors,),
    "resource.v1.OpaqueDeviceConfiguration": (_opaque_errors,),
    "resource.v1.DeviceConstraint": (_constraint_errors,),
    "resource.v1.DeviceClassSpec": (_extended_errors,),
    "resource.v1.DeviceAttribute": (
        during("off DRAListTypeAttributes", partial(_attribute_errors, names=_SCALARS)),
        during("on DRAListTypeAttributes", partial(_attribute_errors, names=(*_SCALARS, *_LISTS))),
    ),
    "resource.v1.ResourceSliceSpec": (_slice_errors, during("since 1.35", _counter_errors)),
}
"""By struct, the rules between its fields."""
