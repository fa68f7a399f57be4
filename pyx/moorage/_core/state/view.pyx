"""The view: the snapshot of the nodes that a scheduling cycle reads, refreshed at the start of each cycle.

The rules are those of kube-scheduler v1.36, cache.go UpdateSnapshot. The node list is rebuilt only if a node
was added to the cluster or a node of the view was deleted: neither a change of zone nor a node that was
deleted and added again between two cycles changes the order. In v1.37 the list is also rebuilt if a claim
counts as used less than never. The image counts of a row are copied when the row has changed.

The columns that scans read are in list order. They have a cursor of their own in the change log and are
updated just before a scan, so that decisions without a scan do not pay for them.
"""

from functools import partial

import numpy as np
from libc.string cimport memset

from moorage._core.base cimport HEADER, LOG_ORDER, LOG_ROW, LOG_STATIC, ChangeLog, debug_below
from moorage._core.csrc cimport MR_LANES, MR_NO_SLOT, MR_PRESENT, mr_columns_set, mr_port

cdef enum:
    DOUBLES = 10  # columns of 8 bytes
    WORDS = 11    # columns of 4 bytes


cdef class View:
    """The node list of a scheduling cycle, and the columns for scans.

    Parameters
    ----------
    journal : Journal
    table : NodeTable
    tree : NodeTree
        Determines the order of the nodes.
    images : ImageStates
    is_scanned : bool, default True
        Whether to keep columns for scans.

    Attributes
    ----------
    size : int
        Number of nodes in the list.
    cursor : int
        The head of the change log when the list was last refreshed.
    scanned : int
        The head of the change log when the columns were last updated; -1 if they must be rebuilt.
    static_version : int
        Grows when the list changes, or labels, taints or allocatable resources of one of its nodes.
    freezes_counts : bool
        Whether rows that change keep their image counts, as during a pod group cycle, which has one snapshot.
    claim_counts : LostUses or None
        Upstream's counts of the uses of claims, in the releases that miscount them.
    """

    def __cinit__(self, Journal journal not None, NodeTable table not None, NodeTree tree not None,
                  ImageStates images not None, bint is_scanned=True):
        self.journal = journal
        self.table = table
        self.tree = tree
        self.images = images
        self.order = Buffer(journal, sizeof(int32_t))
        self.names = Buffer(journal, sizeof(int32_t))
        self.position = Buffer(journal, sizeof(int32_t))
        self.shown = Buffer(journal, sizeof(int64_t))
        self.seen_epoch = Buffer(journal, sizeof(int64_t))
        self.seen = IntLists(journal)
        self.settled = Buffer(Journal(), sizeof(int32_t))
        self.columns_memory = []
        self.is_scanned = is_scanned
        if is_scanned:
            journal = Journal()  # not undone: a rollback logs its rows, and the columns follow the log
            self.columns_memory += [Buffer(journal, 8) for _ in range(DOUBLES)]
            self.columns_memory += [Buffer(journal, 4) for _ in range(WORDS)]
            self.columns_memory.append(Buffer(journal, 1))

    cpdef int refresh(self) except -1:
        """Apply all changes since the last refresh."""
        cdef ChangeLog log = self.table.log
        cdef bint is_anew = _has_negative_counts(self)
        cdef int64_t at, head = log.head, last = log.capacity - 1
        cdef int32_t kinds = 0
        cdef bint lost = log.lost(self.cursor), order_changed, static_changed
        self.table.check_logged()
        # Memory can have moved without a change: in a fork, or after an allocation failed half-way.
        self.table.fill_ledger(0, &self.ledger)
        self.taint_set = self.table.taint_set_column()
        if head == self.cursor and not self.n_settled:
            if self.scanned < 0:
                self.scan_columns()
            return 0
        # The log can name rows that a rollback removed: reserve room for every row there ever was.
        if not lost:
            for at in range(self.cursor, head):
                kinds |= 1 << log.kind[at & last]
        order_changed, static_changed = lost or kinds >> LOG_ORDER & 1, lost or kinds >> LOG_STATIC & 1
        self.position.reserve(self.table.name.capacity)
        self.shown.reserve(self.table.name.capacity)
        self.seen_epoch.reserve(self.table.name.capacity)
        self.seen.reserve(self.table.name.capacity)
        if self.journal.depth:
            is_other = order_changed or static_changed
            self.journal.on_undo(
                partial(self._restore, self.cursor, self.size, order_changed, is_other, self.n_settled)
            )
        if order_changed:
            _reorder(self, is_anew)
        if self.settled_epoch != self.images.epoch:
            for at in range(self.n_settled):
                _freeze_settled(self, self.settled.int32()[at])
        self.n_settled = 0
        _follow_changes(self, head, kinds, lost)
        self.cursor = log.head  # what the refresh has logged itself is in the view already
        if static_changed or order_changed:
            self.static_version += 1
        if static_changed or self.scanned < 0:
            self.scan_columns()  # a search asks at its start whether any node is tainted

    cdef int settle(self) except -1:
        """Read the pending changes, up to the first that a refresh has to act on, outside of a transaction.

        A refresh in a transaction reads pending changes again and again, as rollbacks make them pending. A
        row whose image counts are as a refresh would leave them now is remembered for the next refresh, as
        the counts may change until then.
        """
        cdef ChangeLog log = self.table.log
        cdef int64_t* shown
        cdef int32_t row
        if log.lost(self.cursor) or self.n_settled and self.settled_epoch != self.images.epoch:
            return 0
        if self.claim_counts is not None and self.claim_counts.uses:  # any change may have the list rebuilt
            return 0
        self.settled_epoch = self.images.epoch
        while self.cursor < log.head and log.kind[self.cursor & (log.capacity - 1)] == LOG_ROW:
            row = log.id[self.cursor & (log.capacity - 1)]
            if row >= min(self.table.used, self.shown.capacity) or not self.position_column()[row]:
                return 0
            shown = self.shown_column() + row
            if shown[0] != self.table.generation_column()[row]:
                if self.seen.size(row):
                    if _is_stale(self, row) or self.n_settled == self.table.used:
                        return 0
                    self.settled.reserve(self.n_settled + 1)
                    self.settled.int32()[self.n_settled] = row
                    self.n_settled += 1
                shown[0] = self.table.generation_column()[row]
            self.cursor += 1

    cdef int follow_rollback(self, int64_t mark) except -1:
        """Follow a rollback to `mark`: skip the entries after it, whose changes were undone.

        Other consumers may have read earlier entries by a refresh that was undone, such as the order of the
        list. The next refresh may find something else, so entries that are pending again are logged again.
        """
        cdef ChangeLog log = self.table.log
        cdef int64_t at
        cdef bint was_undone = self.was_undone
        self.was_undone = False
        if self.cursor == mark and not self.n_settled:
            return self.refresh()
        if self.cursor > mark or not (was_undone or log.head != mark and self.journal.depth == 0):
            return 0
        if log.lost(self.cursor):
            if was_undone:
                log.lose()
            return 0
        pending = dict.fromkeys([
            (log.kind[at & (log.capacity - 1)], log.id[at & (log.capacity - 1)])
            for at in range(self.cursor, mark)
        ])
        if self.journal.depth:
            self.journal.on_undo(partial(self._restore, self.cursor, self.size, False, False, self.n_settled))
        self.cursor = log.head
        if self.scanned > mark:  # the columns have followed what was undone
            self.table.fill_ledger(0, &self.ledger)
            self.taint_set = self.table.taint_set_column()
            self.scan_columns()  # a search asks at its start whether any node is tainted
        for kind, id in pending:
            log.append(kind, id)

    def _restore(self, int64_t cursor, int32_t size, bint order_changed, bint static_changed,
                 Py_ssize_t n_settled):
        """Undo a refresh: restore cursor and size, and invalidate what depends on the undone changes."""
        if not (0 <= cursor <= self.table.log.head and 0 <= size <= self.order.capacity
                and 0 <= n_settled <= self.settled.capacity):
            raise ValueError("the view was never like this")
        self.cursor = cursor
        self.size = size
        self.n_settled = n_settled
        self.was_undone = True
        self.static_version += static_changed
        if order_changed:
            self.scanned = -1

    def log_stale_counts(self, const int32_t[::1] rows not None):
        """Log the rows whose image counts are out of date, so that the next refresh copies the counts.

        Parameters
        ----------
        rows : (n,) int32 array
            Rows that have changed since the last refresh.
        """
        cdef int32_t at
        for at in range(rows.shape[0]):
            if _is_stale(self, rows[at]):
                self.table.changed(LOG_ROW, rows[at])

    def drop_counts(self):
        """Set the image counts of all rows to 0 within a transaction, as in upstream's copy of a snapshot."""
        cdef int32_t row, at
        for row in range(self.table.used):
            if self.seen.size(row):
                self.seen.touch_items(row)
                for at in range(1, self.seen.size(row), 2):
                    self.seen.items(row)[at] = 0
                self.table.changed(LOG_ROW, row)

    def first_stale(self, const int32_t[::1] rows not None):
        """Find a row whose image counts are out of date.

        Parameters
        ----------
        rows : (n,) int32 array

        Returns
        -------
        int
            Index in `rows` of the first such row, -1 if there is none.
        """
        cdef int32_t at
        for at in range(rows.shape[0]):
            if _is_stale(self, rows[at]):
                return at
        return -1

    cdef Py_ssize_t begin_run(self, Py_ssize_t pods) except -1:
        """Prepare for `pods` calls of `follow` in a transaction; return the journal bytes that they need."""
        self.journal.on_undo(partial(self._restore, self.cursor, self.size, False, False, 0))
        return pods * (HEADER + 8) + min(pods, <Py_ssize_t>self.size) * (2 * HEADER + 8) + self.seen.nbytes()

    cdef void follow(self, int32_t row) noexcept nogil:
        """Apply one usage change of a run of pods, which the caller has just logged.

        No other change may be pending. The entry itself remains pending until the next one, since the image
        counts of its row may change before the next cycle.
        """
        cdef int64_t* shown = self.shown_column()
        cdef int32_t before
        debug_below(row, self.table.used, b"row of a placed pod")
        if self.journal.depth and self.seen_epoch.int64()[row] != self.images.epoch:
            self.seen_epoch.touch_reserved(row)
            self.seen.touch_items_reserved(row)
        _freeze_counts(self, row)
        if self.cursor < self.table.log.head - 1:
            before = self.table.log.id[self.cursor & (self.table.log.capacity - 1)]
            if before != row:
                if self.journal.depth:
                    self.shown.touch_reserved(before)
                shown[before] = self.table.generation_column()[before]
            self.cursor += 1

    cdef int show_only(self, const int32_t[::1] rows) except -1:
        """Set the list to some rows, in this order; only the columns then follow the usage of the rows."""
        cdef int32_t at
        self.size = <int32_t>rows.shape[0]
        self.order.reserve(self.size)
        for at in range(self.size):
            self.order_column()[at] = rows[at]
        self.position.reserve(self.table.name.capacity)
        self.scanned = -1
        _make_room(self, self.size)
        _set_positions(self)
        return 0

    cpdef int follow_usage(self) except -1:
        """Update the columns, and the pointers to the table, whose memory may have moved."""
        self.position.reserve(self.table.name.capacity)
        self.table.fill_ledger(0, &self.ledger)
        self.taint_set = self.table.taint_set_column()
        return self.scan_columns()

    cdef int scan_columns(self) noexcept nogil:
        """Apply the logged changes of rows to the columns; set these anew if there are more changes than
        nodes."""
        cdef int64_t at, head = self.table.log.head, last = self.table.log.capacity - 1
        cdef int32_t position, row, before = -1
        if not self.is_scanned or self.scanned == head:
            return 0
        if self.scanned < 0 or head - self.scanned > self.size or self.table.log.lost(self.scanned):
            _set_all_columns(self)
        else:
            for at in range(self.scanned, head):
                row = self.table.log.id[at & last]
                if self.table.log.kind[at & last] > LOG_STATIC or row >= self.table.used or row == before:
                    continue
                before = row
                position = self.position_column()[row] - 1
                if position >= 0:
                    debug_below(position, self.size, b"position of the view")
                    mr_columns_set(&self.columns, position, &self.ledger, self.taint_set, row)
        self.scanned = head
        return 0

    cdef int fill_cluster(self, mr_cluster* out) except -1:
        """Point `out` to the arrays that kernels read; valid until the next change of a node."""
        cdef NodeTable table = self.table
        table.sync_columns()
        self.images.sync()
        table.fill_ledger(0, &out.ledger)
        out.name = table.name_column()
        out.taint_set = table.taint_set_column()
        out.port_set = table.port_set_column()
        out.labels = <const int32_t**>table.label_pointers.data
        out.number = table.symbols.numbers.int64()
        out.is_number = table.symbols.are_numbers.uint8()
        out.ports = <mr_port*>table.port_sets.ports.data
        out.port_first = table.port_sets.first.int32()
        out.port_count = table.port_sets.count.int32()
        out.any_ip = table.port_sets.any_ip
        out.images = self.seen.arena.int32()
        out.image_first = self.seen.first.int32()
        out.image_count = self.seen.count.int32()
        out.image_size = self.images.sizes.int64()
        out.nodes = self.size

    cdef View clone(self, Journal journal, NodeTable table, NodeTree tree, ImageStates images):
        """Return an independent copy over copies of table, tree and images."""
        cdef View out = View(journal, table, tree, images)
        cdef Buffer mine, theirs
        out.cursor = self.cursor
        out.size = self.size
        out.seen = self.seen.clone(journal)
        out.n_settled, out.settled_epoch = self.n_settled, self.settled_epoch
        for theirs, mine in zip(out._buffers(), self._buffers(), strict=True):
            theirs.copy_from(mine)
        for mine, theirs in zip(self.columns_memory, out.columns_memory, strict=True):
            theirs.reserve(mine.capacity)
        _point_columns(out)
        out.scanned = -1
        return out

    def _buffers(self):
        """Return the buffers that `clone` copies, in a fixed order."""
        return [self.order, self.names, self.position, self.shown, self.seen_epoch, self.settled]

    def images_of(self, int32_t row):
        """Return the images of a row, as of the last change of the row.

        Parameters
        ----------
        row : int

        Returns
        -------
        dict of str to (int, int)
            By image name the size in bytes and the number of nodes that have the image.

        Raises
        ------
        IndexError
            If there is no such row.
        """
        self.table.check_row(row)
        return self.images.read(self.seen, row, self.images.sizes.int64())

    def find_row(self, str name not None):
        """Return the row of a node in the list.

        Parameters
        ----------
        name : str
            The name of the node.

        Returns
        -------
        int or None
            None if the list has no such node.
        """
        cdef int32_t row = _row_of(self, self.table.symbols.find(name))
        return row if row >= 0 else None

    def rows_of(self, list names not None):
        """Return the rows of nodes.

        Parameters
        ----------
        names : list of str

        Returns
        -------
        (len(names),) int32 array
            -1 for nodes that are not in the list.
        """
        cdef Py_ssize_t at, count = len(names)
        rows = np.empty(count, dtype=np.int32)
        cdef int32_t[::1] out = rows
        for at in range(count):
            out[at] = _row_of(self, self.table.symbols.find(names[at]))
        return rows

    def position_of(self, int32_t row):
        """Return the position of a row in the list.

        Parameters
        ----------
        row : int

        Returns
        -------
        int
            -1 if the row is not in the list.
        """
        return self.position_column()[row] - 1 if 0 <= row < self.position.capacity else -1

    def rows(self):
        """Return the rows in list order.

        Returns
        -------
        (size,) int32 array
            A copy.
        """
        return np.array(self.order.array(np.int32, self.size))

    def rows_at(self, const int32_t[::1] positions not None):
        """Return the rows at positions of the list.

        Parameters
        ----------
        positions : (n,) int32 array

        Returns
        -------
        (n,) int32 array

        Raises
        ------
        IndexError
            The list has no such position.
        """
        return _at_positions(self, self.order_column(), positions)

    def symbols_at(self, const int32_t[::1] positions not None):
        """Return the symbols of the names of the nodes at positions of the list.

        Unlike a position or a row, a symbol always refers to the same name.

        Parameters
        ----------
        positions : (n,) int32 array

        Returns
        -------
        (n,) int32 array

        Raises
        ------
        IndexError
            The list has no such position.
        """
        return _at_positions(self, self.names_column(), positions)

    def names_of(self, const int32_t[::1] rows not None):
        """Return the names that rows of the node table have now.

        Parameters
        ----------
        rows : (n,) int32 array

        Returns
        -------
        list of str

        Raises
        ------
        IndexError
            There is no such row, as for -1, which stands for "no node".
        """
        cdef const int32_t* names = self.table.name_column()
        cdef Py_ssize_t at
        self.table.check_rows(rows)
        return [self.table.symbols.names[names[rows[at]]] for at in range(rows.shape[0])]

    def node_names(self):
        """Return the node names in list order.

        Returns
        -------
        list of str
        """
        cdef int32_t at
        return [self.table.symbols.names[self.names_column()[at]] for at in range(self.size)]


