"""A queue with two levels over `Scheduler`: departments and teams share a cluster, and gangs start whole.

Which gang is next is decided here; where its pods go is decided by the engine, as kube-scheduler would.

- A team has a quota. What others do not use may be borrowed.
- Next is the team that uses the smallest part of its quota, in the department that uses the smallest part.
  What counts is the resource that is used most of (dominant resource fairness, Ghodsi et al., NSDI 2011).
- A gang that does not fit, although its team stays within its quota, takes back what others have borrowed:
  the newest gangs of the team that is furthest above its quota are evicted, if that makes room, and wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import moorage as mo

Amounts = Mapping[str, int]


@dataclass
class Gang:
    """Pods that start together or not at all."""

    name: str
    pods: list[mo.Pod]

    def amount(self, resource: str) -> int:
        """What the pods request of a resource, in thousandths."""
        found = (one.resources.requests.get(resource, 0) for pod in self.pods for one in pod.spec.containers)
        return sum(mo.Quantity(request).milli_value() for request in found)


@dataclass
class Team:
    """A team of a department, with a quota in thousandths by resource."""

    name: str
    department: str
    quota: Amounts
    waiting: deque[Gang] = field(default_factory=deque)
    running: list[Gang] = field(default_factory=list)

    def used(self, resource: str) -> int:
        return sum(gang.amount(resource) for gang in self.running)


def share(teams: Iterable[Team], gang: Gang | None = None) -> Fraction:
    """The part of their common quota that teams use, with one more gang, of the resource they use most of."""
    teams = list(teams)
    parts = [Fraction(0)]
    for resource in {name for team in teams for name in team.quota}:
        quota = sum(team.quota.get(resource, 0) for team in teams)
        used = sum(team.used(resource) for team in teams) + (gang.amount(resource) if gang else 0)
        parts.append(Fraction(used, quota) if quota else Fraction(used > 0))
    return max(parts)


class TwoLevelQueue:
    """Admits the gangs of teams by fair share, and reclaims what was borrowed."""

    def __init__(self, scheduler: mo.Scheduler, teams: Iterable[Team]) -> None:
        self.scheduler = scheduler
        self.teams = {team.name: team for team in teams}

    def submit(self, team: str, gang: Gang) -> None:
        """Append a gang to the queue of a team."""
        self.teams[team].waiting.append(gang)

    def admit(self) -> list[str]:
        """Start gangs until none can start; return what happened, in order."""
        log: list[str] = []
        blocked: set[str] = set()  # teams whose first gang cannot start now
        while (team := self._next(blocked)) is not None:
            gang = team.waiting[0]
            victims = self._room_for(team, gang)
            if victims is None:
                blocked.add(team.name)
                continue
            for owner, victim in victims:
                self._evict(owner, victim)
                log.append(f"evicted {owner.name}/{victim.name} for {team.name}/{gang.name}")
            self._start(team, gang)
            log.append(f"started {team.name}/{gang.name}")
        return log

    def finish(self, team: str, name: str) -> None:
        """Remove a gang that has ended."""
        owner = self.teams[team]
        gang = next(one for one in owner.running if one.name == name)
        owner.running.remove(gang)
        self.scheduler.release(gang.pods)

    def _next(self, blocked: set[str]) -> Team | None:
        """The team whose turn it is: the poorest one of the poorest department."""
        able = [team for team in self.teams.values() if team.waiting and team.name not in blocked]
        return min(able, key=lambda team: (self._department(team), share([team]), team.name), default=None)

    def _department(self, team: Team) -> Fraction:
        return share(one for one in self.teams.values() if one.department == team.department)

    def _room_for(self, team: Team, gang: Gang) -> list[tuple[Team, Gang]] | None:
        """The gangs to evict so that a gang fits; None if it cannot start."""
        chosen: list[tuple[Team, Gang]] = []
        with self.scheduler.transaction():  # whatever is tried here is undone
            if self._fits(gang):
                return chosen
            if share([team], gang) > 1:  # more than its quota: it may borrow, but not take back
                return None
            for owner, victim in self._borrowed(team):
                self.scheduler.release(victim.pods)
                chosen.append((owner, victim))
                if self._fits(gang):
                    return chosen
        return None

    def _borrowed(self, claimant: Team) -> Iterator[tuple[Team, Gang]]:
        """The gangs with which other teams exceed their quotas: newest gangs of the richest team first."""
        left = {
            team.name: Team(team.name, "", team.quota, running=[*team.running])
            for team in self.teams.values()
        }
        while True:
            richest = max(left.values(), key=lambda team: (share([team]), team.name))
            if richest.name == claimant.name or share([richest]) <= 1:
                return
            yield self.teams[richest.name], richest.running.pop()

    def _fits(self, gang: Gang) -> bool:
        result = self.scheduler.schedule_pods(gang.pods, dry_run=True, stop_on_failure=True)
        return not result.unschedulable

    def _start(self, team: Team, gang: Gang) -> None:
        """Place and bind the pods of a gang."""
        self.scheduler.bind(self.scheduler.schedule_pods(gang.pods))
        team.waiting.popleft()
        team.running.append(gang)

    def _evict(self, owner: Team, gang: Gang) -> None:
        """End a gang, which waits again before the others of its team."""
        self.scheduler.release(gang.pods)
        owner.running.remove(gang)
        owner.waiting.appendleft(gang)


def gang(name: str, size: int, gpus: int) -> Gang:
    """A gang of equal pods."""
    requests = {"cpu": "1", "nvidia.com/gpu": str(gpus)}
    resources = {"requests": requests, "limits": requests}
    containers = [{"name": "main", "image": "job:1", "resources": resources}]
    pods = [
        {"kind": "Pod", "metadata": {"name": f"{name}-{at}"}, "spec": {"containers": containers}}
        for at in range(size)
    ]
    return Gang(name, [mo.read_object(pod, mo.Pod) for pod in pods])


def main() -> None:
    """Two departments on four nodes of four GPUs: research borrows, and production takes its part back."""
    size = {"cpu": "64", "pods": "110", "nvidia.com/gpu": "4"}
    status = {"capacity": size, "allocatable": size}
    nodes = [{"kind": "Node", "metadata": {"name": f"n{at}"}, "status": status} for at in range(4)]
    teams = [
        Team("vision", "research", {"nvidia.com/gpu": 4000}),
        Team("speech", "research", {"nvidia.com/gpu": 4000}),
        Team("search", "production", {"nvidia.com/gpu": 8000}),
    ]
    queue = TwoLevelQueue(mo.Scheduler(mo.load(nodes)), teams)
    for name in ("a", "b", "c"):
        queue.submit("vision", gang(name, size=2, gpus=2))
    queue.submit("speech", gang("d", size=2, gpus=2))
    print(*queue.admit(), sep="\n")
    print("search asks for its quota")
    queue.submit("search", gang("e", size=4, gpus=2))
    print(*queue.admit(), sep="\n")
    print("search has ended")
    queue.finish("search", "e")
    print(*queue.admit(), sep="\n")


if __name__ == "__main__":
    main()
