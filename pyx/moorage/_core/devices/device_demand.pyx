# cython: auto_pickle=False
"""DeviceDemand: which nodes have the devices for some claims, for all rows of the node table.

A search for devices is repeated only for the views whose devices have changed since. Nodes with equal views
have one answer.
"""

import numpy as np

from moorage.errors import MoorageError

from moorage._core.base cimport LOG_ROW, allocate

cdef enum:
    MAX_ALTERNATIVES = 8
    LONG = 1 << 16  # a longer list of changes begins anew, and demands look at all views


cdef list NOWHERE = []


cdef class DeviceViews:
    """The views of all nodes, and the changes of their devices.

    Parameters
    ----------
    state : ClusterState
    views : sequence of DeviceView
        All free of order.
    view_of : sequence of int
        By row of the node table, the index of its view; -1 for none.
    features : Features

    Attributes
    ----------
    taken : list of (int, DeviceDemand, int, list)
        What pods of a batch have taken since the caller emptied the list: the index of the pod, the demand,
        the index of the view, and the result of the search.
    changed : list of int
        The indices of views of which a device may have changed, in order.
    """

    def __cinit__(self, ClusterState state not None, views, view_of, features):
        cdef int32_t row, at
        self.state, self.features, self.memory = state, features, []
        self.views, self.rows = list(views), <int32_t>len(view_of)
        self.view_of = <int32_t*>allocate(self.memory, sizeof(int32_t), self.rows + 1)
        self.rows_of = [[] for _ in self.views]
        self.changed, self.taken, self.of_pool, self.of_device = [], [], {}, {}
        for row in range(self.rows):
            self.view_of[row] = view_of[row]
            if view_of[row] >= 0:
                self.rows_of[view_of[row]].append(row)
        for at, view in enumerate(self.views):
            for pool in view.pools:
                self.of_pool.setdefault((pool.driver, pool.name), []).append(at)

    def view_at(self, int32_t row):
        """Return the view of a row, or None.

        Parameters
        ----------
        row : int

        Returns
        -------
        DeviceView or None
        """
        return self.views[self.view_of[row]] if 0 <= row < self.rows and self.view_of[row] >= 0 else None

    def load_some(self, devices, allocated):
        """Set the state of some devices.

        Parameters
        ----------
        devices : iterable of (str, str, str)
        allocated : AllocatedDevices
        """
        cdef list views
        consumed, used = allocated.consumed, allocated.devices
        for device in devices:
            views = self.views_with(device)
            _set_state(self, views, device, device in used, consumed.get(device) if consumed else None)
            self.note(views)

    def load(self, allocated):
        """Set the state of all devices.

        Parameters
        ----------
        allocated : AllocatedDevices
        """
        cdef DeviceView view
        for view in self.views:
            view.free_others(allocated)
        consumed, used = allocated.consumed, allocated.devices
        for device in used:
            shares = consumed.get(device) if consumed else None
            _set_state(self, self.views_with(device), device, True, shares)
        for device, shares in consumed.items():
            _set_state(self, self.views_with(device), device, device in used, shares)
        self.changed.clear()
        self.epoch += 1

    cdef list views_with(self, tuple device):
        """The indices of the views that may have a device."""
        cdef tuple pool = (device[0], device[1])
        cdef list found = self.of_pool.get(pool, NOWHERE)
        cdef dict by_name
        if len(found) < 2:
            return found
        by_name = self.of_device.get(pool)
        if by_name is None:
            by_name = self.of_device[pool] = {}
            for at in found:
                for name in (<DeviceView>self.views[at]).names_in(pool):
                    by_name.setdefault(name, []).append(at)
        return by_name.get(device[2], NOWHERE)

    cdef int note(self, list views) except -1:
        """Note that the state of a device of some views may have changed."""
        if len(self.changed) > LONG:
            self.changed.clear()
            self.epoch += 1
        self.changed += views


cdef int _set_state(DeviceViews views, list places, tuple device, bint used, shares) except -1:
    """Set the state of a device in the views that may have it."""
    for at in places:
        (<DeviceView>views.views[at]).set_state(device, used, shares)