cdef int32_t _row_of(View view, int32_t symbol) noexcept:
    """Return the row of the node of a name in the list; -1 for none."""
    cdef int32_t at, row = view.table.find(symbol)
    if 0 <= row < view.position.capacity:  # the table still has the node
        at = view.position_column()[row] - 1
        if at >= 0 and view.names_column()[at] == symbol:
            return row
    if symbol:
        for at in range(view.size):
            if view.names_column()[at] == symbol:
                return view.order_column()[at]
    return -1


cdef inline bint _has_changed(View view, int32_t row) noexcept:
    """Whether a row of the list has another generation than the one that the view last read.

    A rollback logs rows that are again as they were, and those it has removed.
    """
    if row >= view.table.used or not view.position_column()[row]:
        return False
    return view.table.generation_column()[row] != view.shown_column()[row]


cdef int _follow_changes(View view, int64_t head, int32_t kinds, bint lost) except -1:
    """Apply the logged changes up to `head`, which are of some kinds, to the rows.

    Where changes are lost, or are more than there are rows, all rows are asked whether they have changed.
    """
    cdef ChangeLog log = view.table.log
    cdef int64_t at, last = log.capacity - 1
    cdef int32_t row
    if lost:
        for row in range(view.table.used):
            _copy_if_changed(view, row)
    elif kinds >> LOG_STATIC & 1:
        for at in range(view.cursor, head):
            if log.kind[at & last] == LOG_STATIC:
                _copy_if_changed(view, log.id[at & last])
    if lost or head - view.cursor > view.table.used:
        for row in range(view.table.used):
            _freeze_if_changed(view, row)
        return 0
    for at in range(view.cursor, head):
        if log.kind[at & last] <= LOG_STATIC:
            _freeze_if_changed(view, log.id[at & last])
    if kinds >> LOG_ORDER:
        for at in range(view.cursor, head):
            _has_shown(view, log.id[at & last])
    return 0


