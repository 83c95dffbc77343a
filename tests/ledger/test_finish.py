"""Finishing: what is published is the sum of what is done, in the newest revision, once, wherever it was stopped."""

from decimal import Decimal

import pytest
import zstandard

from shared.azure.connections import Connections
from shared.errors import (
    FencedOffError,
    FinishRefusedError,
    ResultRefusedError,
    SignalNotSentError,
)
from shared.ledger import JobState
from shared.ledger.job_decisions import resume
from shared.messages import Completed, Finish, encode
from shared.outbox import JOB_EVENTS, BusAnnouncements, OutgoingMessage
from shared.pending import OUTBOX_POINTER
from shared.pipeline import results
from shared.pipeline.finish import Ending
from shared.pipeline.outputs import Outputs, PartWriter, TotalsTable, TotalsWriter, account_key
from shared.telemetry import events
from shared.workloads import Line, Total
from tests.ledger.builders import NOON
from tests.ledger.world import AMOUNT, PER_CHUNK, Summing


@pytest.fixture
def world(make_world):
    """A job of three chunks on the work queues."""
    return make_world()


def settled(world, *, way="message", **options):
    """Settle every chunk of a world, whose results come in their messages or lie in blobs of their own."""
    make = world.result if way == "message" else world.stored_result
    world.settle(*(make(n, **options) for n in range(world.chunks)))
    assert world.job().state is JobState.FINISHING
    return world


def pointers(world, kind=OUTBOX_POINTER):
    """Return the pointers of a kind, whenever they are due."""
    return [row["RowKey"] for row in world.table("pending").list_entities() if row["RowKey"].split("|")[1] == kind]


def test_a_job_is_finished_with_outputs_totals_and_an_event(world):
    """What a person and a subscriber need is there, and nothing is left to do."""
    settled(world)
    assert world.sent == [Finish(job="nightly", revision=1)]
    assert world.finish() is Ending.FINISHED
    found = world.check()
    assert (found.state, found.problem, found.finished_at is not None) == (JobState.COMPLETE, None, True)
    assert [event.state for event in world.told] == ["complete"]
    assert world.told[0].accepted.items == 3 * PER_CHUNK
    assert (world.ledger.unsent("nightly"), pointers(world), pointers(world, "finish")) == ([], [], [])
    assert world.manifest()["totals"] == len(world.totals())
    assert world.manifest()["accepted"]["sums"] == {"amount": str(3 * AMOUNT)}


def test_rejected_transactions_are_in_the_output_with_their_reasons(world):
    """A bad transaction is neither lost nor counted."""
    settled(world, rejected=2)
    world.finish()
    assert world.job().state is JobState.COMPLETE
    assert [line["number"] for line in world.lines("rejected")] == [0, 1, 10, 11, 20, 21]
    assert {line["reason"] for line in world.lines("rejected")} == {"bad"}


def test_a_finish_message_that_comes_again_changes_nothing(world):
    """The job completes once, and subscribers hear of it once."""
    settled(world)
    world.finish()
    before = world.job()
    assert world.finish() is Ending.NOTHING_TO_DO
    assert world.job() == before
    assert len(world.told) == 1


@pytest.mark.parametrize("message", [Finish(job="never", revision=1), Finish(job="nightly", revision=2)])
def test_a_forged_finish_message_does_nothing(world, message):
    """Neither an unknown job nor a revision that is not the job's is finished."""
    settled(world)
    assert world.finisher().finish(message) is Ending.NOTHING_TO_DO
    assert world.job().state is JobState.FINISHING


def test_a_running_job_is_not_finished(world):
    """A finish message that comes too early does nothing."""
    world.settle(world.result(0))
    assert world.finish() is Ending.NOTHING_TO_DO
    assert world.job().state is JobState.RUNNING


