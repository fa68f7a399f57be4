"""A variant of the compiled core: how it is built, and what a process needs to import it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from building.flags import VARIANTS

ROOT = Path(__file__).resolve().parents[1]
# Both runtimes of asan export __sanitizer_set_report_path, so libubsan's log_path sets the path of libasan
# alone: ASan writes its files, UBSan writes to stderr.
OPTIONS = {
    "asan": {
        "ASAN_OPTIONS": "detect_leaks=0:malloc_context_size=4:allocator_may_return_null=1:log_path={report}",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    },
    # CPython itself is not built with ThreadSanitizer, but its locks are seen, the GIL among them. Processes
    # that tests fork start threads, hence die_after_fork.
    "tsan": {
        "TSAN_OPTIONS": "die_after_fork=0:suppressions={root}/tests/campaign/threads.supp:log_path={report}",
    },
}


def folder(variant: str) -> Path:
    """Everything of a variant: lib/ has the package, cython/ the generated C, temp/ the objects."""
    return ROOT / "build" / variant


def reports(variant: str) -> list[Path]:
    """What sanitizers have written."""
    return sorted(folder(variant).glob("report.*"))


def build(variant: str, python: str = sys.executable) -> None:
    """Build a variant, as far as it is not up to date."""
    command = [python, "setup.py", "--quiet", "build"]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"MOORAGE_VARIANT": variant}, check=True)


def environment(variant: str) -> dict[str, str]:
    """The variables with which a process imports a variant instead of the ordinary build.

    Libraries of sanitizers have to be there before Python is: a module built with them cannot be imported
    otherwise.
    """
    library = folder(variant) / "lib"
    found = {"PYTHONPATH": str(library), "LD_LIBRARY_PATH": str(library / "moorage/_core")}
    if preloaded := VARIANTS[variant].preloaded:
        found["LD_PRELOAD"] = " ".join(map(runtime, preloaded))
    report = folder(variant) / "report"
    options = OPTIONS.get(variant, {})
    return found | {name: text.format(root=ROOT, report=report) for name, text in options.items()}


def runtime(library: str) -> str:
    """The path of a library of the compiler; its bare name if the compiler has none."""
    command = [os.environ.get("CC", "cc"), f"-print-file-name={library}.so"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