cdef int _copy_if_changed(View view, int32_t row) except -1:
    """Apply a logged change of a node: copy the images of its row."""
    if _has_changed(view, row):
        _copy_images(view, row)
    return 0


cdef int _freeze_if_changed(View view, int32_t row) except -1:
    """Apply a logged change of a row, unless an earlier entry of the log has led to it."""
    if _has_changed(view, row):
        _freeze_if_listed(view, row)
        _has_shown(view, row)
    return 0


# ---- rows


cdef int _freeze_if_listed(View view, int32_t row) except -1:
    """Call `_freeze_counts`, undoably, for a row of the list."""
    if row < view.table.used and view.position_column()[row] \
            and view.seen_epoch.int64()[row] != view.images.epoch and not view.freezes_counts:
        if view.journal.depth:
            view.seen_epoch.touch(row)
            view.seen.touch_items(row)
        _freeze_counts(view, row)


cdef int _freeze_settled(View view, int32_t row) except -1:
    """Call `_freeze_if_listed` for a settled row, and log changed counts: others may have read its entry."""
    if _is_stale(view, row):
        _freeze_if_listed(view, row)
        view.table.log.append(LOG_ROW, row)


cdef int _has_shown(View view, int32_t row) except -1:
    """Record the generation of a row that the view has read."""
    if row < view.table.used and view.position_column()[row]:
        view.shown.touch(row)
        view.shown_column()[row] = view.table.generation_column()[row]


