"""Mistakes that somebody could make, put into the real code: the runs must object to each, or they prove nothing."""

from contextlib import suppress
from unittest.mock import patch

from azure.core.exceptions import AzureError
from azure.data.tables import UpdateMode

from shared.answers import expecting_an_answer
from shared.errors import SluiceError, StorageUnavailableError
from shared.ledger import table_ledger
from shared.ledger.index import index_entity
from shared.ledger.table_ledger import TableLedger
from shared.parked.drain import described
from shared.pipeline.deliveries import Deliveries
from shared.pipeline.messages import decode
from shared.pipeline.outbox import Outbox
from shared.pipeline.settle import Settler
from shared.tick import Tick
from tests.faults import campaign
from tests.faults.plan import MODES, Fault


def _remove_before_sending(self, job, pointer=None):
    events = self._ledger.events(job)
    for event in events:
        self._ledger.remove_event(job, event.name)
        self._announce(decode(event.body))
    if pointer is not None:
        self._pending.remove(pointer)
    return len(events)


_operations = table_ledger._operations


def _upserting(job, rows, event):
    made = _operations(job, rows, event)
    return [("upsert", one[1], {"mode": UpdateMode.REPLACE}) if one[0] == "create" else one for one in made]


def _point_after_commit(self, group, made):
    try:
        is_written = self._ledger.commit(made.job, made.rows) is not None
    except StorageUnavailableError:
        group.is_unsure = True
        raise
    if is_written and made.finish_due:
        self._point(group, made.job)
    return is_written


def _expiring_sender(connections):
    def send(queue, message):
        with expecting_an_answer("put"):
            connections.queues.get_queue_client(queue).send_message(message)

    return send


def _throw_away(queue, parking, send):
    drained = 0
    for message in queue.receive_messages(max_messages=32):
        queue.delete_message(message)
        drained += 1
    return drained


def _delete_before_parking(queue, parking, send):
    drained = 0
    with expecting_an_answer("drain"):
        for message in queue.receive_messages(max_messages=32, visibility_timeout=60):
            queue.delete_message(message)
            source = queue.queue_name.removesuffix("-poison")
            parking.park(described(source, message.content.encode(), message.id), SluiceError("poison"))
            drained += 1
    return drained


def _insert_once(self, job):
    mine = job.stamped(self._new_nonce())
    with expecting_an_answer("insert"):
        metadata = self._jobs.create_entity(table_ledger.job_entity(mine))
        self._index.upsert_entity(index_entity(mine), mode=UpdateMode.REPLACE)
    return table_ledger.replace(mine, etag=metadata["etag"]), True


def _swallow(self, note, count, work, park):
    with suppress(Exception):
        work()


#: What is wrong, what replaces what, and the scenarios in which it should show.
MUTANTS = {
    "an event is deleted before it is sent": (Outbox, "flush", _remove_before_sending, ("settle and finish",)),
    "chunk rows are overwritten instead of inserted": (
        table_ledger,
        "_operations",
        _upserting,
        ("settle and finish",),
    ),
    "the pointer is written after the state": (
        Settler,
        "_written",
        _point_after_commit,
        ("settle and finish, then all is lost", "replay, then all is lost"),
    ),
    "the outbox is sent inline only": (Tick, "_tell", lambda *_: None, ("settle and finish",)),
    "messages have the default time to live": (
        "shared.wiring.line",
        "queue_sender",
        _expiring_sender,
        ("accept, gate open",),
    ),
    "poison is deleted without a record": (
        "shared.wiring.line",
        "drain_poison",
        _throw_away,
        ("drain a submission",),
    ),
    "a drain deletes before it parks": (
        "shared.wiring.line",
        "drain_poison",
        _delete_before_parking,
        ("drain a submission",),
    ),
    "a 409 is read as a failure": (TableLedger, "insert", _insert_once, ("accept, gate open",)),
    "an error is swallowed, so that the host deletes": (
        Deliveries,
        "_do_or_park",
        _swallow,
        ("accept, gate open",),
    ),
    "a reply that ends in its middle is not handled": (
        "shared.connections",
        "WholeReplies",
        lambda transport: transport,
        ("accept, gate open", "accept, gate closed, release"),
    ),
}


def hunt(names=tuple(MUTANTS)):
    """Return a row for each mistake: what it is, the run that found it, and what that run said."""
    campaign.quick()
    return [_told((name, *_found(name))) for name in names]


def _found(mutant):
    owner, name, wrong, scenarios = MUTANTS[mutant]
    storages = campaign.MemoryStorages()
    for scenario in scenarios:
        sites = campaign.run(campaign.BY_NAME[scenario], storages).sites
        with _patched(owner, name, wrong):
            for faults in [(), *((Fault(at, mode),) for at in range(1, len(sites) + 1) for mode in MODES)]:
                try:
                    breaches = campaign.run(campaign.BY_NAME[scenario], storages, faults).breaches
                except (AttributeError, AzureError) as error:
                    breaches = [f"the process ended with {type(error).__name__}"]
                if breaches:
                    told = f"{scenario}: {', '.join(map(str, faults)) or 'no fault needed'}"
                    return told, breaches[0][:160].replace("|", " ")
    return "nothing", ""


def _patched(owner, name, wrong):
    return patch(f"{owner}.{name}", wrong) if isinstance(owner, str) else patch.object(owner, name, wrong)


def _told(row):
    print(" | ".join(row), flush=True)  # noqa: T201 - a command's progress
    return row
