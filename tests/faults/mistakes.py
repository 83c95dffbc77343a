"""Mistakes that somebody could make: what the code would be, put in the place of the real one for a few runs."""

from dataclasses import replace

from azure.data.tables import UpdateMode

from shared.azure.transport import expecting_an_answer
from shared.errors import SluiceError
from shared.gate.outflow import HeldFate
from shared.ledger import is_waiting, table_ledger
from shared.ledger.records import FINISHED
from shared.ledger.settlement import settle
from shared.ledger.table_ledger import stamp
from shared.messages import Delivery
from shared.parked.entry import ACCEPT
from shared.parked.parking import at_the_door
from shared.pending import JOB_POINTER, Pointer
from shared.pipeline.accept import Acceptance
from shared.pipeline.finish import Finisher
from shared.pipeline.settle import Settler
from shared.pipeline.sweep import Sweep

_operations, _commit = table_ledger._operations, table_ledger.TableLedger.commit
_look_after = Sweep._look_after
_accept, _end, _look_at, _point = Acceptance.accept, Finisher._end, Sweep._look_at, Settler._point


def remove_before_sending(self, job, pointer=None, known=None):
    """Forget an event, then send it."""
    events = self._store.unsent(job) if known is None else known
    for event in events:
        self._store.forget(job, [event])
        self._send(event)
    if pointer is not None:
        self._pending.remove(pointer)
    return len(events)


def upserting(job, rows, messages):
    """Write chunk rows over what is there."""
    made = _operations(job, rows, messages)
    return [("upsert", one[1], {"mode": UpdateMode.REPLACE}) if one[0] == "create" else one for one in made]


def settle_without_looking(self, group, job, *, look_first):
    """Decide as if no row were there."""
    return settle(job, {}, [one.result for one in group.arrived], self._clock.now())


def in_two_writes(self, job, rows=(), messages=()):
    """Write the job, then its rows."""
    written = _commit(self, job, (), messages)
    return written if written is None or not rows else _commit(self, written, rows)


def put_to_expire(queues, queue, message):
    """Put with the library's own time to live."""
    with expecting_an_answer("put"):
        queues.get_queue_client(queue).send_message(message)


def throw_away(queue, parking, attempts):
    """Delete what is on a poison queue."""
    drained = 0
    for message in queue.receive_messages(max_messages=32):
        queue.delete_message(message)
        drained += 1
    return drained


def delete_before_parking(queue, parking, attempts):
    """Delete what is on a poison queue, then park it."""
    drained = 0
    with expecting_an_answer("drain"):
        for message in queue.receive_messages(max_messages=32, visibility_timeout=60):
            queue.delete_message(message)
            source = queue.queue_name.removesuffix("-poison")
            body = message.content.encode()
            delivery = Delivery(queue=source, message_id=message.id, body=body, count=1)
            claim = at_the_door(source, body, message.id, "job-a")
            parking.park(ACCEPT, delivery, SluiceError("poison"), claim)
            drained += 1
    return drained


def insert_once(self, job):
    """Insert a job, and fail where it is there."""
    mine = stamp(job, self._new_nonce(), self._clock.now())
    with expecting_an_answer("insert"):
        metadata = self._jobs.create_entity(table_ledger.job_entity(mine))
        self.list.tell(mine)
    return replace(mine, etag=metadata["etag"]), True


def swallow(_self, _error):
    """Leave the verdict that a message is done, whatever became of it."""


def start_after_deleting(self, one, until, mark):
    """Delete a held row, then start its job."""
    self._work.forget(one.entry)
    self._jobs.carry_out(one.entry, one.gate, until, mark)
    return HeldFate.PUT


class Late:
    """Stands for the index; what is added is written when it is said, which is too late."""

    def __init__(self, pending):
        self._pending, self._waiting = pending, []

    def add(self, pointer):
        """Keep it."""
        self._waiting.append(pointer)
        return pointer

    def remove(self, pointer):
        """Remove what is there already."""
        self._pending.remove(pointer)

    def write(self):
        """Write what was kept."""
        return [self._pending.add(pointer) for pointer in self._waiting]


def point_after_accepting(self, envelope, message_id, **delivery):
    """Accept a job and send it on its way, then write the pointer to it."""
    late = Late(self.pending)
    outcome = _accept(replace(self, pending=late), envelope, message_id, **delivery)
    late.write()
    return outcome


def point_after_ending(self, job, found):
    """Write the end and its event, then the pointer to it."""
    outbox, late = self._tools.outbox, Late(self._tools.outbox._pending)
    outbox._pending, flush = late, outbox.flush
    outbox.flush = lambda name, _=None, known=None: flush(name, *late.write(), known)
    try:
        return _end(self, job, found)
    finally:
        outbox._pending = late._pending
        del outbox.flush


def point_after_settling(self, group, made):
    """Write the rows and the job, then the pointers to its finish."""
    written = self._ledger.commit(made.job, self._store(group, made)) is not None
    if written and made.finish_due:
        _point(self, group, made.job)
    return written


def look_after_what_runs(self, job, now, until):
    """Leave alone what waits behind a gate."""
    return not is_waiting(job) and _look_after(self, job, now, until)


def remove_before_pointing(self, pointer, until):
    """Remove the pointer that led to a job, then write the next one."""
    job = self.ledger.read(pointer.id)
    if job is None or job.state in FINISHED:
        return _look_at(self, pointer, until)
    self.pending.remove(pointer)
    self._look_after(job, self.clock.now(), until)
    return self.pending.add(Pointer(JOB_POINTER, self.clock.now() + self.overdue, job.job))