cdef bint _is_stale(View view, int32_t row) noexcept:
    """Whether a row of a node with images has other counts than a refresh would copy to it."""
    return 0 <= row < min(view.table.used, view.seen_epoch.capacity) and view.seen.size(row) \
        and view.seen_epoch.int64()[row] != view.images.epoch


cdef int _copy_images(View view, int32_t row) except -1:
    """Copy the images of a row whose node has changed."""
    cdef int32_t at
    cdef IntLists held = view.images.held
    held.reserve(row + 1)
    view.seen.assign(row, held.items(row), held.size(row))
    for at in range(0, held.size(row), 2):
        view.seen.items(row)[at + 1] = view.images.nodes(held.items(row)[at])


cdef void _freeze_counts(View view, int32_t row) noexcept nogil:
    """Copy to a changed row, for each of its images, the number of nodes that have the image."""
    cdef int64_t* seen_epoch = view.seen_epoch.int64()
    cdef int32_t* seen
    cdef int32_t at
    if seen_epoch[row] != view.images.epoch and not view.freezes_counts:
        seen = view.seen.items(row)
        for at in range(0, view.seen.size(row), 2):
            seen[at + 1] = view.images.counts.int32()[seen[at]]
        seen_epoch[row] = view.images.epoch


# ---- the list


