"""The volumes in use: pods with volumes by row, uses of claims, the volumes of CSI drivers on each row."""

from libc.stdint cimport int32_t

from moorage._core.base cimport METADATA, NAMESPACE, SPEC, UID, VOLUMES, Field
from moorage._core.base.indexed_objects cimport Reader
from moorage._core.csrc cimport MR_PRESENT
from moorage._core.state cimport ClusterState

cdef Field CLAIMED = Field("persistent_volume_claim"), CLAIM_NAME = Field("claim_name")
cdef Field CLAIM_SPEC = Field("spec"), VOLUME_NAME = Field("volume_name"), VOLUME_SPEC = Field("spec")
cdef Field CSI = Field("csi"), DRIVER = Field("driver"), HANDLE = Field("volume_handle")
# Disks that are not claimed, and claims that are made for the pod.
cdef tuple DISKS = tuple([
    Field(name)
    for name in (
        "gce_persistent_disk", "aws_elastic_block_store", "azure_disk", "cinder", "portworx_volume", "iscsi",
        "rbd",
    )
])
cdef Field EPHEMERAL = Field("ephemeral")

MANY_USERS = 16  # of a volume, from which on plugins place a pod that uses it


cdef class VolumeCounts:
    """Counts the volumes of CSI drivers that the pods of each row use, each volume of a row once.

    A subclass has `volumes_of`, `volume_of`, `volume_of_class`, `column_of` and `set_node_name`.

    Parameters
    ----------
    claims, volumes : Reader
        Of the informers.

    Attributes
    ----------
    errors : dict of int to dict of str to str
        By row, the UIDs of pods whose volumes cannot be determined, each with upstream's error message.
    pods_with, attachments_with : dict of CSIVolume to dict of int to int
        By volume, the rows where pods use it, with their number, and those where it is attached.
    of_pod : dict of (int, str) to tuple of CSIVolume
        By row and UID, the volumes of a pod.
    pods_of : dict of str to dict of (int, str) to None
        By claim, row and UID of its pods.
    names : dict of int to str
        By row, its node, as `set_node_name` was told.
    attached : dict of int to frozenset of CSIVolume
        By row, the volumes that are attached to its node.
    resolved : dict of str to CSIVolume or None
        By claim, what is counted for it.
    claims_of : dict of str to set of str
        By volume, its claims, and maybe others.
    used : dict of str to (rows,) int32 array
        By driver, the number of volumes of each row.
    unsettled : dict of int to None
        The rows whose counts have changed.
    """

    cdef Reader claims, volumes
    cdef public dict errors, pods_with, attachments_with, of_pod, pods_of, attached, resolved, claims_of
    cdef public dict used, unsettled, names
    cdef object error  # what tells that the volumes of a pod cannot be determined
    cdef object column
    cdef int32_t[::1] counts  # the elements of `column`, which was counted in last

    def __cinit__(self, *args, **others):
        self.forget()

    def read_by(self, Reader claims not None, Reader volumes not None, error not None):
        """Set what reads claims and volumes, and the exception of `volumes_of`.

        Parameters
        ----------
        claims, volumes : Reader
            Of the informers.
        error : type
        """
        self.claims, self.volumes, self.error = claims, volumes, error

    cpdef int forget(self) except -1:
        """Drop all counts."""
        self.errors, self.pods_with, self.attachments_with, self.of_pod = {}, {}, {}, {}
        self.pods_of, self.attached, self.resolved, self.claims_of = {}, {}, {}, {}
        self.used, self.unsettled, self.names, self.column = {}, {}, {}, None

    cpdef object resolve(self, str key):
        """Return the volume that is counted for a claim.

        Parameters
        ----------
        key : str
            The claim, as ``namespace/name``.

        Returns
        -------
        CSIVolume or None
            None if none is.
        """
        if key in self.resolved:
            return self.resolved[key]
        found = self.resolved[key] = self._look_up(key)
        return found

    cdef object _look_up(self, str key):
        """The volume that is counted for a claim; None if none is."""
        cdef object claim, volume, source
        if self.claims is None:
            raise RuntimeError("read_by was not called")
        claim = self.claims.read(key)
        if claim is None:
            return None
        name = VOLUME_NAME.of(CLAIM_SPEC.of(claim))
        if name:
            if name in self.claims_of:
                (<set>self.claims_of[name]).add(key)
            else:
                self.claims_of[name] = {key}
            volume = self.volumes.read(name)
            if volume is not None:
                source = CSI.of(VOLUME_SPEC.of(volume))
                if source is None:
                    return self.volume_of(volume)
                driver, handle = DRIVER.of(source), HANDLE.of(source)
                return (driver, handle) if driver and handle else None
        return self.volume_of_class(key, claim)

    cpdef int add_pod(self, pod, int32_t row) except -1:
        """Count the volumes of a pod that was added to a row.

        Parameters
        ----------
        pod : Pod
        row : int
            Row of the node table.
        """
        cdef str uid = UID.of(METADATA.of(pod))
        cdef tuple at = (row, uid), volumes
        cdef list claims = []
        cdef dict rows
        try:
            volumes = self._volumes_of(pod, claims)
        except self.error as error:
            volumes = ()
            self.errors.setdefault(row, {})[uid] = str(error)
        for key in claims:
            _enter(self.pods_of, key, at, None)
        self.of_pod[at] = volumes
        for volume in volumes:
            rows = self.pods_with.get(volume)
            if rows is None:
                rows = self.pods_with[volume] = {}
            if row in rows:
                rows[row] += 1
                continue
            if not self._is_attached(row, volume):
                self.count(row, volume, 1)
            rows[row] = 1

    cpdef int remove_pod(self, pod, int32_t row) except -1:
        """Subtract the volumes of a pod that was removed from a row.

        Parameters
        ----------
        pod : Pod
            The pod, as passed to `add_pod`.
        row : int
            Row of the node table.
        """
        cdef str uid = UID.of(METADATA.of(pod))
        cdef tuple at = (row, uid)
        cdef dict rows
        for volume in <tuple>self.of_pod.pop(at):
            rows = self.pods_with[volume]
            rows[row] -= 1
            if not rows[row]:
                del rows[row]
                if not self._is_attached(row, volume):
                    self.count(row, volume, -1)
            if not rows:
                del self.pods_with[volume]
        for volume in <tuple>VOLUMES.of(SPEC.of(pod)):
            key = pod.claim_key(volume)
            if key in self.pods_of:
                rows = self.pods_of[key]
                rows.pop(at, None)
                if not rows:
                    del self.pods_of[key]
                    self.resolved.pop(key, None)
        if row in self.errors:
            self.errors[row].pop(uid, None)
            if not self.errors[row]:
                del self.errors[row]

    cdef tuple _volumes_of(self, pod, list claims):
        """The volumes of a pod, each once; `claims` receives the keys of its claims."""
        cdef list found = []
        cdef bint is_plain = True
        for volume in <tuple>VOLUMES.of(SPEC.of(pod)):
            source = CLAIMED.of(volume)
            if source is None:
                is_plain = is_plain and EPHEMERAL.of(volume) is None and not _is_disk(volume)
                continue
            name = CLAIM_NAME.of(source)
            if not name:
                is_plain = False
                break
            key = f"{NAMESPACE.of(METADATA.of(pod))}/{name}"
            claims.append(key)
            resolved = self.resolve(key)
            if resolved is not None:
                found.append(resolved)
        if not is_plain:
            claims.clear()
            found = self.volumes_of(pod, False, claims)
        return tuple(found) if len(found) < 2 else tuple(set(found))

    cdef bint _is_attached(self, int32_t row, volume) except -1:
        """Whether a volume is attached to the node of a row."""
        return bool(self.attached) and volume in self.attached.get(row, ())

    def share(self, volumes not None, int32_t at, dict users not None, set excluded not None):
        """Note that a pod uses volumes, if the core can place it.

        Parameters
        ----------
        volumes : sequence of CSIVolume
            Those of drivers with limits, each once.
        at : int
            The index of the pod in its batch.
        users : dict of CSIVolume to list of int
            ``~index`` of the pods of the batch that use a volume.
        excluded : set of hashable
            What pods use that plugins will schedule.

        Returns
        -------
        list of (int, int, int), or None
            The volumes that may be counted on a row already; see `PodBatch`. None where one is excluded or
            has many users; then nothing was noted.
        """
        cdef list shared = [], drivers = sorted({driver for driver, _ in volumes})
        for number, volume in enumerate(volumes):
            places = self._places_of(volume, users)
            if len(places) > MANY_USERS or volume in excluded:
                return None
            shared += [(place, drivers.index(volume[0]), number) for place in places]
        for volume in volumes:
            users.setdefault(volume, []).append(~at)
        return shared

    cdef list _places_of(self, volume, dict users):
        """The rows where a volume is counted, and ``~index`` of the pods of the batch that use it."""
        cdef list out = [*self.pods_with.get(volume, ()), *users.get(volume, ())]
        return out + [row for row in self.attachments_with.get(volume, ()) if row not in out]

    cpdef int count(self, int32_t row, tuple volume, int32_t sign) except -1:
        """Add a volume to the number of a row, or subtract it.

        Parameters
        ----------
        row : int
            Row of the node table.
        volume : CSIVolume
        sign : int
            1 or -1.
        """
        if not volume:
            raise ValueError("a volume has a driver")
        column = self.used.get(volume[0])
        if column is None:
            column = self.column_of(volume[0])
        if column is not self.column:
            self.counts, self.column = column, column
        if not 0 <= row < self.counts.shape[0]:
            raise IndexError(f"there is no row {row}")
        self.counts[row] += sign
        self.unsettled[row] = None


