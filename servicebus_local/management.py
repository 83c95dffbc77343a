"""Requests and replies: `$cbs`, where a client shows its token, and each entity's `$management`."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from cproton import pn_link_credit, pn_link_flow
from proton import UNDESCRIBED, Array, Data, Message, int32, timestamp

from servicebus_local import wire
from servicebus_local.broker import Broker
from servicebus_local.parcel import parcel_from
from servicebus_local.refusal import ARGUMENT, Refusal, not_implemented
from servicebus_local.transfer import answer, received, send

_CREDIT = 100
_UNDESCRIBED: Any = UNDESCRIBED
_VENDOR = "com.microsoft:"


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
    if status == "defered":
        raise not_implemented("deferring messages")
    if status not in {"completed", "abandoned", "suspended"}:
        raise Refusal(ARGUMENT, f"disposition-status is {status!r}, expected completed, abandoned or suspended")
    if call.body.get("properties-to-modify"):
        raise not_implemented("changing a message's properties on settling")
    for token in call.tokens():
        if status == "completed":
            queue.complete(token, call.now)
        elif status == "abandoned":
            queue.abandon(token, call.now)
        else:
            note = (call.body.get("deadletter-reason"), call.body.get("deadletter-description"))
            queue.dead_letter(token, call.now, *note)


def _peek(call: Call) -> dict[str, Any]:
    first, limit = int(call.body.get("from-sequence-number", 1)), int(call.body.get("message-count", 1))
    found = call.broker.outlet(call.path).peek(first, limit, call.body.get("session-id"))
    return {"messages": [{"message": encoded} for encoded in found]}


def _schedule(call: Call) -> dict[str, Any]:
    intake = call.broker.intake(call.path)
    parcels = [parcel_from(bytes(entry["message"])) for entry in call.body.get("messages", [])]
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


_OPERATIONS: dict[str, Callable[[Call], dict[str, Any] | None]] = {
    "renew-lock": _renew_locks,
    "update-disposition": _settle,
    "peek-message": _peek,
    "schedule-message": _schedule,
    "cancel-scheduled-message": _cancel,
    "renew-session-lock": _renew_session,
    "get-session-state": _session_state,
    "set-session-state": _keep_session_state,
}


def perform(operation: str, call: Call) -> dict[str, Any] | None:
    """Do what a request asks and return the reply's body."""
    act = _OPERATIONS.get(operation.removeprefix(_VENDOR))
    if act is None:
        raise not_implemented(f"the operation {operation!r}")
    try:
        return act(call)
    except wire.UNREADABLE as error:
        raise Refusal(ARGUMENT, f"the request {operation!r} to {call.path} cannot be read: {error}") from error


class Replies:
    """The link on which a client gets its replies."""

    def __init__(self, peer: Any, link: Any, path: str) -> None:
        self._peer = peer
        self._link = link._impl  # noqa: SLF001 - the C pointer, as for every link that messages go over
        self._path = path
        self._backlog: deque[bytes] = deque()
        self._sent = 0
        link.open()
        peer.replies.setdefault(path, []).append(self)

    def reply(self, encoded: bytes) -> None:
        """Send a reply as soon as there is credit for it."""
        self._backlog.append(encoded)
        self.on_flow()

    def on_flow(self) -> None:
        """Send what waits for credit."""
        while self._backlog and pn_link_credit(self._link) > 0:
            self._sent += 1
            send(self._link, f"r{self._sent}", self._backlog.popleft(), settled=True)
            self._peer.touched()

    def on_delivery(self, delivery: Any) -> None:
        """Nothing: replies are sent settled."""

    def on_gone(self) -> None:
        """Take this link off the connection's list."""
        self._peer.replies[self._path].remove(self)


class Requests:
    """The link on which a client sends its requests."""

    def __init__(self, peer: Any, link: Any, path: str, broker: Broker) -> None:
        self._peer = peer
        self._link = link._impl  # noqa: SLF001 - as above
        self._path = path
        self._broker = broker
        link.open()
        pn_link_flow(self._link, _CREDIT)

    def on_flow(self) -> None:
        """Nothing: credit goes the other way."""

    def on_gone(self) -> None:
        """Nothing is held for it."""

    def on_delivery(self, delivery: Any) -> None:
        """Do what is asked and reply on the newest reply link of the same connection and node."""
        encoded = received(self._link, delivery)
        if encoded is None:
            return
        request = Message()
        request.decode(encoded)
        reply = self._answered(request)
        reply.correlation_id = request.id
        links = self._peer.replies.get(self._path)
        if links:
            links[-1].reply(bytes(reply.encode()))
        # After the reply, and credit in bulk: the client takes 50 ms for each frame while it opens.
        answer(delivery)
        if pn_link_credit(self._link) < _CREDIT // 2:
            pn_link_flow(self._link, _CREDIT // 2)

    def _answered(self, request: Message) -> Message:
        properties = named(request.properties)
        operation = str(properties.get("operation"))
        if self._path == "$cbs":
            return _token_reply(operation)
        holder = self._peer.endpoint_named(properties.get("associated-link-name"))
        path = self._path.rsplit("/", 1)[0]
        call = Call(self._broker, path, named(request.body), time.time(), holder)
        try:
            result = perform(operation, call)
        except Refusal as refusal:
            refused = {"statusCode": int32(refusal.status), "statusDescription": refusal.description}
            return Message(properties=refused | {"errorCondition": refusal.condition})
        return Message(body=result, properties={"statusCode": int32(200), "statusDescription": "OK"})


def _token_reply(operation: str) -> Message:
    """Any token will do: the broker serves the loopback interface of a developer's machine."""
    if operation != "put-token":
        return Message(properties={"status-code": int32(501), "status-description": f"no operation {operation!r}"})
    return Message(properties={"status-code": int32(202), "status-description": "Accepted"})
