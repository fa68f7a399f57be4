"""An `ObjectClient` over a real API server; needs the extra ``kube``."""

from importlib.util import find_spec

if _missing := [name for name in ("httpx2", "lightkube") if find_spec(name) is None]:
    raise ImportError(f"{_missing[0]} is missing: pip install 'moorage[kube]'", name=_missing[0])

from .api_client import ApiClient as ApiClient
from .connection import Connection as Connection
from .kubeconfig import connect as connect