cdef class SharedDevices(NodeDevices):
    """The node of the pod that took devices last, for the pods after it that share its claim.

    Parameters
    ----------
    views : DeviceViews

    Attributes
    ----------
    leaders : dict of int to int
        By the index of a pod in the batch, that of the earlier pod for which its claim is allocated. The
        caller adds to it.
    """

    def __cinit__(self, DeviceViews views not None):
        self.views, self.memory, self.leaders, self.row = views, [], {}, -1
        self.rows, self.is_decisive = views.rows, True
        self.fits = <uint8_t*>allocate(self.memory, 1, self.rows + 1)

    cdef int refresh(self) except -1:
        cdef Py_ssize_t n = len(self.views.taken)
        cdef tuple latest = self.views.taken[n - 1] if n else None
        cdef int32_t row
        if latest is self.latest:
            return 0
        row, self.latest = self._row_of(latest), latest
        if row != self.row:
            for at in (self.row, row):
                if at >= 0:
                    self.fits[<int32_t>at] = at == row
                    self.views.state.table.changed(LOG_ROW, at)
            self.row = row

    cdef int32_t _row_of(self, tuple latest) except -2:
        """The only row from which the devices that a pod has taken can be used; -1 if there may be more."""
        if latest is None:
            return -1
        rows, view = self.views.rows_of[latest[2]], self.views.views[latest[2]]
        for _, devices in latest[3]:
            specs = [view.device(device).slice.spec for _, device, _ in devices]
            if not specs or not all([one.node_name for one in specs]):
                return -1
        return rows[0] if len(rows) == 1 else -1

    cdef bint decides(self, int32_t pod) except -1:
        return self.row >= 0 and self.leaders.get(pod) == self.latest[0]


