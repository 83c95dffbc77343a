"""The fate of a new link: a sender, a receiver, a session that is taken or waited for, a request channel, a no."""

import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from proton import Described, Terminus

from servicebus_local.broker import Broker, Outlet
from servicebus_local.management import CBS, Replies, Requests
from servicebus_local.operations import named
from servicebus_local.peer import Endpoint, Peer
from servicebus_local.queue import MessageQueue
from servicebus_local.receiver import Desk
from servicebus_local.refusal import NOT_ALLOWED, Refusal, not_implemented
from servicebus_local.sender import LARGEST_MESSAGE, Producer
from servicebus_local.session_link import SESSION_FILTER, Line, lock_lost, opened, refuse_link
from servicebus_local.tokens import Gatekeeper, Right, demand


def node(address: str | None) -> str:
    """Return the entity's path: clients send it bare or as a URI."""
    path = urlsplit(address).path if address and "://" in address else address or ""
    return path.strip("/")


def _is_channel(path: str) -> bool:
    return path == CBS or path.lower().endswith("/$management")


def _filters(link: Any) -> dict[str, Any]:
    wanted = link.remote_source.filter
    wanted.rewind()
    return named(wanted.get_object()) if wanted.next() else {}


class Hall:
    """Where links arrive."""

    def __init__(self, broker: Broker, gatekeeper: Gatekeeper | None = None) -> None:
        self._broker = broker
        #: None: everybody on the machine may come in.
        self._gatekeeper = gatekeeper
        #: Each is made for the first receiver, because entities come and go.
        self._desks: dict[MessageQueue, Desk] = {}
        self._throttled: list[Desk] = []
        self._lines: dict[MessageQueue, Line] = {}

    def attach(self, peer: Peer, link: Any) -> Endpoint | None:
        """Answer a new link, or refuse it with the reason."""
        try:
            return self._receiving(peer, link) if link.is_sender else self._sending(peer, link)
        except Refusal as refusal:
            refuse_link(link, refusal)
            return None

    def serve(self, queue: MessageQueue, now: float) -> None:
        """Give free sessions to those who wait for one, then messages to those who have credit."""
        line = self._lines.get(queue)
        if line is not None:
            line.serve(now)
        # Without a desk there was no receiver yet, and the first one stirs the queue again.
        if (desk := self._desks.get(queue)) is not None:
            desk.serve(now)

    def advance(self, now: float) -> None:
        """Do what time alone brings, and tell those whom it concerns."""
        for lock in self._broker.advance(now):
            lock_lost(lock)
        for line in self._lines.values():
            line.advance(now)
        for desk in self._throttled:
            desk.advance()

    def _sending(self, peer: Peer, link: Any) -> Endpoint:
        target = link.remote_target
        if target.type == Terminus.COORDINATOR:
            raise not_implemented("transactions")
        path = node(target.address)
        channel = _is_channel(path)
        self._admit(peer, path, () if channel else (Right.SEND,))
        intake = None if channel else self._broker.intake(path)
        link.target.address = target.address
        link.source.address = link.remote_source.address
        if intake is None:
            return Requests(peer, link, path, self._broker, self._gatekeeper)
        link.snd_settle_mode = link.remote_snd_settle_mode
        link.max_message_size = LARGEST_MESSAGE
        link.open()
        return Producer(link._impl, intake)  # noqa: SLF001 - the C pointer, for the calls that each message makes

    def _admit(self, peer: Peer, path: str, rights: Iterable[Right]) -> None:
        if self._gatekeeper is not None and path != CBS:
            demand(peer.scopes, path, rights, time.time())

    def _receiving(self, peer: Peer, link: Any) -> Endpoint:
        path = node(link.remote_source.address)
        channel = _is_channel(path)
        self._admit(peer, path, () if channel else (Right.LISTEN,))
        desk = None if channel else self._desk(self._broker.outlet(path))
        filters = _filters(link)
        strange = sorted(set(filters) - {SESSION_FILTER})
        if strange:
            raise not_implemented(f"the receiving filter {strange[0]!r}")
        link.source.address = link.remote_source.address
        link.target.address = link.remote_target.address
        if desk is None:
            return Replies(peer, link, path)
        return self._receiver(peer, link, desk, filters)

    def _desk(self, outlet: Outlet) -> Desk:
        if (known := self._desks.get(outlet.queue)) is not None:
            return known
        self._desks[outlet.queue] = desk = Desk(outlet)
        if outlet.sessions is not None:
            self._lines[outlet.queue] = Line(desk, outlet.sessions)
        if outlet.allowance is not None:
            self._throttled.append(desk)
        return desk

    def _receiver(self, peer: Peer, link: Any, desk: Desk, filters: dict[str, Any]) -> Endpoint:
        name, line = desk.outlet.queue.name, self._lines.get(desk.outlet.queue)
        if line is None and filters:
            raise Refusal(NOT_ALLOWED, f"{name} has no sessions: receive from it without one")
        if line is None:
            return opened(peer, link, desk)
        if not filters:
            raise Refusal(NOT_ALLOWED, f"{name} has sessions: accept a session to receive from it")
        asked = filters[SESSION_FILTER]
        session_id: Any = asked.value if isinstance(asked, Described) else asked
        if session_id is not None and not isinstance(session_id, str):
            raise Refusal(NOT_ALLOWED, f"{name} was asked for session {session_id!r}: the id of a session is a text")
        return line.ask(peer, link, session_id, named(link.remote_properties))
