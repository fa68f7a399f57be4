"""DeviceView: the devices that a node can use, as columns, and which of them are in use.

Nodes that see the same pools have equal views. A view numbers its devices: first those that can be allocated,
in the order in which they are tried, then those of slices for other nodes, which may consume counters of the
pools. The rules are those of kube-scheduler (k8s.io/dynamic-resource-allocation).
"""

from moorage.errors import MoorageError

from libc.string cimport memset

from moorage._core.base cimport Quantity, allocate

cdef object MOST = 1 << 120  # larger amounts count as this one
cdef object HIGH = 1 << 60
cdef enum:
    MOST_WHOLES = 1 << 12
cdef dict _wholes = {}  # see `_whole`
cdef list NOBODY = []


cdef mr_amount amount_of(nanos) except? -1:
    """An amount from a number of 10**-9."""
    cdef int64_t high, low
    high, low = divmod(max(-MOST, min(MOST, nanos)), HIGH)
    return (<mr_amount>high << 60) + low


cdef object nanos_of(mr_amount amount):
    """The number of 10**-9 of an amount."""
    return (<int64_t>(amount >> 60)) * HIGH + <int64_t>(amount & ((<mr_amount>1 << 60) - 1))


cdef object nanos(quantity):
    """The number of 10**-9 of a quantity."""
    return (<Quantity?>quantity).nanos()


