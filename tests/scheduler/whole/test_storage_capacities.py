"""What is provisioned uses up the storage capacity that its driver publishes."""

from __future__ import annotations

from typing import Any

from tests.controllers.workloads.make import machine, pods, replicas
from tests.make import make

import moorage as mo
from moorage import Scheduler
from moorage.kube import CSIStorageCapacity, Object, build_cluster


def capacity(name: str, zone: str, size: str, of: str = "fast", **rest: Any) -> Object:
    topology = {"matchLabels": {"topology.kubernetes.io/zone": zone}}
    return make("CSIStorageCapacity", name, nodeTopology=topology, storageClassName=of, capacity=size, **rest)


def database(count: int) -> Object:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "4Gi"}},
        "storageClassName": "fast",
    }
    claims = [{"metadata": {"name": "data"}, "spec": spec}]
    own: dict[str, Any] = {"volumeClaimTemplates": claims, "podManagementPolicy": "Parallel"}
    own |= {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"}}
    return replicas("StatefulSet", "db", count, "1", **own)


def scheduler(count: int, *capacities: Object) -> Scheduler:
    fast = make("StorageClass", "fast", provisioner="csi", volumeBindingMode="WaitForFirstConsumer")
    driver = make("CSIDriver", "csi", {"storageCapacity": True})
    nodes = machine("a", 9, "a"), machine("b", 9, "b")
    one = mo.Scheduler(build_cluster([*nodes, fast, driver, *capacities, database(count)]))
    one.run()
    return one


def left(one: Scheduler) -> dict[str, str]:
    found: list[CSIStorageCapacity] = one.client.list(CSIStorageCapacity)[0]
    return {each.name: str(each.capacity) for each in found}


def test_no_more_volumes_are_made_than_there_is_capacity() -> None:
    one = scheduler(5, capacity("in-a", "a", "10Gi"), capacity("in-b", "b", "5Gi"))
    assert sorted(pods(one).values()) == ["", "", "a", "a", "b"]
    assert left(one) == {"in-a": "2Gi", "in-b": "1Gi"}
    failure, _ = one.run().unschedulable.values()
    assert "did not have enough free storage" in failure.message


def test_capacity_of_another_class_does_not_count() -> None:
    one = scheduler(2, capacity("in-a", "a", "10Gi"), capacity("slow", "a", "10Gi", "slow"))
    assert left(one) == {"in-a": "2Gi", "slow": "10Gi"}


def test_the_largest_volume_is_no_larger_than_what_is_left() -> None:
    one = scheduler(2, capacity("in-a", "a", "10Gi", maximumVolumeSize="6Gi"))
    (mine,) = one.client.list(CSIStorageCapacity)[0]
    assert (str(mine.capacity), str(mine.maximum_volume_size)) == ("2Gi", "2Gi")


def test_a_volume_that_goes_gives_its_capacity_back() -> None:
    one = scheduler(2, capacity("in-a", "a", "10Gi"))
    one.change.delete("sts/db")
    one.run()
    assert left(one) == {"in-a": "10Gi"}


def test_a_transaction_takes_nothing() -> None:
    one = scheduler(1, capacity("in-a", "a", "10Gi"))
    with one.transaction():
        one.change.scale("sts/db", 2)
        one.run()
        assert left(one) == {"in-a": "2Gi"}
    assert left(one) == {"in-a": "6Gi"}
    fork = one.fork()
    fork.change.delete("sts/db")
    fork.run()
    assert (left(fork), left(one)) == ({"in-a": "10Gi"}, {"in-a": "6Gi"})
