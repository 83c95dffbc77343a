"""The catalogue of events: every name in a log, an alert or a saved query.

An event without a remedy needs no action. `docs/appendix/telemetry.md` shows this list as a table, and the alerts in
`infra/` are made from it.
"""

from logging import DEBUG, ERROR, INFO, WARNING
from typing import Final

from shared.telemetry.log import Alert, LogEvent, Severity

#: A gate that opens once per day holds its work for less. Older work was forgotten, or its gate's name is misspelt.
HELD_TOO_LONG_HOURS: Final = 26
# --- jobs ---

SUBMISSION_ACCEPTED: Final = LogEvent(
    name="sluice.submission.accepted",
    level=INFO,
    fields=("message_id", "outcome"),
    meaning="a submission was accepted: its job is dispatched, held behind its gate, or a duplicate",
)
JOB_OVERDUE: Final = LogEvent(
    name="sluice.job.overdue",
    level=WARNING,
    fields=("job", "chunks", "silent_seconds"),
    meaning="a job made no progress for too long, and this number of its chunks is put on the work queues again",
    remedy="once is a lost message; again for the same job: search for failing instances, and read `sluice jobs show JOB`",
    alert=Alert(severity=Severity.WARNING),
)
JOB_PLANLESS: Final = LogEvent(
    name="sluice.job.planless",
    level=ERROR,
    fields=("job", "silent_seconds"),
    meaning="a job's row exists, but it has no plan yet: its submission is gone, or fails at every delivery",
    remedy="send the submission again under the same job id; it counts once. If the event returns: read the log of accept_submission",
    alert=Alert(severity=Severity.ERROR),
)
JOB_LATE: Final = LogEvent(
    name="sluice.job.late",
    level=WARNING,
    fields=("job", "risk", "deadline", "predicted", "state"),
    meaning="a job's deadline is at risk: it waits too long, will be late at the rate so far, or has missed it; each logged once",
    remedy="`sluice jobs show JOB`: open the gate that it waits for, search for failing instances, or allow more of them",
    alert=Alert(severity=Severity.WARNING),
)
PAYLOAD_REMOVED: Final = LogEvent(
    name="sluice.payload.removed",
    level=INFO,
    fields=("blob", "size", "written_at"),
    meaning="a payload without a submission was removed: it is older than the retention, and nothing names it",
)
ORPHANS_POSTPONED: Final = LogEvent(
    name="sluice.orphans.postponed",
    level=WARNING,
    fields=(),
    meaning="no payload is removed today, because a submission has waited for more than a day and may name any of them",
    remedy="find out why submissions are not accepted: `sluice doctor`, then the log of accept_submission",
)
JOB_NEGLECTED: Final = LogEvent(
    name="sluice.job.neglected",
    level=ERROR,
    fields=("pointer", "error", "at"),
    meaning="the tick could not continue a job; the next tick tries again",
    remedy="read the error: storage does not answer, or a row of the ledger cannot be read",
    alert=Alert(severity=Severity.WARNING),
)
JOB_MOVED: Final = LogEvent(
    name="sluice.job.moved",
    level=INFO,
    fields=("job",),
    meaning="a job made progress while the tick was about to note that it made none",
)
JOB_UNLISTED: Final = LogEvent(
    name="sluice.job.unlisted",
    level=WARNING,
    fields=("job", "state", "error"),
    meaning="a job came to a state, and its line in the list of jobs could not be written; the next news of the job, or the tick, does it",
)
JOB_UNWATCHED: Final = LogEvent(
    name="sluice.job.unwatched",
    level=WARNING,
    fields=("job", "state", "error"),
    meaning="a need of a job began or ended, and the first page of the console could not be given it; the tick gives it at its next check of the job",
)
STRETCH_REFUSED: Final = LogEvent(
    name="sluice.stretch.refused",
    level=ERROR,
    fields=("job", "stretch", "reason"),
    meaning="the next stretch of a growing job is not taken; chunks of those before it go on",
    remedy="`sluice jobs show JOB` says why: write its blob again, then send the message again; or `sluice jobs stop JOB`",
    alert=Alert(severity=Severity.ERROR),
)
JOB_UNFED: Final = LogEvent(
    name="sluice.job.unfed",
    level=WARNING,
    fields=("job", "stretches", "silent_seconds"),
    meaning="all chunks of a growing job have ended, and for too long no stretch and no end came; logged once",
    remedy="send the rest by the same command, or end it: `sluice jobs stop JOB`",
    alert=Alert(severity=Severity.WARNING),
)
JOB_PAUSED: Final = LogEvent(
    name="sluice.job.paused",
    level=ERROR,
    fields=("job", "revision", "reason"),
    meaning="a job waits until an operator resumes it: too many chunks are parked, or its outputs cannot be made",
    remedy="`sluice jobs show JOB` says why; correct the cause, replay the parked entries, then `sluice jobs resume JOB`",
    alert=Alert(severity=Severity.ERROR),
)
JOB_STOPPED: Final = LogEvent(
    name="sluice.job.stopped",
    level=INFO,
    fields=("job", "by", "accepted", "rejected", "parked", "not_run"),
    meaning="a person ended a job for good, with these numbers; the tick logs it minutes later, and the audit says why",
)
JOB_WAITS: Final = LogEvent(
    name="sluice.job.waits",
    level=INFO,
    fields=("job", "other", "left"),
    meaning="a job waits for another one, and for so many in all; logged at its acceptance and after each hint",
    remedy="`sluice jobs show JOB` says why the other one has not ended",
)
MESSAGES_HALTED: Final = LogEvent(
    name="sluice.messages.halted",
    level=INFO,
    fields=("job", "state", "halts"),
    meaning="the chunk messages of a job are taken out of the work queues, because it is paused, stopped or erased",
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
    meaning="the totals of a job differ from the declared ones, so no outputs were written",
    remedy="`sluice jobs show JOB` shows the differences: ask the publisher whether the declared counts and sums are right",
    alert=Alert(severity=Severity.ERROR),
)
FINISH_IGNORED: Final = LogEvent(
    name="sluice.finish.ignored",
    level=INFO,
    fields=("job", "revision", "state"),
    meaning="a message about a finish or a segment arrived too late, or twice, or names what the job does not have",
)
# --- results ---

