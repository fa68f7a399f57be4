"""Which kinds an API server serves, in which version and under which path."""

from __future__ import annotations

from threading import Lock

import msgspec

from moorage.objects import Object
from moorage.objects.resource_names import plural
from moorage.store.kinds import is_namespaced

from .connection import Connection
from .server_errors import read_answer


class _Versions(msgspec.Struct):
    version: str = ""


class _Group(msgspec.Struct):
    name: str = ""
    versions: list[_Versions] = []


class _GroupList(msgspec.Struct):
    groups: list[_Group] = []


class _Resource(msgspec.Struct):
    name: str = ""


class _ResourceList(msgspec.Struct):
    resources: list[_Resource] = []


_GROUPS = msgspec.json.Decoder(_GroupList)
_RESOURCES = msgspec.json.Decoder(_ResourceList)


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
    """Finds the endpoints of kinds. Those of the core cost no request, a group two for all of its kinds."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = Lock()
        self._groups: dict[str, list[str]] | None = None  # group to its versions, the preferred one first
        self._resources: dict[str, frozenset[str]] = {}  # group and version to its resources
        self._endpoints: dict[type[Object], Endpoint | None] = {}

    def endpoint(self, struct: type[Object]) -> Endpoint | None:
        """Return the endpoint of a kind.

        Parameters
        ----------
        struct : type
            The kind.

        Returns
        -------
        Endpoint or None
            None for a kind that the server does not serve, in no version.
        """
        if struct not in self._endpoints:
            with self._lock:
                self._endpoints[struct] = self._find(struct)
        return self._endpoints[struct]

    def forget(self) -> None:
        """Ask the server again, as after an upgrade or for a new custom resource."""
        with self._lock:
            self._groups = None
            self._resources.clear()
            self._endpoints.clear()

    def _find(self, struct: type[Object]) -> Endpoint | None:
        wanted, resource = struct().api_version, plural(struct)
        group, _, version = wanted.rpartition("/")
        if not group:
            return Endpoint(wanted, resource, is_namespaced(struct))
        if self._groups is None:
            answer = read_answer(_GROUPS, self._connection.request("GET", "/apis"))
            self._groups = {one.name: [each.version for each in one.versions] for one in answer.groups}
        versions = self._groups.get(group, [])
        for one in sorted(versions, key=lambda one: one != version):
            served = f"{group}/{one}"
            if served not in self._resources:
                answered = read_answer(_RESOURCES, self._connection.request("GET", f"/apis/{served}"))
                self._resources[served] = frozenset(each.name for each in answered.resources)
            if resource in self._resources[served]:
                return Endpoint(served, resource, is_namespaced(struct), one != version)
        return None
