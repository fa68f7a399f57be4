# cython: auto_pickle=False
"""The objects of an informer by key, in the order of their additions, with indexes. Changes can be undone.

A state that is saved costs nothing: it is a mark in a log of what has been replaced since. The log is kept as
long as somebody holds a mark.
"""

from weakref import ref

cimport cython

from moorage._core.base.fields cimport METADATA, SPEC, VOLUMES, Field, key_of
from moorage._core.base.watch_events cimport (
    Cause, Notice, ObjectMap, WatchEvent, _identity, _is_same, _notice, _uid, made,
)

cdef Field RESOURCE_VERSION = Field("resource_version"), OWNER_REFERENCES = Field("owner_references")
cdef object ABSENT = object()
cdef dict EMPTY = {}
cdef str ADDED = "ADDED"  # the same object in most events
cdef enum:
    MOST_PENDING = 1 << 12  # changes of an index, which keep their objects alive

# What a change in the log is of, where it is not of an entry.
cdef object DEFINED = object(), BUILT = object(), REPLACED = object()


cdef class Mark:
    """A saved state: the changes since, up to the next mark. They are kept while the mark is held."""

    def __cinit__(self):
        self.changes = []


cdef class UndoLog:
    """What is to be restored to return to a mark."""

    def mark(self):
        """Return a mark of the present state.

        Returns
        -------
        Mark
        """
        cdef Mark out = Mark(), last = None if self.newest is None else self.newest()
        if last is not None:
            last.later = out
        self.newest = ref(out)
        return out

    cdef list changes(self):
        """Return the list that takes changes; None where nobody holds a mark."""
        cdef Mark last = None if self.newest is None else self.newest()
        return None if last is None else last.changes

    cdef list take(self, Mark mark):
        """Remove the changes since a mark, and return them, the last one first. Later marks are void; for one
        of them ValueError is raised."""
        cdef list out = mark.changes
        cdef Mark last = mark
        while last.later is not None:
            last = last.later
            out += last.changes
        if self.newest is None or self.newest() is not last:
            raise ValueError("an earlier state has been restored since this one was saved")
        mark.changes, mark.later = [], None
        self.newest = ref(mark)
        out.reverse()
        return out


@cython.no_gc  # cannot be part of a reference cycle
cdef class OrderedMap:
    """A dict that keeps the order of the additions when removals are undone.

    Parameters
    ----------
    held : dict
        The contents; the map takes ownership.
    owner : object, optional
        The only one that may change the map.
    """

    def __cinit__(self, dict held not None, owner=None):
        self.held, self.owner, self.is_sorted = held, owner, True

    cdef OrderedMap copy(self, object owner):
        """Return a copy for another owner."""
        cdef OrderedMap out = OrderedMap(self.held.copy(), owner)
        out.numbers = None if self.numbers is None else self.numbers.copy()
        out.next, out.is_sorted = self.next, self.is_sorted
        return out

    cdef int set(self, key, value, list changes, str index, str group) except -1:
        """Set the value of a key; log what was there as a change of a group of an index, unless `changes` is
        None."""
        if changes is not None or self.numbers is not None:
            before = self.held.get(key, ABSENT)
            if changes is not None:
                changes.append((index, group, key, before, 0))
            if before is ABSENT and self.numbers is not None:
                self.numbers[key] = self.next
                self.next += 1
        self.held[key] = value

    cdef int drop(self, key, list changes, str index, str group) except -1:
        """Remove a key, as `set` does."""
        if changes is not None:
            _number(self)
            changes.append((index, group, key, self.held[key], self.numbers[key]))
        del self.held[key]
        if self.numbers is not None:
            del self.numbers[key]

    cdef int restore(self, key, before, long long number) except -1:
        """Undo a change."""
        if before is ABSENT:
            del self.held[key]
            if self.numbers is not None:
                del self.numbers[key]
            return 0
        if key not in self.held:
            _number(self)
            self.numbers[key] = number
            self.is_sorted = False
        self.held[key] = before

    cdef dict in_order(self):
        """Return the contents, in order."""
        if not self.is_sorted:
            values = [(key, self.held[key]) for key in sorted(self.held, key=self.numbers.__getitem__)]
            self.held.clear()
            self.held.update(values)
            self.is_sorted = True
        return self.held


