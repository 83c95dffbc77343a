"""Requests and replies: `$cbs`, where a client shows its token, and each entity's `$management`."""

import time
from collections import deque
from typing import Any
from urllib.parse import urlsplit

from cproton import pn_link_credit, pn_link_flow
from proton import Message, int32

from servicebus_local.broker import Broker
from servicebus_local.operations import Call, named, perform, rights_for
from servicebus_local.refusal import Refusal
from servicebus_local.tokens import Gatekeeper, demand
from servicebus_local.transfer import answer, received, send

#: The node where a client shows its tokens.
CBS = "$cbs"
_CREDIT = 100


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

    def __init__(self, peer: Any, link: Any, path: str, broker: Broker, gatekeeper: Gatekeeper | None = None) -> None:
        self._peer = peer
        self._link = link._impl  # noqa: SLF001 - as above
        self._path = path
        self._broker = broker
        self._gatekeeper = gatekeeper
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
        if self._path == CBS:
            return self._token_reply(operation, request.body, str(properties.get("name") or ""))
        holder = self._peer.endpoint_named(properties.get("associated-link-name"))
        path = self._path.rsplit("/", 1)[0]
        call = Call(self._broker, path, named(request.body), time.time(), holder)
        try:
            if self._gatekeeper is not None:
                # A client's token may be for the channel alone.
                demand(self._peer.scopes, self._path, rights_for(operation), call.now)
            result = perform(operation, call)
        except Refusal as refusal:
            refused = {"statusCode": int32(refusal.status), "statusDescription": refusal.description}
            return Message(properties=refused | {"errorCondition": refusal.condition})
        return Message(body=result, properties={"statusCode": int32(200), "statusDescription": "OK"})

    def _token_reply(self, operation: str, token: Any, audience: str) -> Message:
        """Any token will do where the broker was told no key: it serves a developer's machine.

        With a key, a right token for an entity that is not there is answered by 404, as the service does.
        """
        status, description = 202, "Accepted"
        if operation != "put-token":
            status, description = 501, f"no operation {operation!r}"
        elif self._gatekeeper is not None:
            try:
                scope = self._gatekeeper.scope(str(token))
                # A client shows a new one before the last one ends, again and again.
                self._peer.scopes = [*(one for one in self._peer.scopes if one.lasts(time.time())), scope]
                self._broker.demand(urlsplit(audience).path.strip("/").removesuffix("/$management"), audience)
            except Refusal as refusal:
                status, description = refusal.status, refusal.description
        return Message(properties={"status-code": int32(status), "status-description": description})
