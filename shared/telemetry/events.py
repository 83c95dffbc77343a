"""The catalogue of events: every name that a log, an alert or a saved query may say.

An event whose remedy is empty heals by itself. `docs/operating.md` shows this list as a table, and the alerts in
`infra/` are made from it.
"""

from logging import DEBUG, ERROR, INFO, WARNING
from typing import Final

from shared.telemetry.log import Alert, LogEvent, Severity

#: A gate that is opened once a day holds its work for less; anything older was forgotten or misspelt.
HELD_TOO_LONG_HOURS: Final = 26
# --- jobs ---

SUBMISSION_ACCEPTED: Final = LogEvent(
    name="sluice.submission.accepted",
    level=INFO,
    fields=("message_id", "outcome"),
    meaning="a submission was accepted: its job is dispatched, held behind its gate, or known already",
)
JOB_OVERDUE: Final = LogEvent(
    name="sluice.job.overdue",
    level=WARNING,
    fields=("job", "chunks", "silent_seconds"),
    meaning="a job made no progress for too long, and so many of its chunks were put on the work queues again",
    remedy="once is a lost message; again for the same job: look for failing instances, and at `sluice jobs show JOB`",
    alert=Alert(severity=Severity.WARNING),
)
JOB_PLANLESS: Final = LogEvent(
    name="sluice.job.planless",
    level=ERROR,
    fields=("job", "silent_seconds"),
    meaning="a submission was begun and its job has no plan yet: the submission is gone, or fails again and again",
    remedy="send the submission again under the same job id; it counts once. If it comes back: the log of accept_submission",
    alert=Alert(severity=Severity.ERROR),
)
JOB_LATE: Final = LogEvent(
    name="sluice.job.late",
    level=WARNING,
    fields=("job", "risk", "deadline", "predicted", "state"),
    meaning="a job's deadline is at risk: it waits too long, will be late at the rate so far, or has missed it; each told once",
    remedy="`sluice jobs show JOB`: open the gate that it waits for, look for failing instances, or allow more of them",
    alert=Alert(severity=Severity.WARNING),
)
PAYLOAD_REMOVED: Final = LogEvent(
    name="sluice.payload.removed",
    level=INFO,
    fields=("blob", "size", "written_at"),
    meaning="a payload was removed whose submission never came: it is older than the retention and nothing names it",
)
ORPHANS_POSTPONED: Final = LogEvent(
    name="sluice.orphans.postponed",
    level=WARNING,
    fields=(),
    meaning="no payload is removed today, because a submission has waited for more than a day and may name any of them",
    remedy="look why submissions are not accepted: `sluice doctor`, then the log of accept_submission",
)
JOB_NEGLECTED: Final = LogEvent(
    name="sluice.job.neglected",
    level=ERROR,
    fields=("pointer", "error", "at"),
    meaning="the tick could not look after a job; the next one tries again",
    remedy="look at the error: storage that is away, or a row of the ledger that cannot be read",
    alert=Alert(severity=Severity.WARNING),
)
JOB_MOVED: Final = LogEvent(
    name="sluice.job.moved",
    level=INFO,
    fields=("job",),
    meaning="a job made progress while the tick was about to note that it did not",
)
JOB_PAUSED: Final = LogEvent(
    name="sluice.job.paused",
    level=ERROR,
    fields=("job", "revision", "reason"),
    meaning="a job stands still until a person resumes it: too many chunks are parked, or its outputs cannot be made",
    remedy="`sluice jobs show JOB` says why; correct the cause, replay what is parked, then `sluice jobs resume JOB`",
    alert=Alert(severity=Severity.ERROR),
)
JOB_FINISHED: Final = LogEvent(
    name="sluice.job.finished",
    level=INFO,
    fields=(
        "job",
        "revision",
        "state",
        "workload",
        "accepted",
        "rejected",
        "parked",
        "waited_seconds",
        "ran_seconds",
        "work_ms",
        "requests",
    ),
    meaning="a revision of a job is finished: its items by how they ended, its time, and its chunks' work and requests by cause",
)
JOB_UNBALANCED: Final = LogEvent(
    name="sluice.job.unbalanced",
    level=ERROR,
    fields=("job", "revision"),
    meaning="what came out of a job is not what was declared to go in, so no outputs were written",
    remedy="`sluice jobs show JOB` says what differs: ask the publisher whether the declared counts and sums are right",
    alert=Alert(severity=Severity.ERROR),
)
FINISH_IGNORED: Final = LogEvent(
    name="sluice.finish.ignored",
    level=INFO,
    fields=("job", "revision", "state"),
    meaning="a finish message came too late or twice",
)
# --- results ---