cdef int _number(OrderedMap entries) except -1:
    """Number the keys of a map."""
    if entries.numbers is None:
        entries.numbers = {key: at for at, key in enumerate(entries.held)}
        entries.next = len(entries.held)


cdef class Index:
    """Values of objects, each with the keys of those that have it; `groups` is None until it is built.

    Changes of a lasting index are pending until it is read or the contents are saved. One that was read and
    is not there, as an undo went back to before, is built again by the next save: else every change that is
    tried and undone would build it.
    """

    def __cinit__(self, str name not None, function not None, bint is_lasting):
        self.name, self.function, self.is_lasting, self.pending = name, function, is_lasting, []
        self.is_read = False


cdef class IndexedObjects:
    """Objects by key, with indexes that are built when they are first read.

    An object may be held by the event that makes it.
    """

    def __cinit__(self):
        self.objects, self.log, self.owner, self.indexes = ObjectMap({}), UndoLog(), object(), {}
        self.order = OrderedMap(self.objects.held)

    def __class_getitem__(cls, item):
        return cls

    def __len__(self):
        return len(self.objects.held)

    # ---- saving and restoring ------------------------------------------------------------------------------

    def save(self):
        """Return a mark of the contents and the definitions of indexes, for `undo`.

        Returns
        -------
        Mark
        """
        cdef Index index
        for index in self.indexes.values():
            if index.is_read:
                self.built(index.name)
        return self.log.mark()

    def undo(self, Mark mark not None):
        """Return to a mark, which may be used again; later marks are void.

        Parameters
        ----------
        mark : Mark

        Returns
        -------
        bool
            Whether there was anything to undo.

        Raises
        ------
        ValueError
            The mark is void.
        """
        cdef list changes = self.log.take(mark)
        for change in changes:
            self._undo(change)
        return bool(changes)

    def is_at(self, Mark mark not None):
        """Whether nothing has changed, and nothing was saved, since a mark.

        Parameters
        ----------
        mark : Mark
        """
        return not mark.changes and self.log.newest is not None and self.log.newest() is mark

    def has_changed_since(self, Mark mark not None):
        """Whether `undo` to a mark would change anything.

        Parameters
        ----------
        mark : Mark
        """
        cdef Mark at = mark
        while at is not None:
            if at.changes:
                return True
            at = at.later
        return False

    cdef int _undo(self, tuple change) except -1:
        """Undo a change. Those of an index that is not built any more are left out."""
        cdef Index index
        name, value, key, before, number = change
        if value is REPLACED:
            self.objects, self.order, groups = before
            for index in self.indexes.values():
                index.groups = groups.get(index.name)
        elif value is DEFINED:
            del self.indexes[name]
        elif name is None:
            self.order.restore(key, before, number)
        else:
            index = self.indexes[name]
            if value is BUILT:
                index.groups = None
            elif index.groups is not None:
                (index.groups if value is None else self.group(index, value)).restore(key, before, number)

    def copy_from(self, IndexedObjects other not None):
        """Take copies of the objects of another map, and of those indexes that have the same function here.

        Parameters
        ----------
        other : IndexedObjects
        """
        cdef Index index, its
        self.replace(other.order.in_order().copy())
        for index in other.indexes.values():
            other._settle(index)
        other.owner = object()  # as both have the groups of its indexes now, a change copies them
        for index in self.indexes.values():
            its = other.indexes.get(index.name)
            if its is not None and its.function is index.function and its.groups is not None:
                index.groups, index.is_read = its.groups.copy(self.owner), True

    def replace(self, dict objects not None):
        """Replace the objects.

        Parameters
        ----------
        objects : dict of str to Object
            By key. The map takes ownership of the dict.
        """
        cdef list changes = self.log.changes()
        cdef Index index
        if changes is not None:
            groups = {index.name: index.groups for index in self.indexes.values()}
            changes.append((None, REPLACED, None, (self.objects, self.order, groups), 0))
        self.objects = ObjectMap(objects)
        self.order = OrderedMap(objects)
        self.forget_indexes()

    # ---- reading -------------------------------------------------------------------------------------------

    def get(self, key):
        """Return the object of a key, or None.

        Parameters
        ----------
        key : str

        Returns
        -------
        Object or None
        """
        return self.objects.find(key)

    def to_dict(self):
        """Return a new dict of key to object, in the order of the additions.

        Returns
        -------
        dict of str to Object
        """
        self.order.in_order()
        return self.objects.to_dict()

    def identities(self):
        """Return for each object one that exists already and is like it (see `WatchEvent.identity`).

        Returns
        -------
        list of Object
        """
        return [_identity(held) for held in self.order.in_order().values()]

    def identity(self, key):
        """Return an object that exists already and is like that of a key (see `WatchEvent.identity`).

        Parameters
        ----------
        key : str

        Returns
        -------
        Object or None
            None for a key without an object.
        """
        held = self.objects.held.get(key)
        return None if held is None else _identity(held)

    # ---- indexes -------------------------------------------------------------------------------------------

    def define(self, str name not None, function not None, bint is_lasting):
        """Define an index.

        Parameters
        ----------
        name : str
        function : callable
            Returns the values of an object.
        is_lasting : bool
            Whether the values depend on nothing that bindings, conditions and the resource version change.

        Raises
        ------
        ValueError
            There is an index of that name.
        """
        cdef list changes = self.log.changes()
        if name in self.indexes:
            raise ValueError(f"indexer conflict: {name}")
        if changes is not None:
            changes.append((name, DEFINED, None, None, 0))
        self.indexes[name] = Index(name, function, is_lasting)

    def forget_indexes(self):
        """Drop the contents of all indexes; each is built again when it is read."""
        cdef Index index
        for index in self.indexes.values():
            index.groups, index.pending = None, []

    cdef Index built(self, str name):
        """Return an index, with its contents; KeyError where there is none."""
        cdef Index index = self.indexes.get(name)
        cdef list changes
        if index is None:
            raise KeyError(f"Index with name {name} does not exist")
        self._settle(index)
        if index.groups is None:
            changes = self.log.changes()
            if changes is not None:
                changes.append((name, BUILT, None, None, 0))
            index.groups, index.is_read = OrderedMap({}, self.owner), True
            for key, held in list(self.order.in_order().items()):
                obj = _identity(held) if index.is_lasting else made(held)
                self._enter(index, key, None, obj, None)
        return index

    cdef OrderedMap group(self, Index index, str value):
        """Return the keys of a value for a change, which no other map shares then; None without keys."""
        cdef OrderedMap out = index.groups.held.get(value)
        if out is not None and out.owner is not self.owner:
            out = index.groups.held[value] = out.copy(self.owner)
        return out

    def keys(self, str name, value):
        """Return the keys of the objects that have a value in an index, in the order in which they got it.

        Parameters
        ----------
        name : str
        value : str

        Returns
        -------
        list of str

        Raises
        ------
        KeyError
            There is no such index.
        """
        return list(self._keys(name, value))

    def identities_by_index(self, str name, value):
        """Return for each object that has a value in an index one that exists already and is like it (see
        `WatchEvent.identity`).

        Parameters
        ----------
        name : str
        value : str

        Returns
        -------
        list of Object
            In the order of `keys`.

        Raises
        ------
        KeyError
            There is no such index.
        """
        cdef dict held = self.objects.held
        return [_identity(held[key]) for key in self._keys(name, value)]

    cdef dict _keys(self, str name, value):
        """The keys of the objects that have a value in an index, in a dict that is not to be changed."""
        cdef Index index = self.built(name)
        cdef OrderedMap found = index.groups.held.get(value)
        if found is not None and not found.is_sorted:
            found = self.group(index, value)
        return EMPTY if found is None else found.in_order()

    def count(self, str name, value):
        """Return the number of objects that have a value in an index.

        Parameters
        ----------
        name : str
        value : str

        Returns
        -------
        int

        Raises
        ------
        KeyError
            There is no such index.
        """
        cdef OrderedMap found = self.built(name).groups.held.get(value)
        return 0 if found is None else len(found.held)

    def values_of(self, str name):
        """Return the values that the objects have in an index.

        Parameters
        ----------
        name : str

        Returns
        -------
        list of str

        Raises
        ------
        KeyError
            There is no such index.
        """
        return list(self.built(name).groups.in_order())

    # ---- changes -------------------------------------------------------------------------------------------

    def apply(self, events, tombstone not None, list notices not None):
        """Apply events in their order.

        If a function of an index raises, all events have been applied, and the indexes are incomplete.

        Parameters
        ----------
        events : iterable of WatchEvent
        tombstone : callable
            Returns what stands for an object whose deletion was not observed, from its key and last known
            state. It is called where an event deletes an object of the same name and another UID.
        notices : list of Notice
            Takes what handlers are to be told: a notice for each event.
        """
        cdef WatchEvent event
        cdef Index index
        cdef Cause cause
        cdef str key
        cdef list replaced = [], changes = self.log.changes()
        cdef dict objects = self.objects.held
        for event in events:
            key = event.name()
            held, new = objects.get(key), event.held()
            cause = event.cause if _is_same(event._old, held) else Cause.OTHER
            if event.type is ADDED or event.type != "DELETED":
                notices.append(_notice(held, new, cause))
                self.order.set(key, new, changes, None, None)
            elif held is None or _uid(held) == _uid(event):
                notices.append(_notice(new, None, cause))
                if held is not None:
                    self.order.drop(key, changes, None, None)
            else:  # an event was lost: handlers are told of the object that they know
                notices.append(_notice(tombstone(key, made(held)), None, Cause.OTHER))
                self.order.drop(key, changes, None, None)
            replaced.append(held)
        for index in self.indexes.values():
            if index.groups is not None:
                for event, held in zip(events, replaced):
                    old = _state(held, index.is_lasting)
                    new = None if event.type == "DELETED" else _state(event, index.is_lasting)
                    if old is not new:
                        self._change(index, event.name(), old, new, changes)

    def put_newer(self, objects, dict assumed not None):
        """Set objects that are newer than those of their keys, up to the first that needs a closer look.

        That is one that has no metadata, or whose resource version and that of the object of its key are not
        numbers with equally many digits.

        Parameters
        ----------
        objects : iterable of Object
        assumed : dict of str to Object
            Objects that count instead of those that are there; an object that is set ends them.

        Returns
        -------
        list of str or None
            The keys of the objects; None for one that is not newer.
        """
        cdef list keys = []
        cdef str key
        for obj in objects:
            try:
                key = key_of(obj)
            except AttributeError:
                break
            known = assumed.get(key) if assumed else None
            if known is None:
                known = self.objects.find(key)
            if known is not None:
                new, old = RESOURCE_VERSION.of(METADATA.of(obj)), RESOURCE_VERSION.of(METADATA.of(known))
                if type(new) is not str or type(old) is not str or not _are_like_numbers(new, old):
                    break
                if not new > old:
                    keys.append(None)
                    continue
            self.put(key, obj)
            if assumed:
                assumed.pop(key, None)
            keys.append(key)
        return keys

    def put(self, str key not None, held):
        """Set the object of a key.

        Parameters
        ----------
        key : str
        held : Object or None
            None removes the object.

        Returns
        -------
        Object or None
            What it was.
        """
        cdef list changes = self.log.changes()
        cdef Index index
        old = self.objects.find(key)
        if held is not None:
            self.order.set(key, held, changes, None, None)
        elif old is not None:
            self.order.drop(key, changes, None, None)
        for index in self.indexes.values():
            if index.groups is not None:
                self._change(index, key, old, held, changes)
        return old

    cdef int _change(self, Index index, key, old, new, list changes) except -1:
        """Replace an object in an index; None for no object. A lasting index enters the change when it is
        read, unless it has to be undoable."""
        if changes is not None or not index.is_lasting:
            return self._enter(index, key, old, new, changes)
        index.pending.append((key, old, new))
        return self._settle(index) if len(index.pending) >= MOST_PENDING else 0

    cdef int _settle(self, Index index) except -1:
        """Enter the pending changes of an index, which nobody can undo."""
        if not index.pending:
            return 0
        pending, index.pending = index.pending, []
        try:
            for key, old, new in pending:
                self._enter(index, key, old, new, None)
        except BaseException:
            index.groups = None
            raise
        return 0

    cdef int _enter(self, Index index, key, old, new, list changes) except -1:
        """Replace an object in an index; None for no object."""
        cdef OrderedMap group
        cdef tuple values = () if new is None else tuple(index.function(new))
        cdef tuple before = () if old is None else tuple(index.function(old))
        for value in before if len(before) < 2 else tuple(dict.fromkeys(before)):
            if value not in values:
                group = self.group(index, value)
                group.drop(key, changes, index.name, value)
                if not group.held:
                    index.groups.drop(value, changes, index.name, None)
        for value in values:
            group = self.group(index, value)
            if group is None:
                group = OrderedMap({}, self.owner)
                index.groups.set(value, group, changes, index.name, None)
            if key not in group.held:
                group.set(key, None, changes, index.name, value)


