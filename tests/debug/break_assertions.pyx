"""Breaks each assertion of the debug build; built by `make debug-test` alone."""

from libc.stdint cimport int32_t, uint8_t

from tests.core.make import pod
from tests.core.placing import place_run

from moorage._core.decide.decider import TieBreak
from moorage._core.decide.placer import Placer
from moorage.engine.plugins.registry import default_profile

from moorage._core.base.buffers cimport Buffer, Journal
from moorage._core.base.change_log cimport LOG_ROW
from moorage._core.base.debug cimport MR_DEBUG_BUILD
from moorage._core.base.int_lists cimport IntLists
from moorage._core.csrc cimport mr_candidates, mr_candidates_refresh, mr_counter, mr_counter_add
from moorage._core.decide.class_state cimport ClassState
from moorage._core.decide.decider cimport Decider
from moorage._core.state.cluster_state cimport ClusterState


def is_debug_build():
    """Whether this module sees the assertions."""
    return MR_DEBUG_BUILD


def write_beyond_the_reserved_journal(ClusterState state not None):
    cdef Journal journal = Journal()
    cdef Buffer buffer = Buffer(journal, 64, 16)
    cdef Py_ssize_t at
    journal.begin()
    journal.reserve(4 * 80)
    for at in range(1 << 14):
        buffer.touch_reserved(0)


def touch_beyond_a_buffer(ClusterState state not None):
    cdef Buffer buffer = Buffer(Journal(), 8, 16)
    buffer.touch(buffer.capacity)


def touch_a_range_beyond_a_buffer(ClusterState state not None):
    cdef Buffer buffer = Buffer(Journal(), 8, 16)
    buffer.touch_range(buffer.capacity - 1, 2)


def keep_before_a_buffer(ClusterState state not None):
    cdef Journal journal = Journal()
    cdef Buffer buffer = Buffer(journal, 8, 16)
    journal.begin()
    journal.reserve(1024)
    buffer.touch_reserved(-1)


def read_a_list_beyond_all(ClusterState state not None):
    cdef IntLists lists = IntLists(Journal())
    lists.size(lists.count.capacity)


def read_a_row_beyond_the_table(ClusterState state not None):
    state.table.row(0, state.table.used)


def read_a_ledger_beyond_all(ClusterState state not None):
    state.table.row(state.table.ledgers, 0)


def find_a_negative_symbol(ClusterState state not None):
    state.table.find(-1)


def make_a_row_for_no_symbol(ClusterState state not None):
    state.table.row_for(<int>len(state.symbols))


def read_a_pod_beyond_the_ledger(ClusterState state not None):
    state.ledger.class_of(-1)


def read_a_class_beyond_all(ClusterState state not None):
    state.classes.shape(<int>len(state.classes.keys))


def follow_a_row_beyond_the_table(ClusterState state not None):
    state.view.follow(state.table.used)


def count_in_a_domain_beyond_all(ClusterState state not None):
    cdef mr_counter counter
    cdef int32_t domain = 3
    cdef uint8_t counts = 1
    counter.domain, counter.counts, counter.domains = &domain, &counts, 3
    mr_counter_add(&counter, 0, 1, 1)


def refresh_a_position_beyond_the_candidates(ClusterState state not None):
    cdef mr_candidates candidates
    candidates.n = 2
    mr_candidates_refresh(&candidates, 2)


def decide_among_candidates_that_did_not_follow(ClusterState state not None):
    cdef Decider decider
    cdef ClassState class_state
    placer = Placer(state, default_profile().compile(state), TieBreak.FIRST, 100)
    pod_class = state.classes.intern(pod("p"))
    place_run(placer, pod_class, 2)
    decider = placer.decider
    class_state = decider.states.get(pod_class, 0, 0)
    class_state.candidates.c.cursor = state.log.head
    place_run(placer, pod_class, 1)


def refresh_after_an_unlogged_change(ClusterState state not None):
    state.view.refresh()
    state.table.row(0, 0).pods += 1
    state.view.refresh()


def commit_an_unlogged_change(ClusterState state not None):
    state.view.refresh()
    mark = state.begin()
    state.table.row(0, 1).pods += 1
    state.table.changed(LOG_ROW, 0)
    state.commit(mark)
