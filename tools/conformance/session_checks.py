"""Tries at the properties of sessions."""

from contextlib import closing
from typing import Final

from azure.servicebus import ServiceBusClient
from azure.servicebus.exceptions import SessionCannotBeLockedError

from tools.conformance.bus_wishes import LOCK, SESSIONS
from tools.conformance.message_checks import message, send, take, take_all
from tools.conformance.scene import DONE, CheckEntry, Scene

_MANY: Final = 10
_LOCK_OVER: Final = LOCK.total_seconds() + 2.0


def _send(scene: Scene, bus: ServiceBusClient, queue: str, session: str, count: int) -> list[str]:
    bodies = [str(number) for number in range(count)]
    send(bus, queue, *(message(scene, body, message_id=f"{session}-{body}", session_id=session) for body in bodies))
    return bodies


def check_order(scene: Scene) -> None:
    """Send messages of two sessions in turn, by several sends, and receive one session."""
    queue, mine, other = scene.site.bus_queue(SESSIONS), f"{scene.nonce}-order", f"{scene.nonce}-beside"
    bodies = [str(number) for number in range(_MANY)]
    with scene.site.bus() as bus:
        for some in (bodies[:3], bodies[3:4], bodies[4:]):
            both = [
                message(scene, body, message_id=f"{session}-{body}", session_id=session)
                for body in some
                for session in (mine, other)
            ]
            send(bus, queue, *both)
        for session in (mine, other):
            with bus.get_queue_receiver(queue, session_id=session) as receiver:
                tried = f"send {_MANY} messages of a session, between those of another, and receive them"
                scene.notes.note("bus.fifo", tried, bodies, take_all(receiver, _MANY))


def check_holder(scene: Scene) -> None:
    """Accept a session that another receiver holds."""
    queue, session = scene.site.bus_queue(SESSIONS), f"{scene.nonce}-holder"
    with scene.site.bus() as bus, scene.site.bus() as other, bus.get_queue_receiver(queue, session_id=session):
        scene.notes.note("bus.holder", "accept a session while it is held", "refused", _accept(other, queue, session))


def _accept(bus: ServiceBusClient, queue: str, session: str) -> str:
    # The library leaves the connection of a refused receiver open.
    with closing(bus.get_queue_receiver(queue, session_id=session)) as receiver:
        try:
            with receiver:
                return DONE
        except SessionCannotBeLockedError:
            return "refused"


def check_again(scene: Scene) -> None:
    """Abandon the first message of a session."""
    queue, session = scene.site.bus_queue(SESSIONS), f"{scene.nonce}-again"
    with scene.site.bus() as bus:
        bodies = _send(scene, bus, queue, session, 3)
        with bus.get_queue_receiver(queue, session_id=session) as receiver:
            first = take(receiver)
            if first:
                receiver.abandon_message(first)
            tried = "take and abandon the first message of three, and receive all"
            scene.notes.note("bus.again", tried, bodies, take_all(receiver, 3))


def check_end(scene: Scene) -> None:
    """Hold a session without renewing it, and accept it elsewhere."""
    queue, session = scene.site.bus_queue(SESSIONS), f"{scene.nonce}-end"
    with scene.site.bus() as bus, scene.site.bus() as other:
        bodies = _send(scene, bus, queue, session, 3)
        with bus.get_queue_receiver(queue, session_id=session) as holder:
            take(holder)
            scene.pace.wait(_LOCK_OVER)
            found = _take_over(other, queue, session)
            tried = f"accept a session {_LOCK_OVER:g} s after a lock of {LOCK.seconds} s began, and receive all"
            scene.notes.note("bus.session_end", tried, bodies, found)


def _take_over(bus: ServiceBusClient, queue: str, session: str) -> list[str]:
    with closing(bus.get_queue_receiver(queue, session_id=session)) as receiver:
        try:
            with receiver:
                return take_all(receiver, 3)
        except SessionCannotBeLockedError:
            return ["the session is still held"]


CHECKS: Final = (
    CheckEntry(check_order, ("bus.fifo",)),
    CheckEntry(check_holder, ("bus.holder",)),
    CheckEntry(check_again, ("bus.again",)),
    CheckEntry(check_end, ("bus.session_end",)),
)
