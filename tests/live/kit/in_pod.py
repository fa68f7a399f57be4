"""``moorage`` as in a pod: ``python -m tests.live.kit.in_pod FOLDER PORT OPTION...``.

FOLDER has what kubelet mounts of a service account; PORT is that of the API server on loopback. The host has
the name $HOSTNAME, if it is set, as in a container.
"""

from __future__ import annotations

import os
import socket
import sys

from tests.doors.live import kubeconfig

from moorage.cli import main

if __name__ == "__main__":
    kubeconfig.SERVICE_ACCOUNT = sys.argv[1]
    os.environ |= {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": sys.argv[2]}
    name = os.environ.get("HOSTNAME") or socket.gethostname()
    socket.gethostname = lambda: name
    sys.argv = ["moorage", *sys.argv[3:]]
    sys.exit(main())