RESULT_PARKED: Final = LogEvent(
    name="sluice.result.parked",
    level=WARNING,
    fields=("job", "reason", "message_id"),
    meaning="a result message that can never be credited was parked",
    remedy="find out who else sends to the queue of results; `sluice parked list` shows it",
    alert=Alert(severity=Severity.WARNING),
)
RESULTS_UNCREDITED: Final = LogEvent(
    name="sluice.results.uncredited",
    level=ERROR,
    fields=("job", "results", "error", "at"),
    meaning="results could not be credited: the rows of their job cannot be read, take no more, or the results are odd",
    remedy="look at the error; restore the job's rows where they are damaged, then `sluice parked replay`",
    alert=Alert(severity=Severity.ERROR),
)
RESULTS_DROPPED: Final = LogEvent(
    name="sluice.results.dropped",
    level=INFO,
    fields=("job", "results"),
    meaning="results came for a job whose retention is over",
)
# --- parked ---

MESSAGE_PARKED: Final = LogEvent(
    name="sluice.message.parked",
    level=WARNING,
    fields=("job", "key", "stage", "reason", "fingerprint"),
    meaning="a message failed for good and is kept with its reason",
    remedy="`sluice parked list` groups by cause; correct it, then `sluice parked replay FINGERPRINT` or `discard`",
    alert=Alert(severity=Severity.WARNING),
)
POISON_DRAINED: Final = LogEvent(
    name="sluice.poison.drained",
    level=ERROR,
    fields=("queue", "messages"),
    meaning="the host gave up on messages before the app did; they are parked now",
    remedy="find in the log why instances end or time out, then `sluice parked replay`",
    alert=Alert(severity=Severity.ERROR),
)
POISON_KEPT: Final = LogEvent(
    name="sluice.poison.kept",
    level=ERROR,
    fields=("queue", "error", "at"),
    meaning="a message that the host gave up on could not be parked now; it stays where it is, the others were parked",
    remedy="look at the error; the tick tries again each quarter of an hour, and the message expires after seven days",
    alert=Alert(severity=Severity.ERROR),
)
PARKED_BY_BYTES: Final = LogEvent(
    name="sluice.message.odd",
    level=ERROR,
    fields=("key", "error", "at"),
    meaning="a message could not be parked as what it claims to be, so its bytes alone are kept, under no job",
    remedy="find out who sent it: `sluice parked list`; tell the project, no message should do that",
    alert=Alert(severity=Severity.WARNING),
)
# --- rooms ---

ROOM_REMADE: Final = LogEvent(
    name="sluice.room.remade",
    level=WARNING,
    fields=("container",),
    meaning="the container of a room was gone, so one of its publishers deleted it; it was made again, empty",
    remedy="ask its publishers; what they publish again counts once, and what was parked for it can then be replayed",
)
ROOM_UNREAD: Final = LogEvent(
    name="sluice.room.unread",
    level=ERROR,
    fields=("queue", "messages"),
    meaning="a queue of submissions belongs to no room of this installation: nobody reads what is on it",
    remedy="name its room in SLUICE_ROOMS again until the queue is empty, then delete queue, poison queue and container",
    alert=Alert(severity=Severity.ERROR),
)
# --- gates ---