NEWER_VERSION: Final = LogEvent(
    name="sluice.version.newer",
    level=WARNING,
    fields=("found",),
    meaning="an instance met something that a newer version of Sluice wrote; it comes again, to a newer instance in the end",
    remedy="nothing while a deployment is on its way; after a rollback deploy the newer version again",
)
RESULT_PARKED: Final = LogEvent(
    name="sluice.result.parked",
    level=WARNING,
    fields=("job", "reason", "message_id"),
    meaning="a result message that can never be credited was parked",
    remedy="find out which other program sends to the queue of results; `sluice parked list` shows the message",
    alert=Alert(severity=Severity.WARNING),
)
RESULTS_UNCREDITED: Final = LogEvent(
    name="sluice.results.uncredited",
    level=ERROR,
    fields=("job", "results", "error", "at"),
    meaning="results could not be credited: the rows of their job cannot be read or are full, or the results are odd",
    remedy="read the error; restore the job's rows if they are damaged, then `sluice parked replay`",
    alert=Alert(severity=Severity.ERROR),
)
RESULTS_DROPPED: Final = LogEvent(
    name="sluice.results.dropped",
    level=INFO,
    fields=("job", "results"),
    meaning="results arrived for a job that is stopped, or whose retention is over",
)
RESULTS_BEHIND: Final = LogEvent(
    name="sluice.results.behind",
    level=WARNING,
    fields=("waiting_seconds",),
    meaning="results wait for long on their queue, so no chunks are put again meanwhile",
    remedy="see whether settle_results runs and what it fails at",
    alert=Alert(severity=Severity.WARNING),
)
RESULTS_UNSEEN: Final = LogEvent(
    name="sluice.results.unseen",
    level=WARNING,
    fields=("error",),
    meaning="the queue of results could not be read, so no chunks are put again meanwhile",
    remedy="bring the bus back, or give the app the right to read the queue of results",
    alert=Alert(severity=Severity.WARNING),
)
RESULT_DIFFERS: Final = LogEvent(
    name="sluice.result.differs",
    level=WARNING,
    fields=("job", "chunk", "revision"),
    meaning="a chunk ran twice with different results: the first that was credited counts, the other was dropped",
    remedy="make the workload give the same partial for the same transactions; nothing is counted twice",
    alert=Alert(severity=Severity.WARNING),
)
ERASE_UNPROVEN: Final = LogEvent(
    name="sluice.erase.unproven",
    level=ERROR,
    fields=("job", "left"),
    meaning="a job was erased, and it is not proven that nothing of it is left: something is there, or may still come",
    remedy="read `left`: a leased blob, a queue that nothing reads, or results that no process settles; the tick looks again",
    alert=Alert(severity=Severity.ERROR),
)
# --- parked ---

