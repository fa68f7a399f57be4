"""IP addresses, CIDR blocks and URLs as values of CEL (k8s.io/apiserver, pkg/cel/library)."""

from __future__ import annotations

import re
from ipaddress import (
    AddressValueError,
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
)
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from msgspec import Struct

from moorage.kube.cel import overloads as cost

from ..cel_errors import EvaluationError
from ..cel_types import BOOL, CIDR, INT, IP, STRING, URL, list_of, map_of
from ..overloads import Library
from ..values import MapValue, register

Address = IPv4Address | IPv6Address
_PREFIX = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_HOST = re.compile(r"(?:\[[0-9a-fA-F:.%]+\]|[^\[\]:\s<>\"^`{|}\\/?#]*)(?::[0-9]*)?")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Cidr(Struct, frozen=True):
    """A block of addresses, with the address by which it was given."""

    address: Address
    length: int

    @property
    def network(self) -> IPv4Network | IPv6Network:
        of = IPv4Network if isinstance(self.address, IPv4Address) else IPv6Network
        return of((self.address, self.length), strict=False)

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"


class Url(Struct, frozen=True):
    """A URL, split."""

    text: str

    @property
    def parts(self) -> SplitResult:
        return urlsplit(self.text.replace("#", "%23"))

    def __str__(self) -> str:
        return self.text


register(IPv4Address, IP)
register(IPv6Address, IP)
register(Cidr, CIDR)
register(Url, URL)


def add_net_functions(library: Library) -> None:
    """Add the overloads of this module."""
    _addresses(library)
    _blocks(library)
    _urls(library)


# ---- addresses ---------------------------------------------------------------------------------------


def _addresses(library: Library) -> None:
    library.function("ip", [STRING], IP, _ip, cost.traversal)
    library.function("isIP", [STRING], BOOL, lambda text: _parsed(text) is not None, cost.traversal)
    library.function("ip.isCanonical", [STRING], BOOL, _is_canonical, cost.two_traversals)
    library.function("string", [IP], STRING, str)
    library.member("family", [IP], INT, lambda a: a.version)
    library.member("isUnspecified", [IP], BOOL, lambda a: a.is_unspecified)
    library.member("isLoopback", [IP], BOOL, lambda a: a.is_loopback)
    library.member("isLinkLocalMulticast", [IP], BOOL, _is_link_local_multicast)
    library.member("isLinkLocalUnicast", [IP], BOOL, lambda a: a.is_link_local)
    library.member("isGlobalUnicast", [IP], BOOL, _is_global_unicast)


def _parsed(text: str) -> Address | None:
    if "%" in text or "/" in text:
        return None
    try:
        found = ip_address(text)
    except (AddressValueError, ValueError):
        return None
    return None if isinstance(found, IPv6Address) and found.ipv4_mapped else found


def _ip(text: str) -> Address:
    found = _parsed(text)
    if found is None:
        reason = f'ParseAddr("{text}"): unable to parse IP'
        raise EvaluationError(f'IP Address "{text}" parse error during conversion from string: {reason}')
    return found


def _is_canonical(text: str) -> bool:
    return str(_ip(text)) == text


def _is_link_local_multicast(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return address in IPv4Network("224.0.0.0/24")
    return int(address) >> 112 & 0xFF0F == 0xFF02


def _is_global_unicast(address: Address) -> bool:
    is_broadcast = address == IPv4Address("255.255.255.255")
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not (is_broadcast or special)


# ---- blocks ------------------------------------------------------------------------------------------


def _blocks(library: Library) -> None:
    library.function("cidr", [STRING], CIDR, _cidr, cost.traversal)
    library.function("isCIDR", [STRING], BOOL, lambda text: _parsed_cidr(text) is not None, cost.traversal)
    library.function("string", [CIDR], STRING, str)
    library.member("containsIP", [CIDR, STRING], BOOL, lambda a, b: _contains(a, _ip(b)), cost.traversal)
    library.member("containsIP", [CIDR, IP], BOOL, _contains)
    library.member("containsCIDR", [CIDR, STRING], BOOL, lambda a, b: _covers(a, _cidr(b)), cost.traversal)
    library.member("containsCIDR", [CIDR, CIDR], BOOL, lambda a, b: _covers(a, b))
    library.member("ip", [CIDR], IP, lambda a: a.address)
    library.member("prefixLength", [CIDR], INT, lambda a: a.length)
    library.member("masked", [CIDR], CIDR, lambda a: Cidr(a.network.network_address, a.length))


def _parsed_cidr(text: str) -> Cidr | None:
    address, _, length = text.partition("/")
    found = _parsed(address)
    if found is None or not _PREFIX.fullmatch(length) or int(length) > found.max_prefixlen:
        return None
    return Cidr(found, int(length))


def _cidr(text: str) -> Cidr:
    found = _parsed_cidr(text)
    if found is None:
        raise EvaluationError(f'network address parse error during conversion from string: "{text}"')
    return found


def _contains(block: Cidr, address: Address) -> bool:
    return address in block.network


def _covers(block: Cidr, other: Cidr) -> bool:
    same = block.address.version == other.address.version
    return same and block.length <= other.length and other.address in block.network


# ---- URLs --------------------------------------------------------------------------------------------


def _urls(library: Library) -> None:
    library.function("url", [STRING], URL, _url, cost.traversal)
    library.function("isURL", [STRING], BOOL, is_url, cost.traversal)
    library.member("getScheme", [URL], STRING, lambda a: a.parts.scheme)
    library.member("getHost", [URL], STRING, lambda a: _host(a))
    library.member("getHostname", [URL], STRING, lambda a: _host_and_port(a)[0])
    library.member("getPort", [URL], STRING, lambda a: _host_and_port(a)[1])
    library.member("getEscapedPath", [URL], STRING, _escaped_path)
    library.member("getQuery", [URL], map_of(STRING, list_of(STRING)), _query)


def is_url(text: str) -> bool:
    """Whether a text is an absolute URL, or an absolute path (Go's ``url.ParseRequestURI``)."""
    if not text or _CONTROL.search(text):
        return False
    if not text.startswith("/") and not _SCHEME.match(text) and text != "*":
        return False
    rest = _SCHEME.sub("", text, count=1) if not text.startswith("/") else text
    if not rest.startswith("/") and text != "*":
        return False  # as in "mailto:a"
    authority = ""
    if rest.startswith("//") and not text.startswith("/"):
        authority = re.split(r"[/?]", rest[2:], maxsplit=1)[0]
    path = rest[2 + len(authority) :] if authority else rest
    host = authority.rpartition("@")[2]
    path = path.partition("?")[0]
    return _HOST.fullmatch(host) is not None and not _BAD_ESCAPE.search(path)


def _url(text: str) -> Url:
    if not is_url(text):
        raise EvaluationError(f'URL parse error during conversion from string: parse "{text}": invalid URI')
    return Url(text)


def _host(url: Url) -> str:
    return unquote(url.parts.netloc.rpartition("@")[2])


def _host_and_port(url: Url) -> tuple[str, str]:
    host = _host(url)
    name, colon, port = host.rpartition(":")
    if not colon or "]" in port:
        name, port = host, ""
    return name.removeprefix("[").removesuffix("]"), port


def _escaped_path(url: Url) -> str:
    return quote(url.parts.path, safe="/%:@!$&'()*+,;=~-._")


def _query(url: Url) -> MapValue:
    values: dict[str, tuple[str, ...]] = {}
    for key, value in parse_qsl(url.parts.query, keep_blank_values=True):
        values[key] = (*values.get(key, ()), value)
    return MapValue(values.items())
