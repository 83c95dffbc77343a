"""Puts mistakes into the real code: the runs must object to each, or they prove nothing."""

from shared.gate.outflow import Batches
from shared.gate.releaser import GateTick
from shared.ledger import job_decisions, table_ledger
from shared.ledger.table_ledger import TableLedger
from shared.outbox import Outbox
from shared.parked.parking import Attempt
from shared.pipeline.accept import Acceptance
from shared.pipeline.finish import Finisher
from shared.pipeline.settle import Settler
from shared.pipeline.sweep import Sweep
from tests.faults import campaign, mistakes
from tests.faults.mutant import Mutant, found
from tests.faults.orders.mutants import ORDER_MUTANTS

TICK_STEPS = "shared.app.app"
#: The module whose stores put messages.
STORES = "shared.app.stores"
ACCEPT, RELEASE, SETTLE = "accept, gate open", "accept, gate closed, release", "settle and finish"
LOST_AFTER_SETTLING = "settle and finish, then all is lost"
LOST_AFTER_ACCEPTING = "accept, then even the submission is lost"
LOST_AFTER_REPLAY = "work on what is replayed, then all is lost"
TICK, LOST_AFTER_TICK = "tick after all was lost", "tick after all was lost, and lost again"
POST_JOB, EVENT, POINTER = ("accept", "POST jobs"), ("finish", "SEND job-events completed"), "PUT pending"
MUTANTS = {
    # Where the mistake changes the order, its request stands where another one stood.
    "an event is deleted before it is sent": Mutant(
        Outbox, "flush", mistakes.remove_before_sending, SETTLE, "kill_after", EVENT
    ),
    "the outbox is sent inline only": Mutant(Outbox, "follow", lambda *_: None, SETTLE, "reset_before", EVENT),
    "chunk rows are overwritten instead of inserted": Mutant(
        table_ledger, "_operations", mistakes.upserting, "process", "reset_after", ("process", "SEND results")
    ),
    "a write whose reply was lost is made again on what is read then": Mutant(
        TableLedger,
        "_prove_write",
        lambda *_: None,
        SETTLE,
        "reset_after",
        ("settle", "POST $batch"),
        also=(
            (table_ledger, "_operations", mistakes.upserting),
            (Settler, "_decide", mistakes.settle_without_looking),
        ),
    ),
    "a job's totals and its rows are written in two requests": Mutant(
        TableLedger, "commit", mistakes.in_two_writes, SETTLE, "kill_after", ("settle", "POST $batch")
    ),
    "a job's pointer is written when it is on its way": Mutant(
        Acceptance,
        "accept",
        mistakes.point_after_accepting,
        LOST_AFTER_ACCEPTING,
        "kill_after",
        ("accept", "POST $batch"),
    ),
    "the pointer to an event is written after the event": Mutant(
        Finisher,
        "_end",
        mistakes.point_after_ending,
        LOST_AFTER_SETTLING,
        "kill_before",
        ("finish", "POST $batch"),
        nth=-1,
    ),
    "the pointer to a finish is written after the last chunk": Mutant(
        Settler,
        "_try_commit",
        mistakes.point_after_settling,
        LOST_AFTER_REPLAY,
        "kill_after",
        ("settle", POINTER),
    ),
    "a pointer is removed before the next one is written": Mutant(
        Sweep, "_look_at", mistakes.remove_before_pointing, LOST_AFTER_TICK, "kill_after", ("tick", POINTER)
    ),
    "the tick writes no end into the list of jobs": Mutant(
        TableLedger, "tell_list", lambda *_: None, "pause and resume", "kill_after", ("finish", "POST $batch"), nth=-1
    ),
    "messages have the default time to live": Mutant(STORES, "put_on", mistakes.put_to_expire, ACCEPT),
    "poison is deleted without a record": Mutant(TICK_STEPS, "drain_poison", mistakes.throw_away, "drain a submission"),
    "a drain deletes before it parks": Mutant(
        TICK_STEPS,
        "drain_poison",
        mistakes.delete_before_parking,
        "drain a submission",
        "kill_after",
        ("tick", "PUT parked"),
    ),
    "a 409 is read as a failure": Mutant(TableLedger, "insert", mistakes.insert_once, ACCEPT, "reset_after", POST_JOB),
    "an error is swallowed, so that the host deletes": Mutant(
        Attempt, "fail", mistakes.swallow, ACCEPT, "reset_before", POST_JOB
    ),
    "a held row is deleted before its job is started": Mutant(
        Batches,
        "_try_start",
        mistakes.start_after_deleting,
        TICK,
        "kill_after",
        ("tick", "GET jobs"),
        made_good_by="the tick, which starts a job whose gate was opened",
        guard=(Sweep, "_look_after", mistakes.look_after_what_runs),
    ),
    "whoever asks for a job is believed": Mutant(
        "shared.pipeline.start",
        "may_start",
        lambda _job: True,
        "forged messages at every stage",
        also=((job_decisions, "may_start", lambda _job: True),),
    ),
    # Nothing else looks at a job that waits.
    "only a signal releases": Mutant(GateTick, "run", lambda *_: {}, TICK),
    "a reply that ends in its middle is not handled": Mutant(
        "shared.azure.connections",
        "WholeReplies",
        lambda transport, *_, **__: transport,
        RELEASE,
        "truncated_reply",
        ("release", "POST receipts"),
    ),
    **ORDER_MUTANTS,
}


def hunt():
    """Return a row for each mistake: what it is, the run that found it, what that run said, and what makes it good."""
    campaign.quick()
    return [(name, *found(mutant), mutant.made_good_by) for name, mutant in MUTANTS.items()]