def test_a_replay_makes_a_new_revision_beside_the_old_one(world):
    """The outputs of the first revision stay, and the totals are those of the second."""
    world.settle(world.result(0), world.result(1), world.lost(2))
    world.finish()
    assert world.check().state is JobState.COMPLETED_WITH_PARKED
    assert world.manifest(1)["unproven"] == ["amount"]
    world.settle(world.result(2))
    assert world.sent[-1] == Finish(job="nightly", revision=2)
    world.finish(2)
    found = world.check()
    assert (found.state, found.revision) == (JobState.COMPLETE, 2)
    assert world.manifest(1)["state"] == "completed_with_parked"
    assert world.totals(2) == world.expected(range(3))
    assert [event.revision for event in world.told] == [1, 2]


def test_a_stale_finisher_never_replaces_newer_outputs(world):
    """A finisher that stood still while a replay was finished ends without a trace."""
    stood_still = {}

    class StandsStill(Summing):
        def finish(self, partial):
            if not stood_still:
                stood_still["seen"] = world.workload
                world.workload = Summing()
                world.settle(world.result(2))
                world.finish(2)
                assert world.check().revision == 2
            yield from super().finish(partial)

    world.workload = StandsStill()
    world.settle(world.result(0), world.result(1), world.lost(2))
    assert world.finish(1) is Ending.NOTHING_TO_DO
    assert stood_still
    assert world.check().revision == 2
    assert world.totals(2) == world.expected(range(3))


def test_two_finishers_at_once_finish_once(make_world):
    """Both write the same names and rows, and one of them ends the job and tells of it."""
    world = make_world(chunks=4)
    second = []

    class Twice(Summing):
        def finish(self, partial):
            for n, item in enumerate(super().finish(partial)):
                if n == 5 and not second:
                    second.append("running")
                    second[0] = world.finish()
                yield item

    world.workload = Twice()
    settled(world)
    assert world.finish() is Ending.FINISHED
    assert second == [Ending.FINISHED]
    world.check()
    assert len(world.told) == 1


def test_a_job_that_does_not_add_up_publishes_nothing(make_world):
    """One item too few is enough: the job is unbalanced, visible, and has no output that looks like a result."""
    world = make_world(chunks=2)
    short = world.result(1)
    world.settle(
        world.result(0),
        short.__class__(
            **{f: getattr(short, f) for f in short.__struct_fields__}
            | {"accepted": short.accepted.__class__(items=PER_CHUNK - 1, sums=short.accepted.sums)}
        ),
    )
    assert world.finish() is Ending.FINISHED
    found = world.check()
    assert found.state is JobState.UNBALANCED
    assert found.problem == "20 items went in, 19 came out (19 accepted, 0 rejected, 0 parked)"
    assert list(world.container("outputs").list_blob_names()) == []
    assert world.totals() == {}
    assert [event.state for event in world.told] == ["unbalanced"]


def test_results_are_held_by_bytes_and_not_only_by_number(make_world, monkeypatch):
    """What is read ahead has a bound in bytes; one that is larger than it is read alone, and the merge goes on."""
    world = make_world(chunks=9)
    ahead, most = [0], [0]
    read, merge = results._read, Summing.merge

    def reads(*arguments):
        ahead[0] += 1
        most[0] = max(most[0], ahead[0])
        return read(*arguments)

    def merges(*arguments):
        ahead[0] -= 1
        return merge(*arguments)

    monkeypatch.setattr(results, "_read", reads)
    monkeypatch.setattr(Summing, "merge", merges)
    settled(world, way="blob", rejected=1)
    monkeypatch.setattr("shared.pipeline.results.WINDOW_BYTES", 3 * 16 * 1024 + 3 * 192 * PER_CHUNK)
    world.finish()
    assert most[0] in range(1, 4)
    world.check()
    assert [line["number"] for line in world.lines("rejected")] == [n * PER_CHUNK for n in range(9)]


def test_a_merged_partial_larger_than_it_may_be_pauses_the_job(make_world):
    """Before the process has no memory left: a person reads how large it is, raises the bound and resumes."""
    world = settled(make_world(chunks=11, merged_most=60))
    with pytest.raises(FinishRefusedError, match=r"is \d+ bytes as JSON, the limit is 60: .* SLUICE_MERGED_MIB"):
        world.finish()
    assert world.job().state is JobState.PAUSED
    assert "SLUICE_MERGED_MIB" in world.job().problem
    assert not list(world.container("outputs").list_blob_names())