GATE_RELEASED: Final = LogEvent(
    name="sluice.gate.released",
    level=INFO,
    fields=("gate", "epoch", "put", "seen_by", "lag_seconds"),
    meaning="work that was held behind a gate was put on its queue",
)
GATE_HOLDING: Final = LogEvent(
    name="sluice.gate.holding",
    level=INFO,
    fields=("gate", "hours"),
    meaning="work waits behind a gate, for at least so many hours; told every quarter of an hour",
    remedy="`sluice gate list`: open it, or find out who misspelt its name",
    alert=Alert(severity=Severity.WARNING, where=f"todouble(fields.hours) >= {HELD_TOO_LONG_HOURS}"),
)
GATE_UNSERVED: Final = LogEvent(
    name="sluice.gate.unserved",
    level=ERROR,
    fields=("gate", "error", "at"),
    meaning="the tick could not look after a gate; the next one tries again",
    remedy="look at the error: storage that is away, or `sluice gate status GATE` says that its blob cannot be read",
    alert=Alert(severity=Severity.ERROR),
)
HELD_UNDISPATCHED: Final = LogEvent(
    name="sluice.held.undispatched",
    level=WARNING,
    fields=("gate", "entry", "queue", "error"),
    meaning="held work that may start could not be put on its queue, or a held job not be started; the next tick tries again",
)
HELD_UNREADABLE: Final = LogEvent(
    name="sluice.held.unreadable",
    level=ERROR,
    fields=("gate", "entry"),
    meaning="a row of what is held was written by somebody else and cannot be read; it is left alone, the others are served",
    remedy="look at the row in the table `held`: write it anew, or remove it; a job of its name goes on by itself",
    alert=Alert(severity=Severity.ERROR),
)
HELD_STRANGE: Final = LogEvent(
    name="sluice.held.strange",
    level=WARNING,
    fields=("gate", "entry"),
    meaning="what was held names a job that does not wait behind this gate, or none at all; it is removed",
    remedy="`sluice jobs show ENTRY`: a job that is there goes on by itself, behind its own gate",
)
SIGNAL_REFUSED: Final = LogEvent(
    name="sluice.signal.refused",
    level=WARNING,
    fields=(),
    meaning="a signal on the bus names no gate and no job",
    remedy="find out who else sends to the topic of signals",
)
SIGNAL_UNSERVED: Final = LogEvent(
    name="sluice.signal.unserved",
    level=WARNING,
    fields=("gate", "job", "error"),
    meaning="what a signal hints at could not be done at once; the tick does it",
)
SIGNAL_UNSENT: Final = LogEvent(
    name="sluice.signal.unsent",
    level=WARNING,
    fields=("gate", "epoch"),
    meaning="a gate was opened and nobody could be told; everybody finds it by polling",
)
LISTENER_POLLING: Final = LogEvent(
    name="sluice.listener.polling",
    level=WARNING,
    fields=("reason",),
    meaning="a worker finds releases by polling only",
    remedy="look at the reason: no bus, no free subscription, or no answer",
)
FLAG_UNREAD: Final = LogEvent(
    name="sluice.flag.unread",
    level=WARNING,
    fields=("gate",),
    meaning="a worker that waits for a gate could not read it and will look again",
)
RECEIPT_UNWRITTEN: Final = LogEvent(
    name="sluice.receipt.unwritten",
    level=WARNING,
    fields=("gate", "epoch"),
    meaning="a release has no receipt; nobody waits for one",
)
# --- the tick and the outbox ---

TICK_FAILED: Final = LogEvent(
    name="sluice.tick.failed",
    level=ERROR,
    fields=("error", "at"),
    meaning="a step of the tick failed; the others were done, and the next tick does all of them",
    remedy="look at the error; again and again: what was lost on the way stays lost until it is gone",
    alert=Alert(severity=Severity.ERROR),
)
OUTBOX_UNSENT: Final = LogEvent(
    name="sluice.outbox.unsent",
    level=WARNING,
    fields=("job", "error"),
    meaning="a job is finished and nobody could be told; the tick sends it",
)
OUTBOX_LATE: Final = LogEvent(
    name="sluice.outbox.late",
    level=WARNING,
    fields=("job", "late_seconds"),
    meaning="the tick found an announcement that should have been sent, and sends it",
    remedy="again for the same job: look whether Service Bus answers (`sluice doctor`)",
    alert=Alert(severity=Severity.WARNING, where="todouble(fields.late_seconds) >= 600"),
)
# --- the listener of work queues ---

