"""``python -m tests.package.image WHEEL``: the steps of ``deploy/Dockerfile``, without an image.

Its pip commands run as they are written, but for the folder of the wheels and for the wheel of moorage, which
is there already; the base images and their compiler are not tried. Then the container's command runs with
the arguments of each Deployment of ``deploy/``, as another user than root, over files that nobody can write.
No API server answers, so it has to say so and to end when it is told to. Takes root, for a mount namespace of
its own, and the network: `make image-test`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from tests.house.source import ROOT
from tests.live.kit.certificates import Authority
from tests.live.kit.control_plane import free_ports

DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
# The folder of the test is below the root.
READ_ONLY = 'mount --make-rprivate / && mount -o remount,bind,ro / && exec "$@"'
RIGHTS = "-all,+dac_read_search"
"""To read whatever root reads, as the interpreter may be in its home; not to write."""
WAITS = "start has failed, and is repeated"
LIMIT = 60.0
"""Seconds until the command has said that no server answers, and until it has ended."""
CONFIGURATIONS = {
    "base/deployment.yaml": "overlays/beside/scheduler.yaml",
    "overlays/extender/deployment.yaml": "overlays/extender/profiles.yaml",
}
"""By Deployment: the file that its ConfigMap has."""
KUBECONFIG = """apiVersion: v1
kind: Config
current-context: c
clusters:
- {{name: c, cluster: {{server: "https://127.0.0.1:{port}", certificate-authority: {folder}/ca.crt}}}}
users: [{{name: u, user: {{token: t}}}}]
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
"""


def commands() -> list[list[str]]:
    """The commands of pip, in order."""
    joined = DOCKERFILE.replace("\\\n", " ")
    found = [
        shlex.split(line) for line in re.findall(r"^RUN (?:--mount=\S+ +)?(pip .*)$", joined, re.MULTILINE)
    ]
    assert [one[1] for one in found] == ["download", "install", "wheel", "install"], found
    return found


def install(wheel: Path, folder: Path) -> Path:
    """Carry out the two stages, but for the wheel; returns the folder of the programs that the image has."""
    download, _, _, install = commands()
    (folder / "wheels").mkdir()
    shutil.copy(wheel, folder / "wheels")
    for stage, command in (("build", download), ("image", install)):
        subprocess.run([sys.executable, "-m", "venv", str(folder / stage)], check=True)
        given = [one.replace("/wheels", f"{folder}/wheels") for one in command[1:]]
        pip = [str(folder / stage / "bin/python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *given], cwd=ROOT, check=True)
    return folder / "image/bin"


def container(programs: Path) -> list[str]:
    """The start of a command: the user and the entry point of the image, and a root that is read only."""
    (user,) = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)
    (entry,) = re.findall(r'^ENTRYPOINT \["(\w+)"\]$', DOCKERFILE, re.MULTILINE)
    rights = [f"--{kind}={RIGHTS}" for kind in ("inh-caps", "ambient-caps", "bounding-set")]
    ids = [f"--reuid={user[0]}", f"--regid={user[1]}", "--clear-groups", "--no-new-privs", *rights]
    command = ["setpriv", *ids, str(programs / entry)]
    return ["unshare", "--mount", "sh", "-c", READ_ONLY, "sh", *command]


def arguments(deployment: Path, configuration: Path, folder: Path) -> list[str]:
    """Those of a Deployment, with the files of a folder in place of mounts and of the service account."""
    documents = list(yaml.safe_load_all(deployment.read_text()))
    (spec,) = [one["spec"]["template"]["spec"] for one in documents if one["kind"] == "Deployment"]
    container: dict[str, Any] = spec["containers"][0]
    found = [re.sub(r"=/etc/moorage/tls/", f"={folder}/", one) for one in container["args"]]
    found = [re.sub(r"=/etc/moorage/.*", f"={configuration}", one) for one in found]
    found = [f"--kubeconfig={folder}/kubeconfig" if one == "--in-cluster" else one for one in found]
    assert found != container["args"], deployment
    return found


def serve_nobody(start: list[str], arguments: list[str], folder: Path) -> None:
    """Run a command until it has said that no server answers, and end it."""
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen([*start, *arguments], cwd="/", stdout=output, stderr=output)
    until = time.monotonic() + LIMIT
    while WAITS not in log.read_text() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
    text = log.read_text()
    if WAITS not in text or "Traceback" in text or process.wait() not in (0, 1, 2):
        sys.exit(f"{shlex.join(arguments)}: exit {process.returncode}\n{text}")


def main(wheel: Path) -> None:
    if os.geteuid():
        sys.exit("python -m tests.package.image needs root, for a user and a root file system of its own")
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        folder.chmod(0o755)
        programs = install(wheel.resolve(), folder)
        authority = Authority(folder)
        authority.issue("tls", "moorage-scheduler", serves=True)
        (port,) = free_ports(1)
        (folder / "kubeconfig").write_text(KUBECONFIG.format(port=port, folder=folder))
        start = container(programs)
        for deployment, configuration in CONFIGURATIONS.items():
            given = arguments(DEPLOY / deployment, DEPLOY / configuration, folder)
            serve_nobody(start, given, folder)
            print(f"{deployment}: its command starts without root and over files that are read only")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