cdef class DeviceView:
    """The pools of a node, and the state of their devices.

    Parameters
    ----------
    pools : sequence of DevicePool
        In the order in which they are tried.
    node : Node
    features : Features
    is_order_free : bool
        Whether the counters of a pool depend on its own devices alone. As upstream, pools with one owner of
        counters share what the first of them had available when it was asked first in a cycle.
    like : DeviceView, optional
        A view that was made without another, of pools with the same kinds of slices, chosen devices and
        number of names (see `DeviceSlices.new_view`).

    Attributes
    ----------
    pools : list of DevicePool
    """

    def __cinit__(self, pools, node, features, bint is_order_free, DeviceView like=None):
        cdef Py_ssize_t at
        self.pools, self.is_order_free, self.memory, self.like = list(pools), is_order_free, [], like
        self.features, self.keeps_shared = features, features.release.shared_devices_are_kept
        self.place_of = {(pool.driver, pool.name): at for at, pool in enumerate(self.pools)}
        if like is None:
            _fill_columns(self, node, features)
        else:
            _share_columns(self, like)
        _allocate_state(self)

    @property
    def devices(self):
        """All devices."""
        if self.all_devices is None:
            self.all_devices = [device for pool in self.pools for device in pool.devices]
            self.all_devices += [device for pool in self.pools for device in pool.elsewhere]
        return self.all_devices

    cpdef device(self, int32_t member):
        """Return a device; others need not be made for it.

        Parameters
        ----------
        member : int

        Returns
        -------
        PublishedDevice

        Raises
        ------
        IndexError
            There is no such device.
        """
        _check(self, member)
        if self.all_devices is None and member < self.n:
            return self.pools[self.pool[member]].device(member - self.first[self.pool[member]])
        return self.devices[member]

    def pool_of(self, int32_t member):
        """Return the pool of a device.

        Parameters
        ----------
        member : int

        Returns
        -------
        DevicePool

        Raises
        ------
        IndexError
            There is no such device.
        """
        _check(self, member)
        return self.pools[self.pool[member]]

    cpdef tuple id_of(self, int32_t member):
        """Return the identifier of a device.

        Parameters
        ----------
        member : int

        Returns
        -------
        (str, str, str)

        Raises
        ------
        IndexError
            There is no such device.
        """
        _check(self, member)
        pool = self.pools[self.pool[member]]
        return pool.driver, pool.name, self.device_names[member]

    cdef list names_in(self, tuple pool):
        """The names of the devices of a pool, by driver and name of the pool."""
        at = self.place_of[pool]
        return [name for place, name in self.index if place == at]

    cdef list members_of(self, tuple device):
        """The members with an identifier."""
        at = self.place_of.get((device[0], device[1]))
        return NOBODY if at is None else self.index.get((at, device[2]), NOBODY)

    def load(self, allocated):
        """Set the state of all devices.

        Parameters
        ----------
        allocated : AllocatedDevices
        """
        cdef int32_t member
        for member in range(self.members):
            name = self.id_of(member)
            self.set_used(member, name in allocated.devices)
            self.set_shares(member, allocated.consumed.get(name))

    cdef int free_others(self, allocated) except -1:
        """Free the devices that are not allocated any more."""
        cdef int32_t member
        for member in range(self.members):
            if self.used[member] or self.is_shared[member]:
                name = self.id_of(member)
                if name not in allocated.devices:
                    self.set_used(member, False)
                if name not in allocated.consumed:
                    self.set_shares(member, None)

    cpdef int set_state(self, tuple device, bint used, dict shares) except -1:
        """Set the state of a device.

        Parameters
        ----------
        device : (str, str, str)
            Its identifier.
        used : bool
            Whether an allocation has it.
        shares : mapping of str to Quantity or None
            What shares take of its capacity; None if there are no shares.
        """
        cdef int32_t member
        driver, pool, name = device
        for member in self.members_of((driver, pool, name)):
            self.set_used(member, used)
            self.set_shares(member, shares)

    cdef int set_used(self, int32_t member, bint used) except -1:
        """Set whether an allocation has a device."""
        if self.used[member] != used:
            self.used[member] = used
            _mark(self, member)

    cdef bint is_in_use(self, int32_t device) noexcept:
        """Whether an allocation has a device, or a share of one that may no longer be shared."""
        return self.used[device] or (
            self.keeps_shared and self.is_shared[device] and not self.flags[device] & SEVERAL)

    cdef int set_shares(self, int32_t member, dict amounts) except -1:
        """Set what shares take of the capacity of a device."""
        cdef int32_t at, first = self.capacity[member]
        cdef mr_amount amount
        if amounts is None and not self.is_shared[member]:
            return 0
        if self.is_shared[member] != (amounts is not None):
            self.is_shared[member] = amounts is not None
            _mark(self, member)
        self.is_charged[member] = amounts is not None and (
            bool(amounts) or self.features.release.shares_without_amounts_count)
        for at in range(first, self.capacity[member + 1]):
            quantity = None if amounts is None else amounts.get(self.capacities[at])
            amount = 0 if quantity is None else amount_of(nanos(quantity))
            if self.in_use[at] != amount:
                self.in_use[at] = amount
                _mark(self, member)

    cdef int refresh(self) except -1:
        """Bring what is derived from the state up to date."""
        cdef int32_t at, pool
        for at in range(self.n_dirty):
            pool = self.dirty[at]
            self.is_dirty[pool] = False
            if self.is_order_free:
                self.make_ready(pool, None)
            _open(self, pool)
        self.n_dirty = 0

    cdef int make_ready(self, int32_t pool, dict cycle) except -1:
        """Find out what is available of the counters of a pool.

        `cycle` is None, or has what was available in the present cycle by the owner of counters, as
        dictionaries of (set, counter) to 10**-9.
        """
        cdef int32_t at, name = self.name[pool]
        cdef const Consumption* counter
        self.is_short[name] = False
        of_counters = self.pools[pool]
        owner = self.features.owner_of_counters(of_counters.driver, of_counters.name)
        known = None if cycle is None else cycle.get(owner)
        if known is None:
            for at in range(self.shared[pool], self.shared[pool + 1]):
                counter = &self.available[at]
                self.limit[counter.slot], self.is_limited[counter.slot] = counter.amount, True
            _subtract(self, self.first[pool], self.first[pool + 1])
            _subtract(self, self.elsewhere[pool], self.elsewhere[pool + 1])
            for at in range(self.shared[pool], self.shared[pool + 1]):
                self.is_short[name] |= self.limit[self.available[at].slot] < 0
            if cycle is not None:
                cycle[owner] = {
                    self.keys[at]: nanos_of(self.limit[self.available[at].slot])
                    for at in range(self.shared[pool], self.shared[pool + 1])
                }
        else:
            for key, amount in known.items():
                self.is_short[name] |= amount < 0
                slot = self.slot_of.get((name, key))
                if slot is not None:
                    self.limit[<int32_t>slot], self.is_limited[<int32_t>slot] = amount_of(amount), True
        self.is_ready[name] = True

    cdef int32_t* attribute_values(self, str attribute, bint is_typed) except NULL:
        """The value of an attribute of each usable device as a number; ABSENT without it, LISTED for a list,
        which equals nothing, and UNREADABLE if it is typed and cannot be read."""
        cdef Py_ssize_t at
        cdef int32_t* out
        if self.like is not None:
            return self.like.attribute_values(attribute, is_typed)
        known = self.values_of.get((attribute, is_typed))
        if known is None:
            out = <int32_t*>allocate(self.memory, sizeof(int32_t), self.n + 1)
            numbers = {}
            for at in range(self.n):
                try:
                    value = self.all_devices[at].attribute_value(attribute, is_typed)
                except MoorageError:
                    out[at] = UNREADABLE
                    continue
                if value is None:
                    out[at] = ABSENT
                else:
                    out[at] = <int32_t>numbers.setdefault(value, len(numbers)) if value else LISTED
            known = self.values_of[attribute, is_typed] = <Py_ssize_t>out
        return <int32_t*><Py_ssize_t>known

    cdef void touch(self, int32_t device) noexcept nogil:
        """Note that a search changes its state of a device."""
        if not self.is_touched[device]:
            self.is_touched[device] = True
            self.touched[self.n_touched] = device
            self.n_touched += 1

    cdef void forget_search(self) noexcept:
        """Clear the state of a search."""
        cdef int32_t each, at, device
        for each in range(self.n_touched):
            device = self.touched[each]
            self.is_touched[device] = self.has_share[device] = False
            self.taken[device] = 0
            for at in range(self.counters[device], self.counters[device + 1]):
                self.consumed[self.consumptions[at].slot] = 0
            for at in range(self.capacity[device], self.capacity[device + 1]):
                self.share[at] = 0
        self.n_touched = 0
        if not self.is_order_free:
            memset(self.is_ready, 0, self.n_names)
            memset(self.is_limited, 0, self.n_slots)