cdef bint _has_negative_counts(View view) except -1:
    """Whether a claim counts as used less than never; then log that the order changes.

    What a transaction changes need not happen: in it, the list stays. If it is committed, the next refresh
    asks, even if nothing has changed since.
    """
    if view.claim_counts is None or view.journal.depth:
        return False
    if not (view.claim_counts.uses and view.claim_counts.are_negative()):
        return False
    view.table.log.append(LOG_ORDER, 0)
    return True


cdef int _reorder(View view, bint is_anew) except -1:
    """Update the node list after an entry LOG_ORDER.

    The list changes only when there is memory for all of it: a refresh that fails half-way is made again, and
    finds out by the list what it has to do.
    """
    view.scanned = -1
    if view.size and not is_anew and _reuse_list(view):
        return 0
    if view.claim_counts is not None:
        view.claim_counts.start_anew()
    return _rebuild(view)


cdef _at_positions(View view, const int32_t* column, const int32_t[::1] positions):
    """Return the values of a column of the list at positions; IndexError for a position that is not there."""
    cdef Py_ssize_t at
    values = np.empty(positions.shape[0], dtype=np.int32)
    cdef int32_t[::1] out = values
    for at in range(positions.shape[0]):
        if not 0 <= positions[at] < view.size:
            raise IndexError(f"the list of {view.size} nodes has no position {positions[at]}")
        out[at] = column[positions[at]]
    return values