TRANSACTIONS_LATER: Final = LogEvent(
    name="sluice.transactions.later",
    level=INFO,
    fields=("job", "chunk", "left", "kind", "place", "seconds"),
    meaning="so many transactions of a chunk wait for a service, or were not called in this delivery; it comes again after these seconds",
)
TRANSACTIONS_STALLED: Final = LogEvent(
    name="sluice.transactions.stalled",
    level=WARNING,
    fields=("job", "chunk", "left", "kind"),
    meaning="transactions of a chunk have waited for a service six times or more",
    remedy="bring the service back, which `sluice jobs show JOB` names; the transactions that it never answers are parked",
    alert=Alert(severity=Severity.WARNING),
)
MESSAGE_DROPPED: Final = LogEvent(
    name="sluice.message.dropped",
    level=INFO,
    fields=("job", "key", "stage"),
    meaning="a message failed for good, and was dropped: its job is stopped, buried or erased",
)
MESSAGE_PARKED: Final = LogEvent(
    name="sluice.message.parked",
    level=WARNING,
    fields=("job", "key", "stage", "reason", "fingerprint"),
    meaning="a message failed for good and is kept with its reason",
    remedy="`sluice parked list` groups by cause; correct the cause, then `sluice parked replay FINGERPRINT` or `discard`",
    alert=Alert(severity=Severity.WARNING),
)
PARKED_OVER: Final = LogEvent(
    name="sluice.parked.over",
    level=WARNING,
    fields=("room", "fingerprint", "reason", "file"),
    meaning="a room has as many open entries of a cause as the door keeps: what follows goes to this file, and nothing is lost",
    remedy="have its publisher stop; `sluice parked export` shows the messages, and `sluice parked readmit` puts them back on their queue",
)
POISON_DRAINED: Final = LogEvent(
    name="sluice.poison.drained",
    level=ERROR,
    fields=("queue", "messages"),
    meaning="the host gave up on messages before the app did; the tick has parked them",
    remedy="find in the log why instances end or time out, then `sluice parked replay`",
    alert=Alert(severity=Severity.ERROR),
)
POISON_KEPT: Final = LogEvent(
    name="sluice.poison.kept",
    level=ERROR,
    fields=("queue", "error", "at"),
    meaning="a message that the host gave up on could not be parked now; it stays on its queue, the others were parked",
    remedy="read the error; the tick tries again every hour, and the message expires after seven days",
    alert=Alert(severity=Severity.ERROR),
)
PARKED_BY_BYTES: Final = LogEvent(
    name="sluice.message.odd",
    level=ERROR,
    fields=("key", "error", "at"),
    meaning="a message could not be parked under the job or stage that it claims, so only its bytes are kept, under no job",
    remedy="find its sender: `sluice parked list`; report it to the project, because no message should do that",
    alert=Alert(severity=Severity.WARNING),
)
# --- rooms ---

ROOM_REMADE: Final = LogEvent(
    name="sluice.room.remade",
    level=WARNING,
    fields=("container",),
    meaning="the container of a room was gone, so one of its publishers deleted it; it was created again, empty",
    remedy="ask its publishers; a submission that they repeat counts once, and entries parked for it can then be replayed",
)
QUEUE_UNREAD: Final = LogEvent(
    name="sluice.queue.unread",
    level=ERROR,
    fields=("queue", "messages"),
    meaning="a queue is of no room of this installation, or a work queue above SLUICE_WORK_QUEUES, so the app does not read it",
    remedy="name its room in SLUICE_ROOMS, or raise SLUICE_WORK_QUEUES, until the queue is empty; then delete it, its poison "
    "queue and its container. A chunk that ran elsewhere meanwhile still counts once",
    alert=Alert(severity=Severity.ERROR),
)
# --- gates ---