cdef int _check(DeviceView view, int32_t member) except -1:
    if not 0 <= member < view.members:
        raise IndexError(f"there is no device {member} among {view.members}")
    return 0


cdef int _mark(DeviceView view, int32_t member) except -1:
    """Note that the state of a device has changed."""
    cdef int32_t pool = view.pool[member]
    view.version += 1
    if not view.is_dirty[pool]:
        view.is_dirty[pool] = True
        view.dirty[view.n_dirty] = pool
        view.n_dirty += 1


cdef int _subtract(DeviceView view, int32_t first, int32_t end) except -1:
    """Subtract from the available counters what allocated devices consume."""
    cdef int32_t member, at
    for member in range(first, end):
        if view.used[member] or view.is_shared[member]:
            for at in range(view.counters[member], view.counters[member + 1]):
                if view.is_limited[view.consumptions[at].slot]:
                    view.limit[view.consumptions[at].slot] -= view.consumptions[at].amount


cdef int _open(DeviceView view, int32_t pool) except -1:
    """Find out which devices of a pool a search can take at all."""
    cdef int32_t device, at
    cdef const Consumption* consumption
    for device in range(view.first[pool], view.first[pool + 1]):
        view.open[device] = not view.is_in_use(device)
        if not view.flags[device] & COUNTING or not view.is_order_free \
                or (view.flags[device] & SEVERAL and view.is_charged[device]):
            continue
        if view.is_short[view.name[pool]]:
            view.open[device] = False
        for at in range(view.counters[device], view.counters[device + 1]):
            consumption = &view.consumptions[at]
            if view.is_limited[consumption.slot] and view.limit[consumption.slot] < consumption.amount:
                view.open[device] = False


