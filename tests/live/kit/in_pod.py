"""``moorage`` as in a pod: ``python -m tests.live.kit.in_pod FOLDER PORT OPTION...``.

FOLDER has what kubelet mounts of a service account; PORT is that of the API server on loopback.
"""

from __future__ import annotations

import os
import sys

from moorage.cli import main
from moorage.store.api import kubeconfig

if __name__ == "__main__":
    kubeconfig.SERVICE_ACCOUNT = sys.argv[1]
    os.environ |= {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": sys.argv[2]}
    sys.argv = ["moorage", *sys.argv[3:]]
    sys.exit(main())