GATE_RELEASED: Final = LogEvent(
    name="sluice.gate.released",
    level=INFO,
    fields=("gate", "epoch", "put", "seen_by", "lag_seconds"),
    meaning="work that was held behind a gate was put on its queue",
)
FIRST_CHUNK_BEGUN: Final = LogEvent(
    name="sluice.gate.started",
    level=INFO,
    fields=("gate", "epoch", "seen_by", "delay_seconds"),
    meaning="a worker began the first chunk that an opening started",
)
GATE_HOLDING: Final = LogEvent(
    name="sluice.gate.holding",
    level=INFO,
    fields=("gate", "hours"),
    meaning="work has waited behind a gate for at least this many hours; logged every quarter of an hour",
    remedy="`sluice gate list`: open the gate, or find the publisher that misspelt its name",
    alert=Alert(severity=Severity.WARNING, where=f"todouble(fields.hours) >= {HELD_TOO_LONG_HOURS}"),
)
TIMETABLE_SKIPPED: Final = LogEvent(
    name="sluice.timetable.skipped",
    level=WARNING,
    fields=("gate", "skipped"),
    meaning="no tick ran while openings of a timetable came: the first one was late, and so many after it are not made up for",
    remedy="find out why the app was down, and open the gate if its work cannot wait for the next opening",
)
GATE_UNSERVED: Final = LogEvent(
    name="sluice.gate.unserved",
    level=ERROR,
    fields=("gate", "error", "at"),
    meaning="the tick could not serve a gate; the next tick tries again",
    remedy="read the error: storage does not answer, or `sluice gate status GATE` says that its blob cannot be read",
    alert=Alert(severity=Severity.ERROR),
)
HELD_UNDISPATCHED: Final = LogEvent(
    name="sluice.held.undispatched",
    level=WARNING,
    fields=("gate", "entry", "queue", "error"),
    meaning="released work could not be put on its queue, or a held job could not be started; the next tick tries again",
)
HELD_UNREADABLE: Final = LogEvent(
    name="sluice.held.unreadable",
    level=ERROR,
    fields=("gate", "entry"),
    meaning="a row of held work was written by another program and cannot be read; it is left alone, the others are served",
    remedy="read the row in the table `held` and correct it; or remove it, and drop the submission of its name again",
    alert=Alert(severity=Severity.ERROR),
)
HELD_STRANGE: Final = LogEvent(
    name="sluice.held.strange",
    level=WARNING,
    fields=("gate", "entry"),
    meaning="a held row names no job, or a job that does not wait behind this gate; the row is removed",
    remedy="`sluice jobs show ENTRY`: a job that exists continues by itself, behind its own gate",
)
SIGNAL_REFUSED: Final = LogEvent(
    name="sluice.signal.refused",
    level=WARNING,
    fields=(),
    meaning="a signal on the bus names no gate and no job",
    remedy="find out which other program sends to the topic of signals",
)
SIGNAL_UNSERVED: Final = LogEvent(
    name="sluice.signal.unserved",
    level=WARNING,
    fields=("gate", "job", "error"),
    meaning="the work that a signal announces could not be done at once; the tick does it",
)
SIGNAL_UNSENT: Final = LogEvent(
    name="sluice.signal.unsent",
    level=WARNING,
    fields=("gate", "epoch"),
    meaning="a gate was opened, but its signal could not be sent; the app and the workers find the opening by polling",
)
LISTENER_POLLING: Final = LogEvent(
    name="sluice.listener.polling",
    level=WARNING,
    fields=("reason",),
    meaning="a worker finds releases by polling only",
    remedy="read the reason: no bus, no free subscription, or no answer",
)
FLAG_UNREAD: Final = LogEvent(
    name="sluice.flag.unread",
    level=WARNING,
    fields=("gate",),
    meaning="a worker that waits for a gate could not read it, and will read it again",
)
RECEIPT_UNWRITTEN: Final = LogEvent(
    name="sluice.receipt.unwritten",
    level=WARNING,
    fields=("gate", "epoch"),
    meaning="the receipt of a release could not be written; no work waits for it",
)
# --- the tick and the outbox ---