# ---- columns -----------------------------------------------------------------------------------------------


cdef int _fill_columns(DeviceView view, node, features) except -1:
    """Make the columns of a view."""
    cdef int32_t at
    view.n = <int32_t>sum([len(pool.devices) for pool in view.pools])
    view.members = <int32_t>len(view.devices)
    view.index, view.slot_of, view.values_of, view.names = {}, {}, {}, {}
    view.device_names = [device.id[2] for device in view.devices]
    _fill_pools(view)
    for at in range(view.members):
        view.index.setdefault((view.pool[at], view.device_names[at]), []).append(at)
    _fill_devices(view, node, features)
    _fill_counters(view)
    _fill_capacities(view)


cdef int _share_columns(DeviceView view, DeviceView like) except -1:
    """Use the columns of another view."""
    if len(view.pools) != like.n_pools or like.like is not None:
        raise ValueError("the other view has other pools")
    view.n, view.members, view.n_pools, view.n_names = like.n, like.members, like.n_pools, like.n_names
    view.n_slots, view.slot_of, view.names, view.index = like.n_slots, like.slot_of, like.names, like.index
    view.device_names, view.keys, view.capacities = like.device_names, like.keys, like.capacities
    view.pool, view.flags, view.first, view.elsewhere = like.pool, like.flags, like.first, like.elsewhere
    view.name, view.counters, view.consumptions = like.name, like.counters, like.consumptions
    view.shared, view.available, view.capacity, view.whole = \
        like.shared, like.available, like.capacity, like.whole


cdef int _fill_pools(DeviceView view) except -1:
    cdef int32_t at, device = 0, other = view.n
    view.n_pools = <int32_t>len(view.pools)
    view.first = <int32_t*>allocate(view.memory, sizeof(int32_t), view.n_pools + 1)
    view.elsewhere = <int32_t*>allocate(view.memory, sizeof(int32_t), view.n_pools + 1)
    view.name = <int32_t*>allocate(view.memory, sizeof(int32_t), view.n_pools + 1)
    view.pool = <int32_t*>allocate(view.memory, sizeof(int32_t), view.members + 1)
    for at in range(view.n_pools):
        owner = view.features.owner_of_counters(view.pools[at].driver, view.pools[at].name)
        view.name[at] = view.names.setdefault(owner, len(view.names))
        view.first[at], view.elsewhere[at] = device, other
        for device in range(device, device + <int32_t>len(view.pools[at].devices)):
            view.pool[device] = at
        device = view.first[at] + <int32_t>len(view.pools[at].devices)
        for other in range(other, other + <int32_t>len(view.pools[at].elsewhere)):
            view.pool[other] = at
        other = view.elsewhere[at] + <int32_t>len(view.pools[at].elsewhere)
    view.first[view.n_pools], view.elsewhere[view.n_pools] = device, other
    view.n_names = <int32_t>len(view.names)


cdef int _fill_devices(DeviceView view, node, features) except -1:
    cdef int32_t at
    view.flags = <uint8_t*>allocate(view.memory, 1, view.members + 1)
    for at in range(view.n):
        published = view.all_devices[at]
        device = published.device
        if device.allow_multiple_allocations and features.consumable_capacity:
            view.flags[at] |= SEVERAL
        if device.consumes_counters:
            view.flags[at] |= COUNTING
        if device.binding_conditions:
            view.flags[at] |= WAITING
        if not published.slice.spec.per_device_node_selection or published.is_for(node):
            view.flags[at] |= HERE


cdef int32_t _slot(DeviceView view, int32_t name, key) except -1:
    """The number of a counter of the pools with one owner of counters."""
    return view.slot_of.setdefault((name, key), len(view.slot_of))


