"""Mistakes that somebody could make, put into the real code: the runs must object to each, or they prove nothing."""

from contextlib import suppress
from dataclasses import dataclass
from unittest.mock import patch

from azure.data.tables import UpdateMode

from shared.answers import expecting_an_answer
from shared.errors import SluiceError
from shared.ledger import table_ledger
from shared.ledger.index import index_entity
from shared.ledger.table_ledger import TableLedger
from shared.parked.drain import described
from shared.pipeline.deliveries import Deliveries
from shared.pipeline.messages import decode
from shared.pipeline.outbox import Outbox
from shared.tick import Tick
from tests.faults import campaign
from tests.faults.plan import Fault


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


@dataclass(frozen=True)
class Mutant:
    """One mistake: what is replaced by what, and the run that should object, with a fault at the first such request."""

    owner: object
    name: str
    wrong: object
    scenario: str
    mode: str = ""
    #: Stage and beginning of the site, as they are without the mistake.
    site: tuple = ()


LINE = "shared.wiring.line"
ACCEPT, RELEASE, SETTLE = "accept, gate open", "accept, gate closed, release", "settle and finish"
POST_JOB = ("accept", "POST jobs")
MUTANTS = {
    # Where the mistake changes the order, its request stands where another one stood.
    "an event is deleted before it is sent": Mutant(
        Outbox, "flush", _remove_before_sending, SETTLE, "kill_after", ("finish", "SEND job-events completed")
    ),
    "chunk rows are overwritten instead of inserted": Mutant(
        table_ledger, "_operations", _upserting, "process", "reset_after", ("process", "SEND results")
    ),
    "the outbox is sent inline only": Mutant(
        Tick, "_tell", lambda *_: None, SETTLE, "reset_before", ("finish", "SEND job-events completed")
    ),
    "messages have the default time to live": Mutant(LINE, "queue_sender", _expiring_sender, ACCEPT),
    "poison is deleted without a record": Mutant(LINE, "drain_poison", _throw_away, "drain a submission"),
    "a drain deletes before it parks": Mutant(
        LINE, "drain_poison", _delete_before_parking, "drain a submission", "kill_after", ("tick", "PUT parked")
    ),
    "a 409 is read as a failure": Mutant(TableLedger, "insert", _insert_once, ACCEPT, "reset_after", POST_JOB),
    "an error is swallowed, so that the host deletes": Mutant(
        Deliveries, "_do_or_park", _swallow, ACCEPT, "reset_before", POST_JOB
    ),
    "a reply that ends in its middle is not handled": Mutant(
        "shared.connections",
        "WholeReplies",
        lambda transport, _look: transport,
        RELEASE,
        "truncated_reply",
        ("release", "POST receipts"),
    ),
}


def hunt():
    """Return a row for each mistake: what it is, the run that found it, and what that run said."""
    campaign.quick()
    return [(name, *found(mutant)) for name, mutant in MUTANTS.items()]


def found(mutant):
    """Return the run that found it and what it said, or "nothing"; the same run without the mistake says nothing."""
    storages, scenario = campaign.MemoryStorages(), campaign.BY_NAME[mutant.scenario]
    sites = campaign.run(scenario, storages).sites
    faults = [Fault(_place(sites, mutant), mutant.mode)] if mutant.mode else []
    told = f"{scenario}: {', '.join(map(str, faults)) or 'no fault needed'}"
    if breaches := campaign.run(scenario, storages, faults).breaches:
        raise AssertionError(f"without the mistake: {told}: {breaches}")
    with _patched(mutant):
        try:
            breaches = campaign.run(scenario, storages, faults).breaches
        except AttributeError as error:
            breaches = [f"the process ended with {type(error).__name__}: {error}"]
    return (told, breaches[0][:160].replace("|", " ")) if breaches else ("nothing", "")


def _place(sites, mutant):
    stage, begin = mutant.site
    places = [at for at, (where, site) in enumerate(sites, 1) if where == stage and site.startswith(begin)]
    return places[0]


def _patched(mutant):
    if isinstance(mutant.owner, str):
        return patch(f"{mutant.owner}.{mutant.name}", mutant.wrong)
    return patch.object(mutant.owner, mutant.name, mutant.wrong)