cdef int _reuse_list(View view) except -1:
    """Keep the order of the list if its names are those of the tree; return whether they are.

    Where the rows are the same too, as after a rollback, nothing is recorded: the transaction around it may
    have many such refreshes.
    """
    cdef int32_t at, row
    cdef bint is_same = True
    if view.size != view.tree.size():
        return 0
    for at in range(view.size):
        row = view.table.find(view.names_column()[at])
        if row < 0 or not view.table.row(0, row).flags & MR_PRESENT:
            return 0
        is_same = is_same and row == view.order_column()[at]
    if is_same:
        return 1
    view.order.touch_range(0, view.size)
    _make_room(view, view.size)
    for at in range(view.size):
        view.order_column()[at] = view.table.find(view.names_column()[at])
    _set_positions(view)
    return 1


cdef int _rebuild(View view) except -1:
    """Set the list to the nodes of the tree."""
    cdef int32_t at, size = view.tree.size()
    view.order.touch_range(0, view.size)
    view.names.touch_range(0, view.size)
    view.order.reserve(size)
    view.names.reserve(size)
    _make_room(view, size)
    view.size = size
    view.tree.write(view.names_column())
    for at in range(size):
        view.order_column()[at] = view.table.find(view.names_column()[at])
    _set_positions(view)
    return 0


cdef int _make_room(View view, int32_t size) except -1:
    """Make room for the columns and positions of so many nodes."""
    cdef Buffer buffer
    for buffer in view.columns_memory:
        buffer.reserve(size + MR_LANES)  # whole blocks
    if view.is_scanned:
        _point_columns(view)
    view.position.touch_range(0, view.position.capacity)
    return 0


cdef void _set_positions(View view) noexcept nogil:
    """Set the positions of rows from the list."""
    cdef int32_t at
    cdef int32_t* order = view.order_column()
    memset(view.position.data, 0, view.position.capacity * sizeof(int32_t))
    for at in range(view.size):
        debug_below(order[at], view.table.used, b"row of the view")
        view.position_column()[order[at]] = at + 1


# ---- columns


cdef void _set_all_columns(View view) noexcept nogil:
    """Rebuild the columns."""
    cdef int32_t at
    view.columns.n_fixed = view.columns.n_slow = 0
    if not view.size:  # the columns may have no memory yet
        return
    memset(view.columns.fixed, 0, view.size * sizeof(int32_t))
    memset(view.columns.slow, 0, view.size)
    for at in range(view.size):
        mr_columns_set(&view.columns, at, &view.ledger, view.taint_set, view.order_column()[at])
    for at in range(view.size, view.size + MR_LANES):
        view.columns.free_milli[at] = MR_NO_SLOT


cdef int _point_columns(View view) except -1:
    """Refresh the pointers to the columns; their buffers are in the order of the fields of mr_columns."""
    cdef void** pointers = <void**>&view.columns
    for at, buffer in enumerate(view.columns_memory):
        pointers[at] = (<Buffer>buffer).data
