"""Every storage request of settling and finishing meets every fault, and the job comes out right all the same."""

import os

import pytest

from tests.ledger.faults import Fault, Mode
from tests.ledger.history import History

#: All requests in all modes take five minutes; the usual run takes every n-th, each mode beginning at another one.
STRIDE = 1 if os.environ.get("SLUICE_FAULTS") == "all" else 20
NEVER = 10**9


def requests_of_a_history(connection_string):
    """Return how many requests a history without faults makes."""
    fault = Fault(NEVER, Mode.LOST_REPLY)
    History(connection_string, fault, counts_deliveries=True).run()
    return fault.seen


@pytest.fixture(scope="module")
def length(azurite):
    """How many requests there are to fail."""
    found = requests_of_a_history(azurite.connection_string)
    assert found > 40
    return found


@pytest.mark.parametrize("mode", list(Mode))
def test_a_fault_at_any_request_leaves_nothing_lost_or_counted_twice(azurite, length, mode):
    """After the fault everything is delivered again, and the totals, outputs and events are those of a quiet day."""
    first = list(Mode).index(mode) % STRIDE
    for k in range(first, length, STRIDE):
        fault = Fault(k, mode)
        try:
            History(azurite.connection_string, fault, counts_deliveries=k % 2 == 0).run()
        except BaseException as error:
            error.add_note(f"request {k}, {mode!r}, at {fault.site}")
            raise
        assert fault.has_fired
