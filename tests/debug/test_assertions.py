"""Each assertion of the debug build ends a process that breaks it, with a message that names the object."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.debug

CHILD = """
from tests.core.make import node
import break_assertions
from moorage._core.state.cluster_state import ClusterState

state = ClusterState()
state.set_node(node("a"))
state.set_node(node("b"))
assert break_assertions.is_debug_build()
break_assertions.{}(state)
"""

MESSAGES = {
    "write_beyond_the_reserved_journal": "bytes that the journal needs, of those reserved:",
    "touch_beyond_a_buffer": "item of a buffer 16 is not in [0, 16)",
    "touch_a_range_beyond_a_buffer": "end of a range of a buffer 17 is not in [0, 17)",
    "keep_before_a_buffer": "first item of a range of a buffer -1 is not in [0, 17)",
    "read_a_list_beyond_all": "list 16 is not in [0, 16)",
    "read_a_row_beyond_the_table": "row of the node table 2 is not in [0, 2)",
    "read_a_ledger_beyond_all": "ledger of the node table 1 is not in [0, 1)",
    "find_a_negative_symbol": "symbol of a node's name -1 is not in",
    "make_a_row_for_no_symbol": "symbol of a node's name",
    "read_a_pod_beyond_the_ledger": "pod of the ledger -1 is not in",
    "read_a_class_beyond_all": "pod class 0 is not in [0, 0)",
    "follow_a_row_beyond_the_table": "row of a placed pod 2 is not in [0, 2)",
    "count_in_a_domain_beyond_all": "domain of a counter 3 is not in [0, 3)",
    "refresh_a_position_beyond_the_candidates": "position of candidates 2 is not in [0, 2)",
    "decide_among_candidates_that_did_not_follow": "total of a node",
    "refresh_after_an_unlogged_change": "row 0 changed without an entry in the change log after entry 4",
    "commit_an_unlogged_change": "row 1 changed without an entry in the change log after entry 4",
}


@pytest.mark.parametrize(("breaker", "message"), MESSAGES.items())
def test_a_broken_assertion_is_told(breaker: str, message: str) -> None:
    child = subprocess.run(
        [sys.executable, "-c", CHILD.format(breaker)], capture_output=True, text=True, check=False
    )
    assert child.returncode != 0
    assert f"moorage debug build: {message}" in child.stderr