cdef class DeviceDemand(NodeDevices):
    """Which nodes have the devices that some claims ask for, and what is found there.

    Parameters
    ----------
    views : DeviceViews
    wanted : Wanted
        Its claims stand for all that ask for the same.
    most_steps : int
        The number of steps that the search on one node may take; 0 for any number.
    """

    def __cinit__(self, DeviceViews views not None, Wanted wanted not None, most_steps=0):
        cdef Py_ssize_t n = len(views.views)
        self.views, self.wanted, self.memory, self.most_steps = views, wanted, [], most_steps
        self.rows, self.is_decisive, self.cursor = views.rows, True, -1
        self.fits = <uint8_t*>allocate(self.memory, 1, self.rows + 1)
        self.versions = <int64_t*>allocate(self.memory, sizeof(int64_t), n + 1)
        self.scores = <int32_t*>allocate(self.memory, sizeof(int32_t), n + 1)
        self.failed = <uint8_t*>allocate(self.memory, 1, n + 1)
        self.searches, self.unused, self.answers = {}, {}, [None] * n

    cdef int refresh(self) except -1:
        cdef Py_ssize_t at
        if self.cursor == len(self.views.changed) and self.epoch == self.views.epoch:
            return 0
        if self.cursor < 0 or self.epoch != self.views.epoch:
            for at in range(len(self.views.views)):
                self._answer(<int32_t>at)
        else:
            for at in range(self.cursor, len(self.views.changed)):
                self._answer(self.views.changed[at])
        self.cursor, self.epoch = len(self.views.changed), self.views.epoch
        _decide(self)

    cdef int _answer(self, int32_t at) except -1:
        """Search the devices of a view again, if its devices have changed."""
        cdef DeviceView view = self.views.views[at]
        cdef int32_t row
        cdef bint fits, failed
        if self.versions[at] == view.version + 1:
            return 0
        self.versions[at] = view.version + 1
        found, failed = self._found_in(view) if view.version else self._found_unused(view)
        self.n_failed += failed - self.failed[at]
        self.failed[at] = failed
        self.answers[at], fits = found, found is not None
        self.scores[at] = _score(self.wanted, found) if fits else -1
        for row in self.views.rows_of[at]:
            if self.fits[row] != fits:
                self.fits[row] = fits
                self.views.state.table.changed(LOG_ROW, row)

    cdef tuple _found_unused(self, DeviceView view):
        """What is found in a view whose devices never were in use: the same as in all such views with its
        columns."""
        cdef tuple found = self.unused.get(view if view.like is None else view.like)
        if found is None:
            found = self.unused[view if view.like is None else view.like] = self._found_in(view)
        return found

    cdef tuple _found_in(self, DeviceView view):
        """What is found in a view, or None; and whether plugins have to search there."""
        found = None
        try:
            found = self._search_of(view).find()
        except MoorageError:
            return None, True
        return (None, True) if found is not None and _has_shares(found) else (found, False)

    cdef DeviceSearch _search_of(self, DeviceView view):
        """The search of a view: views with the same columns share one."""
        cdef DeviceView like = view if view.like is None else view.like
        cdef DeviceSearch search = self.searches.get(like)
        if search is None:
            search = DeviceSearch(self.wanted, like, self.views.features, self.most_steps)
            search.settle()
            self.searches[like] = search
        search.view = view
        return search

    def fits_on(self, rows):
        """Return which nodes have the devices.

        Parameters
        ----------
        rows : (n,) array of int

        Returns
        -------
        (n,) bool array

        Raises
        ------
        LookupError
            A search of one of the nodes has to tell.
        """
        cdef const int32_t[:] asked = np.asarray(rows, dtype=np.int32)
        cdef Py_ssize_t at
        cdef int32_t row, view
        out = np.empty(len(asked), dtype=bool)
        cdef uint8_t[::1] fits = out.view(np.uint8)
        self.refresh()
        for at in range(len(asked)):
            row = asked[at]
            view = self.views.view_of[row] if 0 <= row < self.rows else -1
            if view < 0 or self.failed[view]:
                raise LookupError(f"no answer for row {row}")
            fits[at] = self.fits[row]
        return out

    def found_on(self, int32_t row):
        """Return what the search on a node has found.

        Parameters
        ----------
        row : int

        Returns
        -------
        list or None
            See `DeviceSearch.find`.

        Raises
        ------
        LookupError
            A search of the node has to tell.
        """
        self.refresh()
        cdef int32_t at = self.views.view_of[row] if 0 <= row < self.rows else -1
        if at < 0 or self.failed[at]:
            raise LookupError(f"no answer for row {row}")
        return self.answers[at]

    cdef int take(self, int32_t pod, int32_t row) except -1:
        cdef int32_t at = self.views.view_of[row], member
        cdef DeviceView view = self.views.views[at], other
        cdef list places
        found = self.answers[at]
        self.views.taken.append((pod, self, at, found))
        for _, devices in found:
            for alternative, device, _ in devices:
                if self.wanted.alternatives[alternative].admin_access:
                    continue
                name = view.id_of(device)
                places = self.views.views_with(name)
                for place in places:
                    other = self.views.views[place]
                    for member in other.members_of(name):
                        other.set_used(member, True)
                self.views.note(places)


cdef bint _has_shares(found) except -1:
    """Whether a share of a device was found: what it takes of the capacity is left to plugins."""
    for _, devices in found:
        for _, _, is_share in devices:
            if is_share:
                return True
    return False


cdef int32_t _score(Wanted wanted, found) except -1:
    """The score of a node: the earlier an alternative in its list, the better."""
    cdef int32_t claim, at, total = 0
    if wanted.has_choices:
        for claim in range(wanted.n_claims):
            for at, choice in enumerate(found[claim][0]):
                if wanted.each[wanted.choices[wanted.requests[claim] + at]].is_choice:
                    total += MAX_ALTERNATIVES - <int32_t>choice
    return total


cdef int _decide(DeviceDemand demand) except -1:
    """Find out whether plugins have to decide."""
    cdef Py_ssize_t at
    cdef int32_t score = -1
    demand.is_decisive = demand.n_failed == 0
    if not demand.wanted.has_choices:
        return 0  # all scores are equal
    for at in range(len(demand.answers)):
        if not demand.failed[at] and demand.scores[at] >= 0:
            demand.is_decisive &= score in (-1, demand.scores[at])
            score = demand.scores[at]