def new_states(notices, bint only_added=False):
    """Return the objects after the leading notices that are of no deletion.

    Parameters
    ----------
    notices : iterable of Notice
    only_added : bool, optional
        Whether a notice of a change ends them, too.

    Returns
    -------
    list of Object
    """
    cdef Notice notice
    cdef list out = []
    for notice in notices:
        if notice._new is None or only_added and notice._old is not None:
            break
        out.append(notice.new)
    return out


def of_dependents(notices):
    """Select the notices that may concern an owner of a pod or an object that a pod owns.

    Parameters
    ----------
    notices : iterable of Notice
        Of pods.

    Returns
    -------
    number : int
        The number of all notices.
    selected : list of Notice
        Of pods that have owners, now or before a change; of deleted pods with volumes, too; tombstones.
    """
    cdef Notice notice
    cdef bint is_selected
    cdef Py_ssize_t number = 0
    cdef list selected = []
    for notice in notices:
        number += 1
        if notice is None:
            raise TypeError("a notice is None")
        if notice._new is None:
            is_selected = _may_leave_dependents(notice._old)
        else:
            new = _identity(notice._new)
            is_selected = _has_owners(new) or notice._old is not None and notice._old is not new \
                and _has_owners(notice._old)
        if is_selected:
            selected.append(notice)
    return number, selected


