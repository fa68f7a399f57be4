"""Which of many nodes and claims could take a pod, by columns: the loop under Karpenter's `HostTable`."""

from libc.stdint cimport int32_t


def next_possible(
    const int32_t[::1] order not None,
    Py_ssize_t first,
    tuple columns not None,
    tuple amounts not None,
    const unsigned char[::1] agreed not None,
    const unsigned char[::1] allowed,
):
    """The first place in an order, from one on, whose host could take a pod; -1 for none.

    Parameters
    ----------
    order : int32 array
        Rows of hosts.
    columns : tuple of arrays
        By row what each host has left of some resources (float64, a row per resource), its kind, and its
        place in `allowed` (int32).
    amounts : tuple of float
        What the pod requests of each of the resources.
    agreed : bytes
        By kind, whether its hosts could take the pod.
    allowed : bytes or None
        Bits of the hosts that topologies allow, the lowest first; None for all.
    """
    if len(columns) != 3:
        raise ValueError("columns are room, kinds and places")
    cdef const double[:, ::1] room = columns[0]
    cdef const int32_t[::1] kind = columns[1], place = columns[2]
    cdef double[8] wanted
    cdef Py_ssize_t at, row, name, names = len(amounts), bit
    if not names <= min(room.shape[0], 8) or not room.shape[1] == kind.shape[0] == place.shape[0]:
        raise ValueError("columns and amounts differ in their sizes")
    for name in range(names):
        wanted[name] = amounts[name]
    for at in range(max(first, 0), order.shape[0]):
        row = order[at]
        if not 0 <= row < kind.shape[0] or not 0 <= kind[row] < agreed.shape[0]:
            raise IndexError("order or kinds have a row that is not there")
        if not agreed[kind[row]]:
            continue
        if allowed is not None:
            bit = place[row]
            if not 0 <= bit < allowed.shape[0] * 8 or not allowed[bit >> 3] >> (bit & 7) & 1:
                continue
        for name in range(names):
            if room[name, row] < wanted[name]:
                break
        else:
            return at
    return -1
