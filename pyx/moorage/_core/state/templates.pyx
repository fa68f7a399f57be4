"""Pods of a template: entries of the ledger whose pod objects are created when they are read."""

from functools import partial

from msgspec.structs import replace

from moorage.errors import CacheError

cdef extern from "Python.h":
    Py_ssize_t PyUnicode_FindChar(object text, Py_UCS4 one, Py_ssize_t first, Py_ssize_t end, int direction)

cdef enum:
    DIGITS = 10  # decimal digits of LARGEST
    LARGEST = 0x7fffffff


cdef class Replicas:
    """The pods with ordinals `first` to `first + count - 1` of a template.

    Immutable, so forks and snapshots share it. Pod i has the name base + i, where base is
    metadata.generateName, or metadata.name and "-"; its UID is namespace/base#i.

    Parameters
    ----------
    template : Pod
    base : str
        The common prefix of the names.
    id : int
        The index in `Templates`.
    first, count : int
        The first ordinal, and the number of pods.
    """

    def __cinit__(self, template, str base not None, int32_t id, int32_t first, int32_t count):
        self.template = template
        self.base = base
        self.prefix = f"{template.metadata.namespace}/{base}"
        self.id = id
        self.first = first
        self.count = count

    cdef str uid(self, int32_t ordinal):
        """Return the UID of a pod."""
        return f"{self.prefix}#{ordinal}"

    cdef str key(self, int32_t ordinal):
        """Return namespace and name of a pod."""
        return f"{self.prefix}{ordinal}"

    cdef object make(self, int32_t ordinal):
        """Create the object of a pod, which does not name its node yet."""
        meta = replace(self.template.metadata, name=f"{self.base}{ordinal}", uid=self.uid(ordinal))
        return replace(self.template, metadata=meta)


cdef class Templates:
    """The replicas in one ledger, by UID prefix and ordinal.

    A `Replicas` entry exists as long as one of its pods is in the ledger without an object of its own. A
    stray is a pod with an object whose UID has the form of a replica's. The prefixes of strays are never
    removed, so that a rollback need not restore them.

    Parameters
    ----------
    journal : Journal
        Records the changes.
    """

    def __cinit__(self, Journal journal not None):
        self.journal = journal
        self.entries = []
        self.free = []
        self.by_prefix = {}
        self.strays = {}
        self.members = IntLists(journal)
        self.living = Buffer(journal, sizeof(int32_t))

    cdef Templates clone(self, Journal journal):
        """Return an independent copy."""
        cdef Templates out = Templates(journal)
        out.entries = self.entries.copy()
        out.free = self.free.copy()
        out.by_prefix = {prefix: listed.copy() for prefix, listed in self.by_prefix.items()}
        out.strays = self.strays.copy()
        out.members = self.members.clone(journal)
        out.living.copy_from(self.living)
        return out

    # ---- UIDs ----------------------------------------------------------------------------------------------

    cdef int32_t find(self, str uid) except -2:
        """Return the number of the replica with a UID, or -1."""
        cdef Replicas entry
        cdef int64_t ordinal
        if not self.by_prefix:
            return -1
        prefix, ordinal = split_uid(uid)
        listed = self.by_prefix.get(prefix)
        if listed is None or ordinal < 0:
            return -1
        entry = listed[max(0, _place(listed, ordinal) - 1)]
        if not entry.first <= ordinal < <int64_t>entry.first + entry.count:
            return -1
        return self.numbers(entry.id)[ordinal - entry.first]

    cdef int find_range(self, Replicas wanted, StringIndex index, int32_t* out) except -1:
        """Write to `out` the number of each pod that has the UID of one of some replicas; -1 where none has.

        `index` maps the UIDs of pods with objects to their numbers.
        """
        cdef Replicas entry
        cdef list listed = self.by_prefix.get(wanted.prefix, [])
        cdef int64_t at, last = <int64_t>wanted.first + wanted.count
        for at in range(wanted.count):
            out[at] = -1
        for entry in listed[max(0, _place(listed, wanted.first) - 1):]:
            if entry.first >= last:
                break
            for at in range(max(wanted.first, entry.first), min(last, <int64_t>entry.first + entry.count)):
                out[at - wanted.first] = self.numbers(entry.id)[at - entry.first]
        if wanted.prefix in self.strays:
            for at in range(wanted.count):
                if out[at] < 0:
                    out[at] = index.find(wanted.uid(<int32_t>(wanted.first + at)), -1)

    cdef int note_stray(self, str uid) except -1:
        """Record the prefix of the UID of a pod with an object, if the UID has the form of a replica's."""
        cdef int64_t ordinal
        cdef Py_ssize_t length = _ordinal_of(uid, &ordinal)
        if length >= 0:
            self.strays[uid[:length]] = None

    # ---- entering and leaving ------------------------------------------------------------------------------

    cdef int reserve(self, Py_ssize_t pods) except -1:
        """Make room for one more entry of `pods` pods, whose id is free: `prepare` may have named it."""
        if not self.free:
            self.entries.append(None)
            self.free.append(len(self.entries) - 1)
        self.members.reserve(len(self.entries) + 1)
        self.members.reserve_items(pods)
        self.living.reserve(len(self.entries) + 1)

    cdef Replicas prepare(self, object template, int64_t first, int64_t count, StringIndex index):
        """Return replicas that `enter` can add; raise CacheError if one of the ordinals or UIDs is in use.

        `index` maps the UIDs of pods with objects to their numbers.
        """
        cdef Replicas entry, out
        cdef Py_ssize_t at
        cdef int64_t ordinal
        id = self.free[len(self.free) - 1] if self.free else len(self.entries)
        out = replicas_of(template, first, count, id)
        listed = self.by_prefix.get(out.prefix, [])
        at = _place(listed, first)
        for entry in listed[max(0, at - 1):at + 1]:
            if first < <int64_t>entry.first + entry.count and entry.first < first + count:
                raise CacheError(f"pods {out.key(entry.first)} to {entry.first + entry.count - 1} are in the "
                                 f"cache, so {first} to {first + count - 1} can't be assumed")
        if out.prefix in self.strays:
            for ordinal in range(first, first + count):
                if index.find(out.uid(<int32_t>ordinal), -1) >= 0:
                    raise CacheError(f"pod {out.key(<int32_t>ordinal)} is in the cache, so can't be assumed")
        return out

    cdef int enter(self, Replicas replicas) except -1:
        """Add replicas, in memory that has been reserved; the caller fills in `numbers`.

        Either they are added, or an exception leaves everything as it was.
        """
        undo = partial(self._take_out, replicas)
        self.journal.on_undo(undo)
        try:
            self._put_in(replicas)
            self.members.resize(replicas.id, replicas.count)
            self.living.touch(replicas.id)
        except BaseException:
            undo()
            raise
        self.living.int32()[replicas.id] = replicas.count

    cdef int leave(self, int32_t id, int32_t ordinal) except -1:
        """Remove a pod from its replicas: it left the ledger, or got an object of its own.

        Either the pod is removed, or an exception leaves everything as it was.
        """
        cdef Replicas replicas = self.entry(id)
        cdef int32_t* living = self.living.int32()
        self.living.touch(id)
        self.members.touch_item(id, ordinal - replicas.first)
        if living[id] == 1:
            undo = partial(self._put_in, replicas)
            self.journal.on_undo(undo)
            try:
                self._take_out(replicas)
            except BaseException:
                undo()
                raise
        living[id] -= 1
        self.numbers(id)[ordinal - replicas.first] = -1

    # Each undoes the other, wherever memory ran out in the middle of it.

    def _put_in(self, Replicas replicas not None):
        """Enter replicas under their id, and in the list of their prefix, sorted by first ordinal."""
        cdef list listed = self.by_prefix.get(replicas.prefix, [])
        cdef Py_ssize_t at = _place(listed, replicas.first)
        if self.entries[replicas.id] is None:
            self.free.pop()
            self.entries[replicas.id] = replicas
        if at == 0 or listed[at - 1] is not replicas:
            self.by_prefix[replicas.prefix] = listed[:at] + [replicas] + listed[at:]

    def _take_out(self, Replicas replicas not None):
        """Free the id of replicas, and remove them from the list of their prefix."""
        cdef Replicas entry
        cdef list rest = []
        for entry in self.by_prefix.get(replicas.prefix, []):
            if entry is not replicas:
                rest.append(entry)
        if self.entries[replicas.id] is replicas:
            self.free.append(replicas.id)
            self.entries[replicas.id] = None
        if rest:
            self.by_prefix[replicas.prefix] = rest
        else:
            self.by_prefix.pop(replicas.prefix, None)