cdef bint _has_owners(object held) except -1:
    """Whether an object has owners."""
    held = _identity(held)
    return bool(OWNER_REFERENCES.of(METADATA.of(held)))


cdef bint _may_leave_dependents(object held) except -1:
    """Whether a deleted pod has owners or volumes, or is known by a tombstone, which has no metadata."""
    held = _identity(held)
    return not hasattr(held, "metadata") or _has_owners(held) or bool(VOLUMES.of(SPEC.of(held)))


cdef class Reader:
    """Reads the objects of an indexer by key.

    Parameters
    ----------
    find : callable
        Returns the object of a key, or None, under the lock of the indexer.
    contents : IndexedObjects
        The objects of the indexer.
    assumed : dict of str to object, optional
        Objects that are read instead of those of the indexer.
    """

    def __cinit__(self, find not None, IndexedObjects contents not None, dict assumed=None):
        self.find, self.contents, self.assumed = find, contents, assumed

    cdef object read(self, key):
        """The object of a key, or None. An object that exists is found without the lock."""
        held = self.assumed.get(key) if self.assumed else None
        if held is None:
            held = self.contents.objects.held.get(key)
        return self.find(key) if type(held) is WatchEvent else held


cdef bint _are_like_numbers(str one, str other) except -1:
    """Whether two texts are numbers with equally many digits, which are compared as texts."""
    cdef Py_UCS4 digit
    if len(one) != len(other) or not one:
        return False
    for digit in one:
        if not c"0" <= digit <= c"9":
            return False
    for digit in other:
        if not c"0" <= digit <= c"9":
            return False
    return True


cdef object _state(object held, bint is_lasting):
    """Return an object that is held, or for an index that bindings do not change one that is like it."""
    return _identity(held) if is_lasting else made(held)