TICK_FAILED: Final = LogEvent(
    name="sluice.tick.failed",
    level=ERROR,
    fields=("error", "at"),
    meaning="a step of the tick failed; the other steps were done, and the next tick does all of them",
    remedy="read the error; if it stays: messages that were lost are not sent again until the error is gone",
    alert=Alert(severity=Severity.ERROR),
)
INSTANCES_CHANGED: Final = LogEvent(
    name="sluice.instances.changed",
    level=INFO,
    fields=("group", "before", "after"),
    meaning="a count of always-ready instances was sent to Azure, for planned openings or to give instances back",
)
INSTANCES_KEPT: Final = LogEvent(
    name="sluice.instances.kept",
    level=WARNING,
    fields=("group", "found", "base"),
    meaning="always-ready instances are not given back, because their count was changed by another writer meanwhile",
    remedy="if that count is not wanted: `az functionapp scale config always-ready set`, else it costs from now on",
)
OUTBOX_UNSENT: Final = LogEvent(
    name="sluice.outbox.unsent",
    level=WARNING,
    fields=("job", "error"),
    meaning="a job is finished, but its event could not be sent; the tick sends it",
)
OUTBOX_LATE: Final = LogEvent(
    name="sluice.outbox.late",
    level=WARNING,
    fields=("job", "late_seconds"),
    meaning="the tick found a job's event that should have been sent earlier, and sends it",
    remedy="again for the same job: check whether Service Bus answers (`sluice doctor`)",
    alert=Alert(severity=Severity.WARNING, where="todouble(fields.late_seconds) >= 600"),
)
# --- processes and their homes ---

HOMES_LATE: Final = LogEvent(
    name="sluice.homes.late",
    level=WARNING,
    fields=("homes", "late_seconds"),
    meaning="a reminder or the tick found homes whose events and commands may be unsent, and sends them; their writer ended",
    remedy="once is a process that ended; if it returns: check whether Service Bus answers (`sluice doctor`)",
    alert=Alert(severity=Severity.WARNING, where="todouble(fields.late_seconds) >= 180"),
)
HINT_UNSCHEDULED: Final = LogEvent(
    name="sluice.hint.unscheduled",
    level=WARNING,
    fields=("error",),
    meaning="no hint could be scheduled for a timeout; the tick finds the timeout within a minute of its due time",
)
PROCESS_STUCK: Final = LogEvent(
    name="sluice.process.stuck",
    level=ERROR,
    fields=("home", "late_seconds", "error"),
    meaning="a process has not ended two ticks after its deadline, because its timeout fails",
    remedy="the error says why. After it is mended, the next tick ends the process; nothing is lost meanwhile",
    alert=Alert(severity=Severity.ERROR),
)
AGENDA_UNSERVED: Final = LogEvent(
    name="sluice.agenda.unserved",
    level=WARNING,
    fields=("error",),
    meaning="timeouts or notes of the agenda failed; the others were served, and the next tick tries these again",
)
# --- the listener of queues ---

