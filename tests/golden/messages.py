"""What the code sends of the fixed values, and what it reads of that."""

import re

from azure.servicebus import ServiceBusMessage

from tests.golden import parts as p, values as v

#: The library gives a message that has no id another one each time.
_IS_CHANCE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class _Taking:
    """Stands where the bus is: takes messages of the real library."""

    def __init__(self, taken):
        self._taken = taken

    def get_queue_sender(self, _entity):
        """Return itself as the sender."""
        return self

    get_topic_sender = get_queue_sender

    def send_messages(self, sent):
        """Take one message, or several."""
        self._taken.extend([sent] if isinstance(sent, ServiceBusMessage) else sent)

    def close(self):
        """Nothing to close."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


class _Connections(p.Connections):
    def __init__(self):
        super().__init__("UseDevelopmentStorage=true", "in this process")
        self.taken = []

    def bus_client(self):
        """Return a client that takes everything."""
        return _Taking(self.taken)


def bodies():
    """Return the bodies of messages on queues and on the bus."""
    own = {name: p.encode(message) for name, message in v.MESSAGES.items()}
    permits = {"permit": p.encode_permit(v.PERMIT), "permit, as little as can be": p.encode_permit(v.LEAST_PERMIT)}
    submissions = {f"submission: {name}": p.write_submission(said) for name, said in v.SUBMISSIONS.items()}
    return {name: body.decode() for name, body in (own | permits | submissions).items()}


def bounds():
    """Return the body of a submission with a bound of its rejected transactions."""
    return {"submission: bounded": p.write_submission(v.BOUNDED_SUBMISSION).decode()}


def waits():
    """Return the bodies of submissions that wait for others, or are made from them."""
    return {f"submission: {name}": p.write_submission(said).decode() for name, said in v.WAITING_SUBMISSIONS.items()}


def stretched():
    """Return the body of a submission whose payload comes in stretches."""
    return {"submission: in stretches": p.write_submission(v.STRETCHED_SUBMISSION).decode()}


def ranged():
    """Return the bodies of messages about a range."""
    return {
        "range": p.encode(p.FileRange(job="nightly", stretch=17)).decode(),
        "range that is put again": p.encode(p.FileRange(job="team-a~nightly", stretch=17, again=True)).decode(),
    }


def sounds():
    """Return the bodies about the size of a merged partial."""
    return {name: p.encode(message).decode() for name, message in v.SOUNDS.items()}


def halts():
    """Return the body of a chunk's message that was put after its job was paused twice."""
    message = p.structs.replace(v.MESSAGES["chunk"], halts=2)
    return {"chunk of a job that was halted": p.encode(message).decode()}


def calls():
    """Return the body of the call of a feeder."""
    return {"feed call": p.encode_permit(p.FeedCall()).decode()}


def line_bodies():
    """Return the bodies of messages about a job with lines."""
    return {name: p.encode(message).decode() for name, message in v.LINED_MESSAGES.items()}


def aside_bodies():
    """Return the bodies of messages about transactions that are set aside."""
    return {name: p.encode(message).decode() for name, message in v.ASIDE_MESSAGES.items()}


def words():
    """Return the words that rows, logs and documents have from enumerations, and the keys of rows."""
    kinds = {
        "entry": p.EntryState,
        "job": p.JobState,
        "chunk": p.ChunkState,
        "risk": p.Risk,
        "cause": p.Cause,
        "fate": p.ReplayFate,
        "replay": p.ReplayState,
        "mark": p.Mark,
        "seen by": p.SeenBy,
        "gate change": p.ChangeKind,
        "refusal": (*p.Reason, *p.OrderReason),
        "result": p.ResultReason,
    }
    keys = {
        "chunk": p.chunk_key(7, 2),
        "transactions": p.transactions_key(7, 2),
        "result": p.result_key(7, 2),
        "finish": p.finish_key(2),
        "segment": p.segment_key(7, 2),
        "shard": p.shard_key(7, 2),
        "partition of a shard": p.shard_partition("team-a~nightly", 7),
        "shards of accounts": [p.shard_of(account, 16) for account in ("", "alice", "Bob / 7 %", "ä", "x" * 500)],
        "content": p.content_key(p.SETTLE, v.ENTRY_BODY),
        "door": p.door_key("submissions", v.ENTRY_BODY, "nightly"),
        "door of a room": p.door_key("submissions-team-a", v.ENTRY_BODY, "team-a~nightly"),
        "note": p.submission_note("submissions", v.ENTRY_BODY, "m1"),
        "accounts": [p.account_key(account) for account in ("", "alice", "Bob / 7 %", "ä", "x" * 500)],
        "places": [p.DOOR, p.NO_JOB],
        "pointers": [
            p.DEADLINE_POINTER,
            p.DISPATCH_POINTER,
            p.FINISH_POINTER,
            p.GATE_POINTER,
            p.JOB_POINTER,
            p.ORPHANS_POINTER,
            p.OUTBOX_POINTER,
            p.RETENTION_POINTER,
            p.ROOM_POINTER,
        ],
    }
    stages = sorted([p.ACCEPT, p.PROCESS, p.FINISH, p.SETTLE, p.TRANSACTIONS])
    named = {name: sorted(str(one.value) for one in kind) for name, kind in kinds.items()}
    return {"stage": stages} | named | {"keys": keys}


def errors():
    """Return the names of the errors: a reason in a parked row is `failed:` and one of them."""
    own = [(module.__name__, *one) for module in (p.errors, p.seats) for one in vars(module).items()]
    kinds = (p.errors.SluiceError, p.errors.SettingsError, p.errors.UserExitError)
    return sorted(
        name
        for module, name, one in own
        if isinstance(one, type) and issubclass(one, kinds) and one.__module__ == module
    )


def on_the_bus():
    """Return each message that goes over the bus, with everything around its body."""
    with _Connections() as connections:
        signals = p.BusSignals(connections)
        signals.send("morning", 3)
        signals.send_on([p.Hint("morning", "nightly"), p.Hint("morning", "nightly", slice=7)], 3)
        signals.send_job("nightly")
        with p.BusPermits(connections) as permits:
            permits([v.PERMIT])
        with p.BusResults(connections) as results:
            results(v.MESSAGES["result"])
        event = p.OutgoingMessage("000000001", p.JOB_EVENTS, p.encode(v.MESSAGES["completed"]))
        with p.BusAnnouncements(connections) as announce:
            announce(event)
        return [_described(message) for message in connections.taken]


def _described(message):
    lasting = message.time_to_live
    return {
        "body": b"".join(message.body).decode(),
        "properties": dict(message.application_properties or {}),
        "subject": message.subject,
        "content_type": message.content_type,
        "correlation_id": message.correlation_id,
        "message_id": None if _IS_CHANCE.fullmatch(message.message_id or "") else message.message_id,
        "session_id": message.session_id,
        "time_to_live": lasting.total_seconds() if lasting else None,
    }
