"""Preemption over Python lists and numpy columns, by a plain program that keeps the pods of a node sorted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

RAISED = 2**31


@dataclass(frozen=True, slots=True)
class There:
    """A pod on a node."""

    name: str
    priority: int
    start: str
    cpu: int
    memory: int
    budgets: tuple[int, ...] = ()


class PreemptionTwin:
    """Nodes with what is free of them, and their pods, the most important first. Plain preemptors only."""

    def __init__(
        self, free: np.ndarray, slots: np.ndarray, pods: Sequence[list[There]], allowed: Mapping[int, int]
    ) -> None:
        self.free, self.slots, self.pods, self.allowed = free, slots, list(pods), allowed
        for there in self.pods:
            there.sort(key=lambda pod: (-pod.priority, pod.start))

    def place(self, pod: There) -> tuple[int, list[There]]:
        """The node that is cleared for a pod that fits nowhere, and its victims."""
        request = np.array([pod.cpu, pod.memory])
        assert not ((self.free >= request).all(axis=1) & (self.slots > 0)).any()
        wanted = max(len(self.pods) // 10, 100)
        best: tuple[tuple[int, ...], int, list[There]] | None = None
        found, clean = 0, False
        for at in range(len(self.pods)):
            victims, violations = self._victims(at, pod)
            if not victims:
                continue
            found += 1
            clean |= not violations
            rank = self._rank(victims, violations)
            if best is None or rank < best[0]:
                best = rank, at, victims
            if clean and found >= wanted:
                break
        assert best is not None
        _, at, victims = best
        for victim in victims:
            self.pods[at].remove(victim)
            self.free[at] += victim.cpu, victim.memory
        self.slots[at] += len(victims) - 1
        self.free[at] -= request
        self.pods[at].append(pod)
        self.pods[at].sort(key=lambda one: (-one.priority, one.start))
        return at, victims

    def _victims(self, at: int, pod: There) -> tuple[list[There], int]:
        lower = [one for one in self.pods[at] if one.priority < pod.priority]
        cpu = int(self.free[at, 0]) + sum(one.cpu for one in lower) - pod.cpu
        memory = int(self.free[at, 1]) + sum(one.memory for one in lower) - pod.memory
        slots = int(self.slots[at]) + len(lower) - 1
        if cpu < 0 or memory < 0 or slots < 0:
            return [], 0
        spent, violating = self._violating(lower), list[There]()
        victims = list[There]()
        for one in [p for p in lower if p.name in spent] + [p for p in lower if p.name not in spent]:
            if one.cpu <= cpu and one.memory <= memory and slots:
                cpu, memory, slots = cpu - one.cpu, memory - one.memory, slots - 1
            else:
                victims.append(one)
                if one.name in spent:
                    violating.append(one)
        victims.sort(key=lambda one: (-one.priority, one.start))
        return victims, len(violating)

    def _violating(self, pods: Sequence[There]) -> set[str]:
        left, out = dict(self.allowed), set()
        for one in pods:
            for budget in one.budgets:
                left[budget] -= 1
                if left[budget] < 0:
                    out.add(one.name)
        return out

    @staticmethod
    def _rank(victims: Sequence[There], violations: int) -> tuple[int, ...]:
        started = -int("".join(letter for letter in victims[0].start if letter.isdigit()))
        total = sum(victim.priority + RAISED for victim in victims)
        return violations, victims[0].priority, total, len(victims), started
