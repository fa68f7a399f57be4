"""Conformance: replays recorded decisions of kube-scheduler through the engine.

``python -m tests.conformance FILE…`` takes JSON lines files (plain or gzip) and directories. Each line
is ``{"scenario": …, "result": …}``; the scenario is replayed, and every field of every step is compared with
the result.
"""