cdef class VolumeUsers:
    """The pods of each row that use volumes, and the number of uses of each claim.

    A subclass has `count_disks`.

    Attributes
    ----------
    pods : dict of int to dict of str to Pod
        By row of the node table, its pods with volumes by UID; rows without such pods are omitted. What
        bindings set may be of an earlier state.
    claims : dict of str to int
        By ``namespace/name`` of a claim, the number of times that pods name it, without ephemeral volumes.
    released : int
        Grows whenever the last pod that names a claim leaves.
    """

    cdef public dict pods, claims
    cdef public long long released

    def __cinit__(self, *args):
        self.pods, self.claims = {}, {}

    def follow_rows(self, ClusterState state not None, VolumeCounts attached not None, rows):
        """Bring rows up to date.

        Parameters
        ----------
        state : ClusterState
        attached : AttachedVolumes
        rows : iterable of int
        """
        cdef int32_t row
        cdef dict known, pods
        cdef list left, joined
        cdef bint is_present
        for row in rows:
            is_present = row < state.table.used and state.table.row(0, row).flags & MR_PRESENT
            name = state.table.row_name(row) if is_present else ""
            if attached.names.get(row, "") != name:
                attached.set_node_name(row, name)
            known = self.pods.get(row)
            if is_present:
                pods = {} if known is None else known
                left, joined = state.ledger.follow_volumes(row, pods)
            else:
                pods, left, joined = {}, [] if known is None else list(known.values()), []
            for pod in left:
                self._count(pod, row, -1)
                attached.remove_pod(pod, row)
            for pod in joined:
                self._count(pod, row, 1)
                attached.add_pod(pod, row)
            if pods:
                self.pods[row] = pods
            elif known is not None:
                del self.pods[row]

    cdef int _count(self, pod, int32_t row, int sign) except -1:
        """Add (`sign` 1) or subtract (-1) the claims and disks of a pod at a row."""
        cdef bint has_disks = False
        for volume in <tuple>VOLUMES.of(SPEC.of(pod)):
            source = CLAIMED.of(volume)
            if source is None:
                has_disks = has_disks or _is_disk(volume)
                continue
            key = f"{NAMESPACE.of(METADATA.of(pod))}/{CLAIM_NAME.of(source)}"
            uses = self.claims.get(key, 0) + sign
            if uses:
                self.claims[key] = uses
            else:
                del self.claims[key]
                self.released += 1
        if has_disks:
            self.count_disks(pod, row, sign)


cdef int _enter(dict index, key, tuple at, value) except -1:
    """Enter a value into one of the dicts of an index."""
    cdef dict entries = index.get(key)
    if entries is None:
        index[key] = {at: value}
    else:
        entries[at] = value


cdef bint _is_disk(volume) except -1:
    """Whether a volume of a pod is a disk without a claim."""
    for source in DISKS:
        if (<Field>source).of(volume) is not None:
            return True
    return False