cdef Replicas replicas_of(template, int64_t first, int64_t count, int32_t id=0):
    """Return the replicas for `count` pods of a template; raise CacheError for a bad name or bad ordinals."""
    meta = template.metadata
    base = meta.generate_name or f"{meta.name}-"
    if base == "-":
        raise CacheError("a template of pods needs metadata.generateName or metadata.name")
    if first < 0 or count < 0 or first > LARGEST - count:
        raise CacheError(f"{count} pods from {base}{first} on: ordinals go from 0 to {LARGEST - 1}")
    return Replicas(template, base, id, first, count)


cdef Py_ssize_t _place(list listed, int64_t ordinal) noexcept:
    """Return how many of the sorted replicas have a first ordinal of at most `ordinal` (bisection)."""
    cdef Py_ssize_t low = 0, high = len(listed), middle
    while low < high:
        middle = (low + high) // 2
        if (<Replicas>listed[middle]).first <= ordinal:
            low = middle + 1
        else:
            high = middle
    return low


cdef tuple split_uid(str uid):
    """Return (prefix, ordinal) of a UID that has the form of a replica's, else (uid, -1)."""
    cdef int64_t ordinal
    cdef Py_ssize_t length = _ordinal_of(uid, &ordinal)
    return (uid, -1) if length < 0 else (uid[:length], ordinal)


cdef Py_ssize_t _ordinal_of(str uid, int64_t* ordinal) noexcept:
    """Set the ordinal of a UID that has the form of a replica's; return the length of its prefix, or -1."""
    cdef Py_ssize_t end = len(uid), at = end - 1
    cdef int64_t scale = 1
    ordinal[0] = 0
    if PyUnicode_FindChar(uid, u"#", 0, end, 1) < 0:
        return -1
    # ASCII digits without leading zeros only: otherwise two UIDs would name one ordinal.
    while at >= 0 and end - at <= DIGITS and u"0" <= uid[at] <= u"9":
        ordinal[0] += scale * (<int64_t>uid[at] - <int64_t>u"0")
        scale *= 10
        at -= 1
    if at < 0 or uid[at] != u"#" or at == end - 1 or ordinal[0] >= LARGEST:
        return -1
    return -1 if uid[at + 1] == u"0" and at < end - 2 else at