MESSAGE_UNSETTLED: Final = LogEvent(
    name="sluice.message.unsettled",
    level=WARNING,
    fields=("queue", "message_id", "what", "error"),
    meaning="a message could not be deleted, kept hidden or given back, so it may be redelivered",
)
MESSAGE_FAILED: Final = LogEvent(
    name="sluice.message.failed",
    level=WARNING,
    fields=("queue", "message_id", "delivery", "error", "at", "left"),
    meaning="a message that no trigger delivered failed: of a work queue, or taken after a hint; it is tried again after half a minute; left: the transactions of its chunk that failed, 0 if it failed as a whole",
    remedy="a single message needs no action: it is parked with its reason when retries are of no use",
)
RECEIVE_FAILED: Final = LogEvent(
    name="sluice.receive.failed",
    level=WARNING,
    fields=("error",),
    meaning="a queue did not answer a task that receives from it by itself; the task tries again",
    remedy="if it continues: check the storage account",
)
TASK_FAILED: Final = LogEvent(
    name="sluice.task.failed",
    level=ERROR,
    fields=("error", "at"),
    meaning="a dequeue task ended by an error that concerns no single message; another task replaces it",
    remedy="read the error: storage does not answer, or a workload ends its thread",
)
TASK_REFUSED: Final = LogEvent(
    name="sluice.task.refused",
    level=WARNING,
    fields=("active",),
    meaning="the process has no thread left for another dequeue task; the running tasks continue",
    remedy="lower the rules' tasks per process, or give the process more memory",
)
LISTENER_OBSERVER_FAILED: Final = LogEvent(
    name="sluice.listener.observer.failed",
    level=ERROR,
    fields=("error", "at"),
    meaning="an observer of a queue listener raised an error",
    remedy="correct the observer",
)
WORKER_POLLING: Final = LogEvent(
    name="sluice.worker.polling",
    level=WARNING,
    fields=("reason",),
    meaning="a worker process receives no permits, and checks the queues itself",
    remedy="read the reason: the bus, its connection, or the right to receive from the queue permits",
)
MESSAGE_SPENT: Final = LogEvent(
    name="sluice.message.spent",
    level=WARNING,
    fields=("queue", "message_id", "delivery"),
    meaning="a submission failed as often as the host allows, and was parked",
    remedy="read why it failed, then replay it (`sluice parked list`)",
)
HINT_UNSENT: Final = LogEvent(
    name="sluice.hint.unsent",
    level=WARNING,
    fields=("error",),
    meaning="a hint that something was dropped could not be sent; the host's poll finds it",
    remedy="a publisher: check the address of the bus and the role on its queue `hints`, or turn hints off",
)
PERMIT_FOLLOWED: Final = LogEvent(
    name="sluice.permit.followed",
    level=INFO,
    fields=("slot", "outcome"),
    meaning="a permit woke an instance, and its tasks have ended: gave up, handed over, taken, or beyond the cap",
)
PERMIT_REFUSED: Final = LogEvent(
    name="sluice.permit.refused",
    level=WARNING,
    fields=("bytes",),
    meaning="a message on the queue permits is no valid permit, and was ignored",
    remedy="check who may send to the queue permits",
)
PERMIT_UNANSWERED: Final = LogEvent(
    name="sluice.permit.unanswered",
    level=WARNING,
    fields=("slot", "error"),
    meaning="storage did not answer an instance that a permit woke; the tick wakes another one",
)
PERMITS_UNSENT: Final = LogEvent(
    name="sluice.permits.unsent",
    level=WARNING,
    fields=("permits", "error"),
    meaning="permits could not be sent, so no instance was woken; the tick sends permits while the queues have messages",
    remedy="read the error: the bus or the storage account does not answer",
)
FEEDER_FOLLOWED: Final = LogEvent(
    name="sluice.feeder.followed",
    level=INFO,
    fields=("outcome",),
    meaning="a call of the feeder has ended: nothing waits for its turn, handed over, taken, lost or unanswered",
)
FEEDER_FAILED: Final = LogEvent(
    name="sluice.feeder.failed",
    level=WARNING,
    fields=("error", "at"),
    meaning="the feeder could not put what waits for its turn; it tries again, or another one does within a minute",
    remedy="read the error: storage does not answer",
)
FEEDER_UNCALLED: Final = LogEvent(
    name="sluice.feeder.uncalled",
    level=WARNING,
    fields=("error",),
    meaning="no feeder could be called for a job that waits for its turn; the tick calls one",
    remedy="read the error: the bus does not answer",
)
# --- concurrency ---

