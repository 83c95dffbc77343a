"""The operations of an entity's `$management`, one function each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from proton import UNDESCRIBED, Array, Data, timestamp

from servicebus_local import wire
from servicebus_local.amend import identified
from servicebus_local.broker import Broker, Outlet
from servicebus_local.parcel import labelled, lock_token, parcel_from
from servicebus_local.queue import ONLY
from servicebus_local.record import Record
from servicebus_local.refusal import ARGUMENT, SESSION_NOT_FOUND, Refusal, not_implemented
from servicebus_local.rule_requests import add_rule, list_rules, remove_rule
from servicebus_local.rules import Rules
from servicebus_local.tokens import Right
from servicebus_local.transfer import properties_of

_UNDESCRIBED: Any = UNDESCRIBED
_VENDOR = "com.microsoft:"
#: The end of time, in milliseconds: a client that asks for sessions changed since then asks for every one.
_EVERY_SESSION = 253_402_300_800_000


@dataclass(frozen=True, slots=True)
class Call:
    """One request to an entity."""

    broker: Broker
    #: The entity's path, without `/$management`.
    path: str
    body: dict[str, Any]
    now: float
    #: The receiving link on whose behalf the client asks; holder of a session's lock.
    holder: object | None

    def tokens(self) -> list[str]:
        """Return the lock tokens of the request as the broker wrote them."""
        return [_token(token) for token in _listed(self.body.get("lock-tokens"))]

    def numbers(self) -> list[int]:
        """Return the sequence numbers of the request."""
        return [int(number) for number in _listed(self.body.get("sequence-numbers"))]


def named(value: Any) -> dict[str, Any]:
    """Return an AMQP map by plain names. Anything else has none."""
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}


def _listed(value: Any) -> list[Any]:
    return list(value.elements if isinstance(value, Array) else value or [])


def _token(token: Any) -> str:
    identity = token if isinstance(token, UUID) else UUID(str(token))
    try:
        return identity.bytes_le.decode("ascii")
    except UnicodeDecodeError:
        # Not one of this broker's: no lock has it, and the queue says so.
        return str(identity)


def _renew_locks(call: Call) -> dict[str, Any]:
    queue = call.broker.outlet(call.path).queue
    ends = [timestamp(int(queue.renew(token, call.now) * 1000)) for token in call.tokens()]
    return {"expirations": Array(_UNDESCRIBED, Data.TIMESTAMP, *ends)}


def _settle(call: Call) -> None:
    queue, status = call.broker.outlet(call.path).queue, call.body.get("disposition-status")
    if status not in {"completed", "abandoned", "defered", "suspended"}:
        raise Refusal(
            ARGUMENT, f"disposition-status is {status!r}, expected completed, abandoned, defered or suspended"
        )
    changes = properties_of(call.body.get("properties-to-modify"))
    for token in call.tokens():
        if status == "completed":
            queue.complete(token, call.now)
        elif status == "abandoned":
            queue.abandon(token, call.now, changes)
        elif status == "defered":
            queue.defer(token, call.now, changes)
        else:
            reason, description = call.body.get("deadletter-reason"), call.body.get("deadletter-description")
            note = properties_of({"DeadLetterReason": reason, "DeadLetterErrorDescription": description})
            queue.dead_letter(token, call.now, changes | note)


def _receive_deferred(call: Call) -> dict[str, Any]:
    outlet, session_id = call.broker.outlet(call.path), call.body.get("session-id")
    if outlet.sessions is not None:
        outlet.sessions.held(str(session_id), call.holder, call.now)
    settled = call.body.get("receiver-settle-mode", 1) == 0
    lane = ONLY if outlet.sessions is None else str(session_id)
    found = outlet.queue.take_deferred(call.numbers(), lane, call.now, settled=settled)
    return {"messages": [_handed_over(outlet, record) for record in found]}


def _handed_over(outlet: Outlet, record: Record) -> dict[str, Any]:
    if record.token is None:
        return {"message": labelled(record.parcel, record.label(None))}
    until = 0.0 if outlet.sessions is not None else record.locked_until
    return {"lock-token": lock_token(record.token), "message": labelled(record.parcel, record.label(until))}


def _list_sessions(call: Call) -> dict[str, Any]:
    sessions = call.broker.outlet(call.path).sessions
    if sessions is None:
        raise Refusal(ARGUMENT, f"{call.path} has no sessions to list")
    skip, top = int(call.body.get("skip", 0)), int(call.body.get("top", 100))
    changed_since = call.body.get("last-updated-time", _EVERY_SESSION)
    found = sessions.known() if changed_since == _EVERY_SESSION else sessions.changed_since(changed_since / 1000)
    listed = found[skip : skip + top]
    if not listed:
        raise Refusal(SESSION_NOT_FOUND, f"{call.path} has no further sessions that were asked for", 204)
    return {"skip": skip + len(listed), "sessions-ids": Array(_UNDESCRIBED, Data.STRING, *listed)}


def _peek(call: Call) -> dict[str, Any]:
    first, limit = int(call.body.get("from-sequence-number", 1)), int(call.body.get("message-count", 1))
    found = call.broker.outlet(call.path).peek(first, limit, call.body.get("session-id"))
    return {"messages": [{"message": encoded} for encoded in found]}


def _schedule(call: Call) -> dict[str, Any]:
    intake = call.broker.intake(call.path)
    parcels = [identified(parcel_from(bytes(entry["message"]))) for entry in call.body.get("messages", [])]
    for parcel in parcels:
        intake.check(parcel)
    # A repeat within the duplicate window is dropped like any other; 0 is no message's number.
    numbers = [intake.accept(parcel, call.now) or 0 for parcel in parcels]
    return {"sequence-numbers": Array(_UNDESCRIBED, Data.LONG, *numbers)}


def _cancel(call: Call) -> None:
    intake = call.broker.intake(call.path)
    for number in call.numbers():
        intake.cancel(number)


def _session(call: Call) -> tuple[Any, str]:
    sessions, session_id = call.broker.outlet(call.path).sessions, call.body.get("session-id")
    if sessions is None or not isinstance(session_id, str):
        raise Refusal(ARGUMENT, f"{call.path} has no session {session_id!r}")
    return sessions, session_id


def _renew_session(call: Call) -> dict[str, Any]:
    sessions, session_id = _session(call)
    return {"expiration": timestamp(int(sessions.renew(session_id, call.holder, call.now) * 1000))}


def _session_state(call: Call) -> dict[str, Any]:
    sessions, session_id = _session(call)
    return {"session-state": sessions.state(session_id, call.holder, call.now)}


def _keep_session_state(call: Call) -> None:
    sessions, session_id = _session(call)
    state = call.body.get("session-state")
    sessions.keep_state(session_id, call.holder, call.now, None if state is None else bytes(state))


def _rules(call: Call) -> Rules:
    rules = call.broker.outlet(call.path).rules
    if rules is None:
        raise Refusal(ARGUMENT, f"{call.path} has no rules: only a subscription has")
    return rules


_OPERATIONS: dict[str, Callable[[Call], dict[str, Any] | None]] = {
    "renew-lock": _renew_locks,
    "update-disposition": _settle,
    "receive-by-sequence-number": _receive_deferred,
    "get-message-sessions": _list_sessions,
    "peek-message": _peek,
    "schedule-message": _schedule,
    "cancel-scheduled-message": _cancel,
    "renew-session-lock": _renew_session,
    "get-session-state": _session_state,
    "set-session-state": _keep_session_state,
    "add-rule": lambda call: add_rule(_rules(call), call.body),
    "remove-rule": lambda call: remove_rule(_rules(call), call.body),
    "enumerate-rules": lambda call: list_rules(_rules(call), call.body),
}
#: What the service wants for an operation. Its documentation names Listen for scheduling too, and a sender alone is refused.
_RIGHTS = {
    "schedule-message": (Right.SEND, Right.LISTEN),
    "cancel-scheduled-message": (Right.SEND, Right.LISTEN),
    "add-rule": (Right.MANAGE,),
    "remove-rule": (Right.MANAGE,),
}


def rights_for(operation: str) -> tuple[Right, ...]:
    """Return the rights that a token needs for an operation."""
    return _RIGHTS.get(operation.removeprefix(_VENDOR), (Right.LISTEN,))


def perform(operation: str, call: Call) -> dict[str, Any] | None:
    """Do what a request asks and return the reply's body."""
    allowance = call.broker.allowance(call.path)
    if allowance is not None:
        allowance.demand(call.now)
    act = _OPERATIONS.get(operation.removeprefix(_VENDOR))
    if act is None:
        raise not_implemented(f"the operation {operation!r}")
    try:
        return act(call)
    except wire.UNREADABLE as error:
        raise Refusal(ARGUMENT, f"the request {operation!r} to {call.path} cannot be read: {error}") from error