@pytest.mark.parametrize("way", ["message", "blob"])
@pytest.mark.parametrize("spoil", ["delete", "change", "break"])
def test_a_result_that_is_not_the_settled_one_pauses_the_job(world, spoil, way):
    """Nothing is published from other bytes than those that were settled, and a person reads which blob it is."""
    settled(world, way=way)
    row = world.ledger.rows_of("nightly", [1])[1]
    blob = world.container("results").get_blob_client(row.blob)
    kept, begin = blob.download_blob().readall(), row.offset or 0
    result = kept[begin : begin + row.length]
    if spoil == "delete":
        blob.delete_blob()
    else:
        other = zstandard.compress(zstandard.decompress(result) + b" ") if spoil == "change" else result[:-1]
        blob.upload_blob(kept[:begin] + other + kept[begin + row.length :], overwrite=True)
    with pytest.raises(ResultRefusedError, match=row.blob):
        world.finish()
    found = world.check()
    assert found.state is JobState.PAUSED
    assert "revision 1 cannot be finished" in found.problem
    assert world.finish() is Ending.NOTHING_TO_DO


@pytest.mark.parametrize(
    ("totals", "words"),
    [
        ([Total("a", {"x": 1}), Total("a", {"x": 2})], "two totals for account 'a'"),
        ([Total("a", {"revision": 1})], "names that are not allowed"),
        ([("a", 1)], "yielded a tuple"),
        ([Total("a", {"two words": 1})], "names that are not allowed"),
        ([Total("a", {"x": 2**63})], "a table cannot hold exactly"),
        ([Total("a", {"x": "y" * 40_000})], "the limit is 32767"),
    ],
)
def test_totals_that_no_table_takes_pause_the_job(world, totals, words):
    """The problem is in the job's row, and nothing hangs or is tried for ever."""

    class Wrong(Summing):
        def finish(self, partial):
            yield from totals

    world.workload = Wrong()
    settled(world)
    with pytest.raises(Exception, match=words):
        world.finish()
    assert words in world.job().problem
    assert world.job().state is JobState.PAUSED


@pytest.mark.parametrize("call", ["combine", "merge", "finish"])
def test_a_workload_that_fails_pauses_the_job(world, call, told):
    """The same partials fail the same way every time, so a person reads what failed instead of a message that circles."""

    class Fails(Summing):
        def fails(self, *arguments):
            raise ZeroDivisionError("by a bug of the workload")

    settled(world)
    world.workload = Fails()
    setattr(world.workload, call, world.workload.fails)
    with pytest.raises(FinishRefusedError, match="ZeroDivisionError"):
        world.finish()
    found = world.check()
    assert found.state is JobState.PAUSED
    assert f"workload 'summing' failed in its {call}" in found.problem
    # The log says what kind of error it was; its words, which may quote a payload, are in the row.
    assert {line["reason"] for line in told(events.JOB_PAUSED)} == {"FinishRefusedError"}
    assert world.finish() is Ending.NOTHING_TO_DO


def test_a_resumed_job_is_finished_as_a_new_revision(world):
    """After the workload was corrected, nothing of the failed attempt is taken over."""

    class Fails(Summing):
        def finish(self, partial):
            yield Line({"wrong": "line"})
            raise ZeroDivisionError

    world.workload = Fails()
    settled(world)
    with pytest.raises(FinishRefusedError):
        world.finish()
    world.workload = Summing()
    world.ledger.commit(resume(world.job(), NOON))
    assert world.finish(2) is Ending.FINISHED
    assert world.check().state is JobState.COMPLETE


