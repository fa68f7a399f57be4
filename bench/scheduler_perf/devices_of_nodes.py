"""Devices of a workload: what drivers publish, and claims that are allocated without pods."""

from __future__ import annotations

from fnmatch import fnmatchcase

from msgspec.structs import replace
from tests.devices.node_by_node import Allocator

from moorage.answers.scheduler import Scheduler
from moorage.controllers.resource_claim_controller import ResourceClaimController
from moorage.engine.devices.allocated_devices import allocation_of, has_conditions
from moorage.engine.devices.claim_requests import ClaimRequests
from moorage.engine.devices.device_state import DeviceState
from moorage.kube import Node, Pod
from moorage.kube.model.meta import Condition, ObjectMeta
from moorage.kube.model.resource_claims import AllocatedDeviceStatus, ResourceClaim
from moorage.kube.model.resource_slices import (
    Device,
    DeviceAttribute,
    DeviceCapacity,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)


class SimulatedDevices:
    """The drivers of a workload, and its controller of resource claims.

    Parameters
    ----------
    scheduler : Scheduler
        A scheduler with a store of its own.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        assert scheduler.store is not None
        self.scheduler, self.store = scheduler, scheduler.store
        for_groups = scheduler.handle.feature_gates["DRAWorkloadResourceClaims"]
        self.controller = ResourceClaimController(self.store, for_groups)

    def publish(self, driver: str, nodes: str, number: int, conditions: bool = False) -> None:
        """Publish devices of a driver, one slice for each node.

        Parameters
        ----------
        nodes : str
            Pattern of the names of nodes, as in a shell.
        number : int
            Devices of each node.
        conditions : bool, optional
            Whether the devices have binding conditions.
        """
        devices = tuple([_device(at, conditions) for at in range(number)])
        for node in self.store.list(Node)[0]:
            if fnmatchcase(node.name, nodes):
                spec = ResourceSliceSpec(
                    driver=driver,
                    pool=ResourcePool(name=node.name, resource_slice_count=1),
                    node_name=node.name,
                    devices=devices,
                )
                meta = ObjectMeta(name=f"{driver}-{node.name}")
                self.store.create(ResourceSlice(metadata=meta, spec=spec))
        self.scheduler.sync()

    def allocate(self, namespace: str) -> str | None:
        """Allocate the claims that have no devices, each on the first node that has them.

        Parameters
        ----------
        namespace : str
            Namespace of the claims; "" for all.

        Returns
        -------
        str or None
            The key of a claim that no node has the devices for.
        """
        state: DeviceState = self.scheduler.handle.shared(DeviceState.of)
        nodes: list[Node] = self.store.list(Node)[0]
        claims: list[ResourceClaim] = self.store.list(ResourceClaim, namespace)[0]
        first = 0
        for claim in claims:
            if claim.status.allocation is not None:
                continue
            wanted = [ClaimRequests.of(claim)]
            for at in range(first, len(nodes)):
                allocator = Allocator(
                    state.slices(),
                    state.features,
                    state.claim_cache.in_use(),
                    state.class_of(),
                    state.selectors,
                )
                found = allocator.allocate(nodes[at], wanted)
                if found is not None:
                    break
                first += at == first  # equal claims never fit there again
            else:
                return claim.key
            allocation = allocation_of(found[0], nodes[at].name, state.features)
            status = replace(claim.status, allocation=allocation)
            self.store.update(replace(claim, status=status))
            self.scheduler.sync()
        return None

    def unreachable(self) -> str:
        """Return how many slices select no node, as the end of a message; "" if there are none."""
        slices: list[ResourceSlice] = self.store.list(ResourceSlice)[0]
        if not slices:
            return ""
        state: DeviceState = self.scheduler.handle.shared(DeviceState.of)
        reached = {
            one.slice.name for node in self.store.list(Node)[0] for one in state.slices().offered(node)
        }
        unreachable = sum(one.name not in reached for one in slices)
        return f"; {unreachable} of {len(slices)} ResourceSlices select no node" if unreachable else ""

    def claims(self, namespace: str) -> list[str]:
        """Return the names of the claims of a namespace."""
        claims: list[ResourceClaim] = self.store.list(ResourceClaim, namespace)[0]
        return [claim.name for claim in claims]

    def awaits_conditions(self, namespace: str, name: str) -> bool:
        """Whether a claim has a device with binding conditions.

        Parameters
        ----------
        namespace, name : str
            Of the claim.
        """
        return has_conditions(self.store.get(ResourceClaim, name, namespace))

    def report(self, namespace: str, name: str, condition: Condition) -> None:
        """Report a condition of all devices of a claim that have binding conditions.

        Parameters
        ----------
        namespace, name : str
            Of the claim.
        """
        claim = self.store.get(ResourceClaim, name, namespace)
        allocation, status = claim.status.allocation, claim.status
        assert allocation is not None
        reported = [
            AllocatedDeviceStatus(
                driver=one.driver, pool=one.pool, device=one.device, conditions=(condition,)
            )
            for one in allocation.devices.results
            if one.binding_conditions or one.binding_failure_conditions
        ]
        status = replace(status, devices=(*status.devices, *reported))
        self.store.update(replace(claim, status=status))
        self.scheduler.sync()

    def make_claims(self, pods: list[Pod]) -> None:
        """Make the claims of new pods.

        Parameters
        ----------
        pods : list of Pod
            As they are in the store.
        """
        self.controller.make_claims(pods)
        self.scheduler.sync()


def _device(at: int, conditions: bool) -> Device:
    """A device of the test driver of scheduler_perf (kubernetes v1.36, dra.go)."""
    return Device(
        name=f"instance-{at}",
        attributes={
            "model": DeviceAttribute(string="A100"),
            "family": DeviceAttribute(string="GPU"),
            "driverVersion": DeviceAttribute(version="1.2.3"),
            "dra.example.com/numa": DeviceAttribute(int_=at),
        },
        capacity={"memory": DeviceCapacity(value="1Gi")},
        binds_to_node=True if conditions else None,
        binding_conditions=("DeviceAttached",) if conditions else None,
        binding_failure_conditions=("AttachmentFailed",) if conditions else None,
    )
