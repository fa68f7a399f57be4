"""HTTPExtender over TLS: whom it trusts, and who it says it is."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from tests.core.make import pod
from tests.scheduler.extender_server import CERTIFICATE, KEY, ExtenderServer
from tests.scheduler.test_extender import configured, failure, nothing

from moorage.framework.configuration import ConfigurationError
from moorage.scheduler.extender import HTTPExtender, make_extenders

P = pod("p")
UNTRUSTED = "tls: failed to verify certificate: self-signed certificate"


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def secured(url: str, https: bool = False, **tls: Any) -> HTTPExtender:
    fields = {"urlPrefix": url, "bindVerb": "bind", "enableHTTPS": https}
    (one,) = make_extenders(configured(fields | ({"tlsConfig": tls} if tls else {})), nothing)
    return one


@pytest.mark.parametrize(
    ("https", "tls"),
    [
        (True, {}),  # without an authority, upstream checks nothing
        (False, {"insecure": True}),
        (True, {"serverName": "somebody.else"}),
        (False, {"caFile": str(CERTIFICATE)}),
        (True, {"caData": data(CERTIFICATE)}),
        (True, {"caData": data(CERTIFICATE), "caFile": "/nowhere"}),
        (True, {"caFile": str(CERTIFICATE), "serverName": "extender.test"}),
    ],
)
def test_trusted(https: bool, tls: dict[str, Any]) -> None:
    with ExtenderServer(tls=True, bind={}) as server:
        one = secured(server.url, https, **tls)
        one.bind(P, "a")
        one.bind(P, "a")
    assert len({request.client for request in server.requests}) == 1


@pytest.mark.parametrize(
    ("tls", "why"),
    [
        ({}, UNTRUSTED),
        ({"serverName": "extender.test"}, UNTRUSTED),
        (
            {"caFile": str(CERTIFICATE), "serverName": "somebody.else"},
            "tls: failed to verify certificate: Hostname mismatch, certificate is not valid for "
            "'somebody.else'.",
        ),
    ],
)
def test_not_trusted(tls: dict[str, Any], why: str) -> None:
    with ExtenderServer(tls=True, bind={}) as server:
        assert failure(secured(server.url, **tls).bind, P, "a") == f'Post "{server.url}/bind": {why}'
    assert server.requests == []


def test_a_server_that_speaks_no_tls() -> None:
    with ExtenderServer(bind={}) as server:
        url = server.url.replace("http:", "https:")
        assert failure(secured(url, True).bind, P, "a").startswith(f'Post "{url}/bind": tls: ')


@pytest.mark.parametrize(
    "tls",
    [
        {"certFile": str(CERTIFICATE), "keyFile": str(KEY)},
        {"certData": data(CERTIFICATE), "keyData": data(KEY)},
        {"certData": data(CERTIFICATE), "keyFile": str(KEY)},
    ],
)
def test_a_certificate_of_its_own(tls: dict[str, str]) -> None:
    with ExtenderServer(tls=True, client_authority=str(CERTIFICATE), bind={}) as server:
        secured(server.url, True, **tls).bind(P, "a")
        assert server.verbs == ["bind"]
        failure(secured(server.url, True, certFile=str(CERTIFICATE)).bind, P, "a")
    assert server.verbs == ["bind"]


@pytest.mark.parametrize(
    ("tls", "text"),
    [
        ({"caFile": "/no/such.pem"}, "open /no/such.pem: no such file or directory"),
        ({"certFile": "/no/such.pem"}, "open /no/such.pem: no such file or directory"),
        (
            {"caFile": __file__},
            "unable to load root certificates: unable to parse bytes as PEM block",
        ),
        ({"certData": data(KEY), "keyData": data(KEY)}, "tls: not a certificate and its key"),
        (
            {"insecure": True, "caFile": str(CERTIFICATE)},
            "specifying a root certificates file with the insecure flag is not allowed",
        ),
    ],
)
def test_certificates_that_are_none(tls: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        secured("https://127.0.0.1", **tls)
    assert (caught.value.stage, caught.value.message) == ("new", f"couldn't build extenders: {text}")