MESSAGE_UNSETTLED: Final = LogEvent(
    name="sluice.message.unsettled",
    level=WARNING,
    fields=("queue", "message_id", "what", "error"),
    meaning="a message could not be deleted, kept hidden or given back, so it may be delivered once more",
)
MESSAGE_FAILED: Final = LogEvent(
    name="sluice.message.failed",
    level=WARNING,
    fields=("queue", "message_id", "delivery", "error", "at"),
    meaning="a message of a work queue failed in push mode or in a worker; it is tried again after half a minute",
    remedy="nothing while it is one: it is parked with its reason where trying again is of no use",
)
RECEIVE_FAILED: Final = LogEvent(
    name="sluice.receive.failed",
    level=WARNING,
    fields=("error",),
    meaning="a work queue did not answer a task in push mode or in a worker; it is asked again",
    remedy="look at the storage account if it does not end",
)
TASK_FAILED: Final = LogEvent(
    name="sluice.task.failed",
    level=ERROR,
    fields=("error", "at"),
    meaning="a dequeue task ended by an error that is not one message's; another takes its place",
    remedy="look at the error: storage that is away, or a workload that ends its thread",
)
TASK_REFUSED: Final = LogEvent(
    name="sluice.task.refused",
    level=WARNING,
    fields=("active",),
    meaning="the process has no thread left for another dequeue task; those that run go on",
    remedy="lower the rules' tasks for one process, or give it more memory",
)
LISTENER_OBSERVER_FAILED: Final = LogEvent(
    name="sluice.listener.observer.failed",
    level=ERROR,
    fields=("error", "at"),
    meaning="an observer of a queue listener raised an error",
    remedy="correct the observer",
)
PERMIT_FOLLOWED: Final = LogEvent(
    name="sluice.permit.followed",
    level=INFO,
    fields=("slot", "outcome"),
    meaning="an instance was woken and its tasks have ended: gave up, handed over, taken, or beyond the cap",
)
PERMIT_REFUSED: Final = LogEvent(
    name="sluice.permit.refused",
    level=WARNING,
    fields=("bytes",),
    meaning="a signal of the kind work is no permit, and nothing was done about it",
    remedy="look who may send on the topic signals",
)
PERMIT_UNANSWERED: Final = LogEvent(
    name="sluice.permit.unanswered",
    level=WARNING,
    fields=("slot", "error"),
    meaning="storage did not answer an instance that was woken; the tick wakes another",
)
PERMITS_UNSENT: Final = LogEvent(
    name="sluice.permits.unsent",
    level=WARNING,
    fields=("permits", "error"),
    meaning="nobody could be woken for work; the tick wakes somebody while the queues have messages",
    remedy="look at the error: a bus or a storage account that is away",
)
# --- concurrency ---

CONCURRENCY_DECIDED: Final = LogEvent(
    name="sluice.concurrency.decided",
    level=INFO,
    fields=("tasks", "binding", "reason"),
    meaning="so many tasks may run over the fleet from now on, by which term and why",
    remedy="when it is the budget: raise SLUICE_BUDGET_PER_DAY, or let the work wait for tomorrow's",
    alert=Alert(severity=Severity.WARNING, where='tostring(fields.binding) == "budget"'),
)
WORK_WAITING: Final = LogEvent(
    name="sluice.work.waiting",
    level=WARNING,
    fields=("oldest_seconds", "depth"),
    meaning="the oldest message of a work queue has waited this long; looked at every quarter of an hour",
    remedy="`sluice tune explain` says which term holds the fleet back; or no instance runs: look for errors at its start",
    alert=Alert(severity=Severity.WARNING, where="todouble(fields.oldest_seconds) >= 3600"),
)
RULES_UNREADABLE: Final = LogEvent(
    name="sluice.rules.unreadable",
    level=ERROR,
    fields=("problems",),
    meaning="the rules of concurrency were changed to something that is none; those before them stay in force",
    remedy="correct them by `sluice tune rules put FILE`, which says what is wrong and on which line",
    alert=Alert(severity=Severity.WARNING),
)
FLEET_UNREAD: Final = LogEvent(
    name="sluice.fleet.unread",
    level=WARNING,
    fields=("error",),
    meaning="a process could not look how many tasks may run; it goes on by what it knew",
)
# --- usage ---

USAGE_UNNOTED: Final = LogEvent(
    name="sluice.usage.unnoted",
    level=DEBUG,
    fields=("error",),
    meaning="what this process requested could not be noted; the next note has it all",
)
# --- spans ---

SPAN_ENDED: Final = LogEvent(
    name="sluice.span.ended",
    level=INFO,
    fields=("span", "trace", "id", "parent", "ms", "links", "failed", "about"),
    meaning="a piece of work ended; only with SLUICE_TELEMETRY=print",
)
# --- ids ---

IDS_REFILL_FAILED: Final = LogEvent(
    name="sluice.ids.refill.failed",
    level=WARNING,
    fields=("node", "error"),
    meaning="the next block of ids could not be reserved; it is tried again",
)
IDS_CLOSE_FAILED: Final = LogEvent(
    name="sluice.ids.close.failed",
    level=WARNING,
    fields=("node", "error"),
    meaning="ids that were not used could not be given back: they are a gap",
)
EVENTS: Final = tuple(found for found in globals().values() if isinstance(found, LogEvent))
