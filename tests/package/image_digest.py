"""``python -m tests.package.image_digest``: pins the base image by the digest that its tag has today."""

from __future__ import annotations

import json
import re
import sys
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from tests.house.source import ROOT

FILES = [ROOT / "deploy/Dockerfile", ROOT / "deploy/ci/gitlab.yml"]
IMAGE = re.compile(r"(?<=FROM |age: )(\w+):([\w.-]+)(?:@sha256:[0-9a-f]{64})?")
LOGIN, REGISTRY = "https://auth.docker.io/token", "https://registry-1.docker.io"
INDEX = "application/vnd.oci.image.index.v1+json"
TIMEOUT = 20.0  # seconds


def digest_of(name: str, tag: str) -> str:
    """The digest of an image of Docker Hub, for all architectures.

    Raises
    ------
    OSError, ValueError, LookupError
        The registry cannot be reached, or does not answer with one.
    """
    scope = {"service": "registry.docker.io", "scope": f"repository:library/{name}:pull"}
    with urlopen(f"{LOGIN}?{urlencode(scope)}", timeout=TIMEOUT) as answer:
        token = json.load(answer)["token"]
    headers = {"Accept": INDEX, "Authorization": f"Bearer {token}"}
    request = Request(f"{REGISTRY}/v2/library/{name}/manifests/{tag}", None, headers, method="HEAD")
    with urlopen(request, timeout=TIMEOUT) as answer:
        digest = str(answer.headers["Docker-Content-Digest"])
    if re.fullmatch(r"sha256:[0-9a-f]{64}", digest) is None:
        raise ValueError(f"the registry answered with the digest {digest}")
    return digest


def pinned(texts: list[str]) -> list[str]:
    """The files, each image with the digest of its tag."""
    images = {found.groups() for text in texts for found in IMAGE.finditer(text)}
    digests = {(name, tag): digest_of(name, tag) for name, tag in images}
    return [
        IMAGE.sub(lambda found: f"{found[1]}:{found[2]}@{digests[found[1], found[2]]}", text)
        for text in texts
    ]


def main() -> int:
    try:
        texts = pinned([file.read_text() for file in FILES])
    except (OSError, ValueError, LookupError) as error:
        print(
            f"the digest of the base image could not be resolved; nothing is changed: {error}",
            file=sys.stderr,
        )
        return 1
    for file, text in zip(FILES, texts, strict=True):
        file.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