cdef int _fill_counters(DeviceView view) except -1:
    cdef int32_t at, n = 0, member
    cdef int32_t total = sum([len(one.counters) for one in view.all_devices if one.device.consumes_counters])
    view.counters = <int32_t*>allocate(view.memory, sizeof(int32_t), view.members + 1)
    view.consumptions = <Consumption*>allocate(view.memory, sizeof(Consumption), total + 1)
    for member in range(view.members):
        view.counters[member] = n
        if not view.all_devices[member].device.consumes_counters:
            continue
        for key, quantity in view.all_devices[member].counters.items():
            view.consumptions[n].slot = _slot(view, view.name[view.pool[member]], key)
            view.consumptions[n].amount = amount_of(nanos(quantity))
            n += 1
    view.counters[view.members] = n
    view.keys = [key for pool in view.pools for key in pool.counters]
    view.shared = <int32_t*>allocate(view.memory, sizeof(int32_t), view.n_pools + 1)
    view.available = <Consumption*>allocate(view.memory, sizeof(Consumption), len(view.keys) + 1)
    n = 0
    for at in range(view.n_pools):
        view.shared[at] = n
        for key, quantity in view.pools[at].counters.items():
            view.available[n].slot = _slot(view, view.name[at], key)
            view.available[n].amount = amount_of(nanos(quantity))
            n += 1
    view.shared[view.n_pools] = n
    view.n_slots = <int32_t>len(view.slot_of)


cdef object _whole(value):
    """The number of 10**-9 of a capacity as it is written; most devices have one of a few."""
    known = _wholes.get(value)
    if known is None:
        if len(_wholes) >= MOST_WHOLES:
            _wholes.clear()
        known = _wholes[value] = nanos(Quantity(value))
    return known


cdef int _fill_capacities(DeviceView view) except -1:
    cdef int32_t n = 0, member
    view.capacities = [name for published in view.all_devices for name in published.device.capacity]
    view.capacity = <int32_t*>allocate(view.memory, sizeof(int32_t), view.members + 1)
    view.whole = <mr_amount*>allocate(view.memory, sizeof(mr_amount), len(view.capacities) + 1)
    for member in range(view.members):
        view.capacity[member] = n
        for capacity in view.all_devices[member].device.capacity.values():
            view.whole[n] = amount_of(_whole(capacity.value))
            n += 1
    view.capacity[view.members] = n


cdef int _allocate_state(DeviceView view) except -1:
    """Take memory for the state of a view, at once: large items first."""
    cdef int32_t pool
    cdef Py_ssize_t n = view.n + 1, members = view.members + 1, pools = view.n_pools + 1
    cdef Py_ssize_t names = view.n_names + 1, slots = view.n_slots + 1, capacities = len(view.capacities) + 1
    cdef mr_amount* amounts
    cdef int32_t* numbers
    cdef uint8_t* flags
    amounts = <mr_amount*>allocate(
        view.memory, 1, 2 * (slots + capacities) * sizeof(mr_amount) + (2 * n + pools) * sizeof(int32_t)
        + 3 * members + 3 * n + pools + 2 * names + slots)
    numbers = <int32_t*>(amounts + 2 * (slots + capacities))
    flags = <uint8_t*>(numbers + 2 * n + pools)
    view.in_use, view.share = amounts, amounts + capacities
    view.limit, view.consumed = view.share + capacities, view.share + capacities + slots
    view.taken, view.touched, view.dirty = numbers, numbers + n, numbers + 2 * n
    view.used, view.is_shared, view.is_charged, flags = \
        flags, flags + members, flags + 2 * members, flags + 3 * members
    view.open, view.has_share, view.is_touched, flags = flags, flags + n, flags + 2 * n, flags + 3 * n
    view.is_ready, view.is_short, flags = flags, flags + names, flags + 2 * names
    view.is_limited, view.is_dirty = flags, flags + slots
    for pool in range(view.n_pools):
        view.is_dirty[pool], view.dirty[pool] = True, pool
    view.n_dirty = view.n_pools
