"""Pods made from a template: known by number, without an object until it is asked for."""

from functools import partial

from msgspec.structs import replace

from moorage.errors import CacheError


cdef enum:
    DIGITS = 10  # of the largest ordinal
    LARGEST = 0x7fffffff


cdef class Replicas:
    """Pods `first` to `first + count - 1` of a template. Never changes, so forks and snapshots share it.

    Pod i is named base + i, where base is metadata.generateName or metadata.name and "-"; its UID is
    namespace/base#i.
    """

    def __cinit__(self, template, str base not None, int32_t id, int32_t first, int32_t count):
        self.template = template
        self.base = base
        self.prefix = f"{template.metadata.namespace}/{base}"
        self.id = id
        self.first = first
        self.count = count

    cdef str uid(self, int32_t ordinal):
        return f"{self.prefix}#{ordinal}"

    cdef object make(self, int32_t ordinal):
        """The pod object, without its node."""
        meta = replace(self.template.metadata, name=f"{self.base}{ordinal}", uid=self.uid(ordinal))
        return replace(self.template, metadata=meta)


cdef class Templates:
    """The pods of one ledger that were made from templates, by UID and by ordinal.

    `Replicas` live as long as one of their pods has no object of its own. UIDs of their form that the ledger
    holds for other pods are strays; their prefixes are remembered for good, so that nothing has to be undone.
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
        """An independent copy."""
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
        """Number of a pod that is one of the replicas here, or -1."""
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

    cdef int find_range(self, Replicas wanted, dict index, int32_t* out) except -1:
        """Numbers of the pods that a template's replicas would be; -1 for one that is not there."""
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
                    out[at] = index.get(wanted.uid(<int32_t>(wanted.first + at)), -1)

    cdef int note_stray(self, str uid) except -1:
        """Remember that a pod with an object of its own has this UID."""
        if uid.rfind("#") < 0:
            return 0
        prefix, ordinal = split_uid(uid)
        if ordinal >= 0:
            self.strays[prefix] = None

    # ---- entering and leaving ------------------------------------------------------------------------------

    cdef int reserve(self, Py_ssize_t pods) except -1:
        """Have the memory for replicas of so many pods."""
        self.members.reserve(len(self.entries) + 1)
        self.members.reserve_items(pods)
        self.living.reserve(len(self.entries) + 1)

    cdef Replicas prepare(self, object template, int64_t first, int64_t count, dict index):
        """Replicas to enter; CacheError where that cannot be, as where one of the pods is there (`index` has
        the UIDs of those with objects of their own)."""
        cdef Replicas entry, out
        cdef Py_ssize_t at
        cdef int64_t ordinal
        id = self.free[len(self.free) - 1] if self.free else len(self.entries)
        out = replicas_of(template, first, count, id)
        listed = self.by_prefix.get(out.prefix, [])
        at = _place(listed, first)
        for entry in listed[max(0, at - 1):at + 1]:
            if first < <int64_t>entry.first + entry.count and entry.first < first + count:
                raise CacheError(f"pods {out.uid(entry.first)} to {entry.first + entry.count - 1} are in the "
                                 f"cache, so {first} to {first + count - 1} can't be assumed")
        if out.prefix in self.strays:
            for ordinal in range(first, first + count):
                uid = out.uid(<int32_t>ordinal)
                if uid in index:
                    raise CacheError(f"pod {uid} is in the cache, so can't be assumed")
        return out

    cdef int enter(self, Replicas replicas) except -1:
        """Add replicas; the caller fills in `numbers`. The memory must be reserved."""
        cdef bint reused = bool(self.free)
        self.members.resize(replicas.id, replicas.count)
        self.living.touch(replicas.id)
        (<int32_t*>self.living.data)[replicas.id] = replicas.count
        if reused:
            self.free.pop()
            self.entries[replicas.id] = replicas
        else:
            self.entries.append(replicas)
        self._list(replicas)
        self.journal.on_undo(partial(self._undo_enter, replicas, reused))

    def _list(self, Replicas replicas):
        cdef list listed = self.by_prefix.setdefault(replicas.prefix, [])
        listed.insert(_place(listed, replicas.first), replicas)

    def _unlist(self, Replicas replicas):
        cdef list listed = self.by_prefix[replicas.prefix]
        listed.remove(replicas)
        if not listed:
            del self.by_prefix[replicas.prefix]

    def _undo_enter(self, Replicas replicas, bint reused):
        self._unlist(replicas)
        if reused:
            self.entries[replicas.id] = None
            self.free.append(replicas.id)
        else:
            self.entries.pop()

    cdef int leave(self, int32_t id, int32_t ordinal) except -1:
        """One of the pods is gone, or has an object of its own now."""
        cdef Replicas replicas = self.entry(id)
        cdef int32_t* living = <int32_t*>self.living.data
        self.living.touch(id)
        living[id] -= 1
        self.members.touch_item(id, ordinal - replicas.first)
        self.numbers(id)[ordinal - replicas.first] = -1
        if living[id] == 0:
            self.members.resize(id, 0)
            self._unlist(replicas)
            self.entries[id] = None
            self.free.append(id)
            self.journal.on_undo(partial(self._undo_drop, replicas))

    def _undo_drop(self, Replicas replicas):
        self.free.pop()
        self.entries[replicas.id] = replicas
        self._list(replicas)


cdef Replicas replicas_of(template, int64_t first, int64_t count, int32_t id=0):
    """The description of so many pods of a template; CacheError where there can be none."""
    meta = template.metadata
    base = meta.generate_name or f"{meta.name}-"
    if base == "-":
        raise CacheError("a template of pods needs metadata.generateName or metadata.name")
    if first < 0 or count < 0 or first > LARGEST - count:
        raise CacheError(f"{count} pods from {base}{first} on: ordinals go from 0 to {LARGEST - 1}")
    return Replicas(template, base, id, first, count)


cdef Py_ssize_t _place(list listed, int64_t ordinal) noexcept:
    """Number of the sorted replicas that start at or before an ordinal."""
    cdef Py_ssize_t low = 0, high = len(listed), middle
    while low < high:
        middle = (low + high) // 2
        if (<Replicas>listed[middle]).first <= ordinal:
            low = middle + 1
        else:
            high = middle
    return low


cdef tuple split_uid(str uid):
    """(prefix, ordinal) of a UID in the form that replicas have, else (uid, -1)."""
    cdef Py_ssize_t at = uid.rfind("#")
    cdef str digits
    cdef int64_t ordinal
    if at < 0:
        return uid, -1
    digits = uid[at + 1:]
    # Other digits than these, and leading zeros, would make two UIDs of one ordinal.
    if len(digits) > DIGITS or not digits.isdecimal() or not digits.isascii():
        return uid, -1
    ordinal = int(digits)
    if ordinal >= LARGEST or str(ordinal) != digits:
        return uid, -1
    return uid[:at], ordinal
