"""Checks of one value each, with the texts of the API server (k8s.io/apimachinery v0.36, util/validation),
and the rules of single fields that rules/validation_rules.txt makes of them."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache, partial
from ipaddress import ip_address, ip_network
from itertools import chain
from typing import Any

from moorage._core.base.label_syntax import requirement_error
from moorage._core.base.quantity import Quantity, parse
from moorage.errors import InputError
from moorage.lazy import NamedTuple

from ..apiserver.struct_tables import Wanted, read_table, split_wanted, value_at
from ..field_errors import Fault, Json, duplicate, forbidden, invalid, parts, required, unsupported
from ..model.meta import is_dns_label, is_subdomain, percent
from ..model.meta import quantity as check_quantity
from ..model.workload import MAX_PODS
from ..releases import ADMISSION_PLUGINS, ALWAYS, Condition, split_condition

Check = Callable[[Any], Iterable[str]]


FieldCheck = Callable[[Any, str], Iterable[Fault]]
"""Yields what is wrong with the value of a field; gets its path, too."""
Rule = Callable[[Json, str, Json], Iterator[Fault]]
"""Yields what is wrong with a struct; gets its value, its path, and the object."""


class Conditional(NamedTuple):
    """A rule, of structs or of changes, when it holds, and whether new manifests alone are held to it."""

    rule: Callable[..., Iterator[Fault]]
    when: Condition
    is_of_new: bool = False


Rules = dict[str, tuple[Rule | Conditional, ...]]
"""By struct, the rules between its fields."""


def during(words: str, rule: Callable[..., Iterator[Fault]]) -> Conditional:
    """Return a rule that holds when some words say, such as ``since 1.36; off GATE``."""
    return Conditional(rule, split_condition(f"; {words}")[1])


def of_new(rule: Callable[..., Iterator[Fault]]) -> Conditional:
    """Return a rule to which new manifests alone are held."""
    return Conditional(rule, ALWAYS, is_of_new=True)


def conditional(rule: Callable[..., Iterator[Fault]] | Conditional) -> Conditional:
    """Return a rule that always holds if nothing else is said."""
    return rule if isinstance(rule, Conditional) else Conditional(rule, ALWAYS)


def is_absent(value: Any) -> bool:
    """Whether a field is as if it were not there."""
    return value is None or value in ("", [], {}, ())


# ---- checks ------------------------------------------------------------------------------------------------

_MOST = 2**31 - 1
_MOST_DRIVER = 63
_ENV_NAME = re.compile(r"[ -<>-~]+")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_HEADER = re.compile(r"[-A-Za-z0-9]+")
_LEADING_ZERO = re.compile(r"(^|\.)0[0-9]")
_INDEXES = re.compile(r"(\d{1,10}(-\d{1,10})?(,\d{1,10}(-\d{1,10})?)*)?")
SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DOTS = "must not contain '..'"


_IS_RIGHT: dict[str, Callable[[str], bool]] = {
    "dns1123Label": is_dns_label,
    "dns1123Subdomain": is_subdomain,
    "labelValue": lambda text: requirement_error("key", "In", (text,), node=False) is None,
    "qualifiedName": lambda text: requirement_error(text, "Exists", (), node=False) is None,
}
"""Formats of which most texts are, by a shorter way than that which finds what is wrong."""


@lru_cache(1 << 16)
def _format(name: str, text: str) -> tuple[str, ...]:
    if (is_right := _IS_RIGHT.get(name)) is not None and is_right(text):
        return ()
    from ..cel.text_formats import format_errors  # few texts are wrong

    return tuple([invalid(text, wrong) for wrong in format_errors(name, text)])


def _of_format(name: str) -> Check:
    return lambda value: _format(name, value) if isinstance(value, str) else ()


def format_causes(name: str, text: Any, field: str) -> Iterator[Fault]:
    """Yield what is wrong with a text of a format."""
    if isinstance(text, str):
        for wrong in _format(name, text):
            yield Fault(field, wrong)


def _csi_driver(value: Any) -> Iterator[str]:
    from ..cel.text_formats import format_errors  # few objects name a driver

    text = str(value)
    if len(text.encode()) > _MOST_DRIVER:
        yield f"Too long: may not be more than {_MOST_DRIVER} bytes"
    yield from (invalid(text, why) for why in format_errors("dns1123Subdomain", text.lower()))


def _one_of(*values: str) -> Check:
    def check(value: Any) -> Iterator[str]:
        if value not in values:
            yield unsupported(value, values)

    return check


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _refusing(
    is_wrong: Callable[[Any], bool], why: str, shown: Callable[[Any], Any] = lambda it: it
) -> Check:
    """Return the check that refuses some values, with what is shown of them."""

    def check(value: Any) -> Iterator[str]:
        if is_wrong(value):
            yield invalid(shown(value), why)

    return check


def _least(least: str, *why: str) -> Check:
    text = " ".join(why) or f"must be greater than or equal to {least}"
    return _refusing(lambda value: _is_number(value) and value < int(least), text)


def _most(most: str, *why: str) -> Check:
    text = " ".join(why) or f"must be less than or equal to {most}"
    return _refusing(lambda value: _is_number(value) and value > int(most), text)


def _between(least: str, most: str, *why: str) -> Check:
    text = " ".join(why) or f"must be between {least} and {most}, inclusive"
    return _refusing(lambda value: _is_number(value) and not int(least) <= value <= int(most), text)


def _items(most: str) -> Check:
    def check(value: Any) -> list[str]:
        count = len(value) if isinstance(value, list | tuple | dict) else 0
        return [f"Too many: {count}: must have at most {most} items"] if count > int(most) else []

    return check


def port_errors(value: Any) -> list[str]:
    """Return what is wrong with a port: a number, or the name of one."""
    if _is_number(value):
        return [] if 0 < value < 65536 else [invalid(value, "must be between 1 and 65535, inclusive")]
    return port_name_errors(value) if isinstance(value, str) else []


_PERCENT = re.compile("[0-9]+%")
_NO_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
_LONGEST = len("2147483647%")


def _share(most: str = "") -> Check:
    """Return the check of a number of pods, or a share of them, of at most some percent."""
    at_least = _least("0")

    def check(value: Any) -> Iterable[str]:
        if not isinstance(value, str):
            return at_least(value)
        if _PERCENT.fullmatch(value) is None:
            return [invalid(value, _NO_PERCENT)]
        digits = value.lstrip("0")
        if most and (len(digits) > _LONGEST or percent(digits) > int(most)):
            return [invalid(value, f"must not be greater than {most}%")]
        return [invalid(value, "must be a 32-bit number")] if len(digits) > _LONGEST else []

    return check


def _alone(text: str) -> Check:
    def check(value: Any) -> list[str]:
        is_wrong = text in value and {*value} != {text}
        return [forbidden(f"may not use {text} with other access modes")] if is_wrong else []

    return check


def _bytes(most: str) -> Check:
    why = f"Too long: may not be more than {most} bytes"
    return lambda value: [why] if isinstance(value, str) and len(value.encode()) > int(most) else []


def _pool_name(value: Any) -> Iterator[str]:
    for text in str(value).split("/"):
        yield from _format("dns1123Subdomain", text)


def _container_port(value: Any) -> list[str]:
    return [required()] if value == 0 else port_errors(value)


def port_name_errors(value: str) -> list[str]:
    """Return what is wrong with the name of a port."""
    texts = []
    if len(value) > 15:
        texts.append("must be no more than 15 characters")
    if re.fullmatch("[-a-z0-9]+", value) is None:
        texts.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if re.search("[a-z]", value) is None:
        texts.append("must contain at least one letter (a-z)")
    if "--" in value:
        texts.append("must not contain consecutive hyphens")
    if value[:1] == "-" or value[-1:] == "-":
        texts.append("must not begin or end with a hyphen")
    return [invalid(value, text) for text in texts]


_absolute = _refusing(lambda value: not str(value).startswith("/"), "must be an absolute path")
_without_dots = _refusing(lambda value: ".." in str(value).split("/"), DOTS)


def local_path_errors(value: Any) -> Iterator[str]:
    """Yield what is wrong with a path that stays below a directory."""
    if str(value).startswith("/"):
        yield invalid(value, "must be a relative path")
    yield from _without_dots(value)


def item_path_errors(value: Any) -> Iterator[str]:
    """Yield what is wrong with the path of a file in a volume."""
    yield from local_path_errors(value)
    if str(value).startswith("..") and not str(value).startswith("../"):
        yield invalid(value, "must not start with '..'")


def address_errors(value: Any) -> list[str]:
    """Return what is wrong with an IP address."""
    try:
        ip_address(value)
    except ValueError:
        if (
            isinstance(value, str)
            and re.fullmatch(r"[0-9]+(\.[0-9]+){3}", value)
            and _LEADING_ZERO.search(value)
        ):
            return [invalid(value, "must not have leading 0s")]
        return [invalid(value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
    return []


def block_errors(value: Any) -> list[str]:
    """Return what is wrong with a block of addresses."""
    text = str(value)
    try:
        block = ip_network(text, strict=False)
    except ValueError:
        block = None
    if block is None or "/" not in text:
        return [invalid(value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")]
    if str(block.network_address) != text.partition("/")[0] and block.version == 4:
        return [invalid(value, "must not have bits set beyond the prefix length")]
    return []


def _without(text: str) -> Check:
    return _refusing(lambda value: text in str(value), f"may not contain '{text}'")


def _matches(pattern: re.Pattern[str], why: str) -> Check:
    return _refusing(lambda value: isinstance(value, str) and pattern.fullmatch(value) is None, why)


def quantity(value: Any) -> Quantity | None:
    """Return an amount; None where there is none, or a text that is no amount."""
    if value is None or isinstance(value, bool | dict | list):
        return None
    try:
        return parse(value if isinstance(value, str) else str(value))
    except ValueError:
        return None


def _amount(is_wrong: Callable[[Quantity], bool], why: str) -> Check:
    """Return the check that refuses some amounts; what is no amount passes."""
    return _refusing(
        lambda value: (amount := quantity(value)) is not None and is_wrong(amount),
        why,
        lambda value: str(quantity(value)),
    )


def _quantity(value: Any) -> Iterator[str]:
    try:
        check_quantity(value)
    except InputError as error:
        yield error.message


def _not_negative(*why: str) -> Check:
    return _amount(lambda amount: amount.sign() < 0, " ".join(why) or "must be greater than or equal to 0")


def _positive(*why: str) -> Check:
    return _amount(lambda amount: amount.sign() <= 0, " ".join(why))


_unpadded = _refusing(
    lambda value: str(value).strip() != value, "must not have leading or trailing whitespace"
)

ON_CREATE = "cannot be set on create"
"""Why a new pod has no ephemeral containers."""
MORE_VOLUMES = "may not specify more than 1 volume type"
"""End of the text about a source that is one too many; nothing in it is looked at."""
NO_SELECTOR = "invalid label selector"
"""What is wrong with a selector whose parts are wrong."""
OTHER_TYPE, OTHER_PROFILE = [
    f"seccomp {what} in annotation and field must match" for what in ("type", "profile")
]
"""What a new pod or a template may not say otherwise than its fields."""
GATED = "cannot be set until all schedulingGates have been cleared"
"""Why a new pod with gates has no node."""

_FORMATS = ("dns1123Label", "dns1123Subdomain", "labelValue", "qualifiedName")
CHECKS: dict[str, Callable[..., Check]] = {
    **{name: partial(_of_format, name) for name in _FORMATS},
    "csiDriver": lambda: _csi_driver,
    "forbidden": lambda *why: lambda _: [forbidden(" ".join(why))],
    "invalid": lambda *why: _refusing(lambda _: True, " ".join(why)),
    "in": _one_of,
    "min": _least,
    "max": _most,
    "between": _between,
    "items": _items,
    "quantity": lambda: _quantity,
    "share": _share,
    "alone": _alone,
    "bytes": _bytes,
    "poolName": lambda: _pool_name,
    "pods": lambda: _between("0", str(MAX_PODS)),
    "admissionPlugin": lambda: _one_of(*ADMISSION_PLUGINS),
    "indexes": lambda: _matches(_INDEXES, "must be a list of indexes like 1,3-5"),
    "id": lambda: _between("0", str(_MOST)),
    "port": lambda: _container_port,
    "mode": lambda: _between("0", "511", "must be a number between 0 and 0777 (octal), both inclusive"),
    "absolute": lambda: _absolute,
    "withoutDots": lambda: _without_dots,
    "localPath": lambda: local_path_errors,
    "itemPath": lambda: item_path_errors,
    "address": lambda: address_errors,
    "unpadded": lambda: _unpadded,
    "notNegative": _not_negative,
    "positive": _positive,
    "without": _without,
    "envName": lambda: _matches(
        _ENV_NAME,
        "a valid environment variable name must consist only of printable ASCII characters other than '='",
    ),
    "configKey": lambda: _matches(
        _CONFIG_KEY,
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
        "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
    ),
}
"""By name, what makes a check of its arguments."""


@cache
def check_of(word: str, *arguments: str) -> Check:
    """Return a check by its name."""
    return CHECKS[word](*arguments)


def wrong(word: str, value: Any, field: str, *arguments: str) -> Iterator[Fault]:
    """Yield what a check of `CHECKS` finds wrong with a value."""
    for text in check_of(word, *arguments)(value):
        yield Fault(field, text)


def wrong_choice(value: Any, field: str, *values: str) -> Iterator[Fault]:
    """Yield that a value is needed, or that it is none of some."""
    if value:
        yield from wrong("in", value, field, *values)
    else:
        yield Fault(field, required())


def label_faults(labels: Any, field: str) -> Iterator[Fault]:
    """Yield what is wrong with keys and values of labels."""
    for key, value in labels.items() if isinstance(labels, dict) else ():
        yield from format_causes("qualifiedName", key, field)
        yield from format_causes("labelValue", value, field)


def _node_amount_faults(amounts: Any, field: str) -> Iterator[Fault]:
    """Yield the resources of a node that are negative, or are counted and no whole number."""
    for name, given in amounts.items():
        if str(given).isdecimal():
            continue
        yield from wrong("notNegative", given, f"{field}.{name}")
        amount, is_counted = quantity(given), name == "pods" or ("/" in name and "kubernetes.io/" not in name)
        if is_counted and amount is not None and amount.milli_value() % 1000:
            yield Fault(f"{field}.{name}", invalid(str(amount), "must be an integer"))


def field_check(word: str, *arguments: str) -> FieldCheck:
    """Return a check of a field: by its name in `CHECKS`, or one of these.

    ``each`` and a check is about the items of a list, ``all``, too, but their errors are those of the list;
    ``labels`` and ``nodeAmounts`` are about a map. ``unique`` is about a list, or about a field of its items;
    after a dot that is named in the path of an error.
    """
    if word == "labels":
        return label_faults
    if word == "nodeAmounts":
        return _node_amount_faults
    if word == "unique":
        return partial(_repeated, *arguments)
    if word == "each":
        of_item = field_check(*arguments)
        return lambda items, field: chain.from_iterable(
            of_item(item, f"{field}[{at}]") for at, item in enumerate(items)
        )
    if word == "all":
        of_any = field_check(*arguments)
        return lambda items, field: chain.from_iterable(of_any(item, field) for item in items)
    check = check_of(word, *arguments)
    return lambda value, field: [Fault(field, text) for text in check(value)]


def _repeated(*arguments: Any) -> Iterator[Fault]:
    """Yield what stands twice in a list: an item, or its field that the first argument names."""
    *names, items, field = arguments
    if not names:
        return doubled(items, field)
    if len(items) < 2:
        return iter(())
    values = [item.get(names[0].lstrip(".")) for item in parts({"": items}, "")]
    return doubled(values, field, names[0] if names[0].startswith(".") else "")


def doubled(items: Iterable[Any], field: str, last: str = "") -> Iterator[Fault]:
    """Yield the items of a list that stand twice."""
    seen: list[Any] = []
    for at, item in enumerate(items):
        if item in seen and not is_absent(item):
            yield Fault(f"{field}[{at}]{last}", duplicate(item))
        seen.append(item)


HEADER = _matches(
    _HEADER,
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used "
    "for validation is '[-A-Za-z0-9]+')",
)


# ---- rules of fields ---------------------------------------------------------------------------------------

_ABSENT = {"always": "", "zero": 0}


class FieldRule(NamedTuple):
    """The rules of a field, or of one below it: the text if it has to be there, checks of its value, whether
    an empty text is one, what is checked in place of nothing (None for nothing), whether they hold of new
    manifests alone, what is wanted of other fields, and when they hold."""

    name: str
    required: str | None
    checks: tuple[FieldCheck, ...]
    pointer: bool
    absent: Any
    is_of_new: bool
    wanted: tuple[Wanted, ...]
    when: Condition

    def judge(self, value: Json, path: str, _root: Json) -> Iterator[Fault]:
        """Yield what is wrong with the field of a struct, if the others are as is wanted (a `Rule`)."""
        if all(wanted.holds(value) for wanted in self.wanted):
            given = value_at(value, tuple(self.name.split(".")))
            yield from self.faults(given, f"{path}.{self.name}" if path else self.name)

    def faults(self, value: Any, field: str) -> Iterator[Fault]:
        """Yield what is wrong with a value; None for a field that is not there."""
        if is_absent(value) and not (self.pointer and value in ("", {})):
            if self.required is not None:
                yield Fault(field, self.required)
            value = self.absent
        for check in self.checks if value is not None else ():
            yield from check(value, field)


@cache
def field_rules() -> dict[str, list[FieldRule]]:
    """Return the fields with rules that no other field changes, by struct.

    Of a field there are rules between semicolons: the words of a `field_check`, ``required`` and the text of
    the error, ``pointer`` where an empty text or struct is as wrong as another, ``always`` and ``zero`` where
    a field that is not there is checked as an empty text or the number 0, and ``new`` where only new
    manifests are held to them.
    """
    return {struct: [rule for rule in rules if not rule.wanted] for struct, rules in _all_rules().items()}


@cache
def dependent_rules() -> dict[str, list[Conditional]]:
    """Return the rules of fields that want something of others, by struct."""
    return {
        struct: [Conditional(rule.judge, rule.when, rule.is_of_new) for rule in rules if rule.wanted]
        for struct, rules in _all_rules().items()
    }


@cache
def _all_rules() -> dict[str, list[FieldRule]]:
    path = pathlib.Path(__file__).with_name("rules") / "validation_rules.txt"
    return {struct: [_field_rule(*row) for row in rows] for struct, rows in read_table(path).items()}


def _field_rule(name: str, rules: str, when: Condition) -> FieldRule:
    text, checks, absent = None, list[FieldCheck](), None
    bare, wanted = split_wanted(rules)
    listed = bare.split("; ")
    for rule in listed:
        word, *arguments = rule.split()
        if word == "required":
            text = required(" ".join(arguments))
        elif word in _ABSENT:
            absent = _ABSENT[word]
        elif word not in ("pointer", "new"):
            checks.append(field_check(word, *arguments))
    return FieldRule(name, text, tuple(checks), "pointer" in listed, absent, "new" in listed, wanted, when)


def first_fault(rules: list[FieldRule], value: Any) -> Fault | None:
    """Return what is wrong with a field of an object whose server is not known; None for nothing.

    Parameters
    ----------
    rules : list of FieldRule
        Those of the field. Of rules that hold in some releases or with some gates, one has to be followed.
    value : object
        The JSON value of the field.
    """
    faults = [next(rule.faults(value, ""), None) for rule in rules]
    of_some = [fault for fault, rule in zip(faults, rules, strict=True) if rule.when is not ALWAYS]
    always = [fault for fault, rule in zip(faults, rules, strict=True) if rule.when is ALWAYS]
    return next(filter(None, always), of_some[-1] if of_some and all(of_some) else None)
