"""Which kinds an API server serves, in which version and under which path."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from moorage.kube import Object
from moorage.kube.model.meta import plural
from moorage.store.errors import NotFoundError, is_namespaced

from .connection import Connection
from .server_errors import read_answer


class _Served(msgspec.Struct):
    name: str = ""
    version: str = ""


class _Answer(msgspec.Struct):
    """What is read of an APIGroup, which has versions, and of an APIResourceList."""

    kind: str
    versions: list[_Served] = []
    resources: list[_Served] = []


_ANSWER = msgspec.json.Decoder(_Answer)


class Endpoint(msgspec.Struct, frozen=True):
    """Where the objects of a kind are.

    Attributes
    ----------
    api_version : str
        That the server serves.
    resource : str
        Such as ``pods``.
    is_namespaced : bool
    converts : bool
        Whether the version is another than the struct's.
    """

    api_version: str
    resource: str
    is_namespaced: bool
    converts: bool = False

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of all objects, of those of a namespace, of one object, or of a subresource."""
        parts = ["/api" if "/" not in self.api_version else "/apis", self.api_version]
        if namespace and self.is_namespaced:
            parts += ["namespaces", namespace]
        return "/".join([*parts, self.resource, *filter(None, (name, subresource))])


class Discovery:
    """Finds the endpoints of kinds. Those of the core cost no request, another kind one in most cases."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._endpoints: dict[type[Object], Endpoint] = {}

    def endpoint(self, struct: type[Object]) -> Endpoint | None:
        """Return the endpoint of a kind, as it was last found; None where the server does not serve it."""
        return self._endpoints.get(struct) or self.find(struct)

    def find(self, struct: type[Object]) -> Endpoint | None:
        """Ask the server for the endpoint of a kind.

        Returns
        -------
        Endpoint or None
            None for a kind that the server does not serve, in no version.
        """
        wanted = struct().api_version
        for api_version in self._versions(wanted):
            if "/" not in wanted or self._serves(api_version, plural(struct)):
                found = Endpoint(api_version, plural(struct), is_namespaced(struct), api_version != wanted)
                self._endpoints[struct] = found
                return found
        return None

    def _versions(self, wanted: str) -> Iterator[str]:
        """Yield a version, then the others of its group."""
        yield wanted
        group = wanted.rpartition("/")[0]
        for one in self._ask(f"/apis/{group}").versions:
            if f"{group}/{one.version}" != wanted:
                yield f"{group}/{one.version}"

    def _serves(self, api_version: str, resource: str) -> bool:
        return any(one.name == resource for one in self._ask(f"/apis/{api_version}").resources)

    def _ask(self, path: str) -> _Answer:
        """Return what the server says of a group or a version; nothing of one that it does not serve."""
        try:
            return read_answer(_ANSWER, self._connection.request("GET", path))
        except NotFoundError:
            return _Answer("")