def test_an_event_that_nobody_takes_stays_in_the_outbox(world):
    """The job is complete all the same, and whoever follows the pointer sends the event."""
    settled(world)
    finisher = world.finisher()

    def refuse(event):
        raise SignalNotSentError("the bus is away")

    finisher._tools.outbox._send = refuse
    assert finisher.finish(Finish(job="nightly", revision=1)) is Ending.FINISHED
    assert world.check().state is JobState.COMPLETE
    assert len(pointers(world)) == 1
    later = NOON.replace(hour=23)
    (pointer,) = [found for found in world.pending.due(later) if found.kind == OUTBOX_POINTER]
    tools = world.finisher()._tools
    tools.outbox.follow(pointer)
    assert len(world.told) == 1
    assert isinstance(world.told[0], Completed)
    assert (pointers(world), world.ledger.unsent("nightly")) == ([], [])


def test_totals_are_written_a_hundred_at_a_time_and_go_on_where_they_were(world):
    """A writer that follows another one passes over what is there."""
    table = TotalsTable(world.table("totals"))
    first = TotalsWriter(table, "nightly", 1)
    for n in range(150):
        first.write(Total(f"{n:03}", {"amount": "1"}))
    assert len(world.totals()) == 99
    second = TotalsWriter(table, "nightly", 1)
    for n in range(250):
        second.write(Total(f"{n:03}", {"amount": "2"}))
    second.close()
    first.close()
    found = world.totals()
    assert len(found) == 250
    assert [found[f"{n:03}"] for n in (0, 98, 99, 249)] == [Decimal(1), Decimal(1), Decimal(2), Decimal(2)]


def test_totals_of_an_older_revision_are_fenced_off(world):
    """Once a newer revision has begun to write, an older one writes nothing more."""
    table = TotalsTable(world.table("totals"))
    older = TotalsWriter(table, "nightly", 1)
    older.write(Total("a", {"amount": "1"}))
    TotalsWriter(table, "nightly", 2)
    with pytest.raises(FencedOffError):
        older.close()
    with pytest.raises(FencedOffError):
        TotalsWriter(table, "nightly", 1)
    assert world.totals(1) == {}


def test_account_keys_are_injective_and_fit_every_table():
    """No two accounts share a row, whatever characters they are of, and none is the fence."""
    accounts = [
        "",
        "a",
        "A",
        "a_2F",
        "a/",
        "_E",
        "E",
        "ü",
        "u\u0308",
        "\x00",
        "'",
        "a" * 400,
        "a" * 401,
        "ü" * 2000,
        "!fence",
    ]
    keys = [account_key(account) for account in accounts]
    assert len(set(keys)) == len(accounts)
    assert all(key and key.isascii() and len(key) <= 400 and not set(key) & set("/\\#?%!") for key in keys)


def test_parts_are_bounded_and_the_same_lines_make_the_same_parts(world):
    """A part is written once: a second writer with other lines changes nothing of it."""
    outputs = Outputs(world.container("outputs"), "nightly", 1)
    for text in ("first", "second"):
        writer = PartWriter(outputs, "output", part_bytes=100)
        for n in range(10):
            writer.write({"n": n, "text": text})
        writer.close()
    parts = list(outputs.parts())
    assert [part.items for part in parts] == [4, 4, 2]
    outputs.put_manifest(parts[0])
    names = list(world.container("outputs").list_blob_names())
    assert names == [
        "nightly/1/manifest.json",
        *(f"nightly/1/output-{n:06}.ndjson.zst" for n in range(3)),
    ]


def test_the_bus_takes_an_event_and_its_absence_is_no_failure_of_the_job(stack_settings):
    """An event is one message on the topic; without a bus the error says where the event is."""
    completed = Completed(job="nightly", revision=1, workload="summing", state="complete")
    event = OutgoingMessage("000000001", JOB_EVENTS, encode(completed))
    with Connections.parse(stack_settings) as connections, BusAnnouncements(connections) as announce:
        announce(event)
    gone = stack_settings["SluiceBus"].replace("sb://", "sb://no-such-host.invalid/")
    without_a_bus = Connections(stack_settings["SluiceStorage"], gone)
    with (
        without_a_bus as connections,
        BusAnnouncements(connections) as announce,
        pytest.raises(SignalNotSentError, match="stays in the outbox"),
    ):
        announce(event)