CONCURRENCY_DECIDED: Final = LogEvent(
    name="sluice.concurrency.decided",
    level=INFO,
    fields=("tasks", "binding", "reason"),
    meaning="the number of tasks that may run over the fleet from now on, the term that binds it, and the reason",
    remedy="if the budget binds it: raise SLUICE_BUDGET_PER_DAY, or let the work wait for tomorrow's budget",
    alert=Alert(severity=Severity.WARNING, where='tostring(fields.binding) == "budget"'),
)
WORK_WAITING: Final = LogEvent(
    name="sluice.work.waiting",
    level=WARNING,
    fields=("oldest_seconds", "depth"),
    meaning="the oldest message of a work queue has waited this long; checked every quarter of an hour",
    remedy="`sluice tune explain` names the term that holds the fleet back; if no instance runs: read the errors at its start",
    alert=Alert(severity=Severity.WARNING, where="todouble(fields.oldest_seconds) >= 3600"),
)
WORK_STRANDED: Final = LogEvent(
    name="sluice.work.stranded",
    level=WARNING,
    fields=("queues", "messages"),
    meaning="messages were on the work queues while no job was open, and permits were sent for them; checked once an hour",
    remedy="if it returns every hour: read the log of drain_work; else find the program that puts messages there by itself",
)
RULES_UNREADABLE: Final = LogEvent(
    name="sluice.rules.unreadable",
    level=ERROR,
    fields=("problems",),
    meaning="the rules of concurrency were changed and are now invalid; the last valid rules stay in force",
    remedy="correct them by `sluice tune rules put FILE`, which names each fault with its line",
    alert=Alert(severity=Severity.WARNING),
)
FLEET_UNREAD: Final = LogEvent(
    name="sluice.fleet.unread",
    level=WARNING,
    fields=("error",),
    meaning="a process could not read how many tasks may run; it continues by the last decision that it read",
)
# --- read models ---

MIGRATION_STANDS: Final = LogEvent(
    name="sluice.migration.stands",
    level=WARNING,
    fields=("model", "phase", "target", "silent_seconds"),
    meaning="a read model's migration made no progress for half an hour; meanwhile every event may be written twice",
    remedy="`sluice migrate status MODEL` names the command that goes on with it; type it again",
    alert=Alert(severity=Severity.WARNING),
)

# --- usage ---

USAGE_UNNOTED: Final = LogEvent(
    name="sluice.usage.unnoted",
    level=DEBUG,
    fields=("error",),
    meaning="the request counts of this process could not be stored; the next row includes them",
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
    meaning="unused ids could not be given back: they leave a gap",
)
# --- console ---

CONSOLE_FAILED: Final = LogEvent(
    name="sluice.console.failed",
    level=ERROR,
    fields=("page", "error", "at"),
    meaning="a page of the console failed; the work goes on",
    remedy="report the error and its place to the project; until then the commands show the same",
)
CONSOLE_REFUSED: Final = LogEvent(
    name="sluice.console.refused",
    level=ERROR,
    fields=("why",),
    meaning="the console was wanted, and the app runs without it: its pages have no address",
    remedy="switch on Azure's login as docs/deploy.md says, or take `console` out of SLUICE_CAPABILITIES",
)
# --- the start ---

START_REFUSED: Final = LogEvent(
    name="sluice.start.refused",
    level=ERROR,
    fields=("why",),
    meaning="the app does not start: only `/api/health` answers, by 503, and messages wait in their queues",
    remedy="correct the settings that the line names, or deploy the workload's module; the alert `silence` calls for it",
)
SETTING_UNDEPLOYED: Final = LogEvent(
    name="sluice.setting.undeployed",
    level=WARNING,
    fields=("setting", "file", "deployed"),
    meaning="`own/settings.json` says otherwise than the deployment, which decides over entities; the app runs as deployed",
    remedy="run `azd provision`, or give the setting its former value again",
)
SETTING_UNREAD: Final = LogEvent(
    name="sluice.setting.unread",
    level=WARNING,
    fields=("setting", "remedy"),
    meaning="a name that begins with `SLUICE_` is read by nothing: a release retired it, or a newer one knows it; the app runs",
    remedy="do what the line says, or update the app",
)
#: Those that a process of a capability logs. Their alerts are made where a capability lists them.
OF_PROCESSES: Final = (HOMES_LATE, PROCESS_STUCK, MIGRATION_STANDS)
EVENTS: Final = tuple(found for found in globals().values() if isinstance(found, LogEvent))
