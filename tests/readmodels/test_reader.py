"""Readers on Azurite: one request per view, the pointer read each two seconds, and no row of an emptied slot missing."""

from dataclasses import replace

from shared.azure.meter import tally_requests
from shared.readmodels import Phase, Slot, ViewKey
from tests.readmodels.test_projector import operations

KEYS = {1: ViewKey(9, "a"), 2: ViewKey(1, "000000000001r-a")}


def test_a_read_is_one_request_and_one_more_each_two_seconds(house):
    """The pointer is kept, and a row is never kept."""
    process = house.process()
    process.projector.project([house.append("counter-a", 1)])
    reader = house.process().reader
    with tally_requests() as tally:
        for _ in range(5):
            assert reader.find(KEYS.__getitem__).view["sum"] == 1
            house.clock.advance(seconds=0.4)
    assert operations(tally) == {"QueryEntity models": 1, "QueryEntity readmodela": 5}
    house.clock.advance(seconds=0.1)
    with tally_requests() as tally:
        reader.find(KEYS.__getitem__)
    assert operations(tally) == {"QueryEntity models": 1, "QueryEntity readmodela": 1}


def test_a_reader_that_stood_still_reads_the_version_that_is_current_now(house):
    """Between its pointer and its read, the model was switched and the old slot emptied."""
    process, late = house.process(), house.process()
    process.projector.project([house.append("counter-a", 1)])
    reader = late.reader
    assert reader.find(KEYS.__getitem__).seen == 1
    for step in ("start", "verify", "switch", "finish"):
        getattr(process.migration(), step)()
    reads = []

    def key_of(version):
        # The read of the old version follows its key: for so long the process stood still.
        reads.append(version)
        house.clock.advance(seconds=20 if len(reads) == 1 else 0)
        return KEYS[version]

    stale = late.pointers.read(house.model)
    house.process()
    reader._pointer._kept = (replace(stale, current=1, slot=Slot.A), house.clock.monotonic())
    assert reader.find(key_of).view["largest"] == 1
    assert reads == [1, 2]


def test_a_missing_row_is_none(house):
    """Without a row there is one request, and no second try under a young pointer."""
    reader = house.process().reader
    with tally_requests() as tally:
        assert reader.find(KEYS.__getitem__) is None
        assert reader.find(lambda _version: None) is None
    assert operations(tally) == {"QueryEntity models": 1, "QueryEntity readmodela": 1}


def test_the_first_version_is_current_without_a_row(house):
    """A new installation has no pointer yet."""
    pointer = house.own.pointers.read(house.model)
    assert (pointer.current, pointer.slot, pointer.phase, pointer.doubled) == (1, Slot.A, Phase.NONE, None)
