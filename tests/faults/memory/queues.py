"""The queue service, as far as Sluice uses it."""

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from datetime import datetime, timedelta
from xml.sax.saxutils import escape

from tests.faults.memory.reply import Reply, http_date, refusal


@dataclass
class _Message:
    id: str
    text: str
    put_at: datetime
    visible_at: datetime
    receipt: str = ""
    deliveries: int = 0
    #: Of two that become visible at the same time, the one that was told so first comes first.
    turn: int = 0


class Queues:
    """Queues with visibility, receipts and counts."""

    def __init__(self, storage, queues):
        self._storage = storage
        self.content = {name: {} for name in queues}

    def answer(self, asked):
        """Answer one request."""
        name, _, rest = asked.path.partition("/")
        if not name:
            return self._named(asked.query.get("prefix", ""))
        queue = self.content.get(name)
        if asked.method == "PUT" and not rest:
            self.content.setdefault(name, {})
            return Reply(201 if queue is None else 204)
        if queue is None:
            return refusal(404, "QueueNotFound")
        if asked.method == "DELETE" and not rest:
            del self.content[name]
            return Reply(204)
        if asked.query.get("comp") == "metadata":
            return Reply(200, headers={"x-ms-approximate-messages-count": str(len(queue))})
        _, _, message = rest.partition("/")
        act = {
            ("POST", False): self._send,
            ("GET", False): self._receive,
            ("DELETE", False): self._clear,
            ("DELETE", True): self._delete,
            ("PUT", True): self._update,
        }[asked.method, bool(message)]
        return act(queue, message, asked)

    def _send(self, queue, _message, asked):
        text = ET.fromstring(asked.body).findtext("MessageText") or ""
        name, now = f"00000000-0000-4000-8000-{self._storage.version():012x}", self._storage.now
        delay = timedelta(seconds=int(asked.query.get("visibilitytimeout", 0)))
        message = queue[name] = _Message(
            name, text, self._storage.inserts_at, now + delay, self._receipt(), turn=self._storage.version()
        )
        return self._listed(201, [message], is_sent=True)

    def _receive(self, queue, _message, asked):
        most, hidden = int(asked.query.get("numofmessages", 1)), int(asked.query.get("visibilitytimeout", 30))
        now, is_peek = self._storage.now, asked.query.get("peekonly") == "true"
        visible = [message for message in queue.values() if message.visible_at <= now]
        found = sorted(visible, key=lambda message: (message.visible_at, message.turn))[:most]
        for message in [] if is_peek else found:
            message.visible_at = now + timedelta(seconds=hidden)
            message.receipt, message.deliveries = self._receipt(), message.deliveries + 1
        return self._listed(200, found, is_peek=is_peek)

    def _clear(self, queue, _message, _asked):
        queue.clear()
        return Reply(204)

    def _delete(self, queue, message, asked):
        refused = _refused(queue, message, asked)
        if refused:
            return refused
        del queue[message]
        return Reply(204)

    def _update(self, queue, message, asked):
        refused = _refused(queue, message, asked)
        if refused:
            return refused
        found = queue[message]
        if asked.body:
            found.text = ET.fromstring(asked.body).findtext("MessageText") or ""
        found.visible_at = self._storage.now + timedelta(seconds=int(asked.query["visibilitytimeout"]))
        found.receipt, found.turn = self._receipt(), self._storage.version()
        shown = http_date(found.visible_at)
        return Reply(204, headers={"x-ms-popreceipt": found.receipt, "x-ms-time-next-visible": shown})

    def _receipt(self):
        return f"receipt{self._storage.version()}"

    def _named(self, prefix):
        named = "".join(
            f"<Queue><Name>{name}</Name></Queue>" for name in sorted(self.content) if name.startswith(prefix)
        )
        text = (
            f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Prefix>{prefix}</Prefix><Queues>{named}</Queues>'
            "<NextMarker /></EnumerationResults>"
        )
        return Reply(200, text.encode(), {"Content-Type": "application/xml"})

    def _listed(self, status, messages, *, is_sent=False, is_peek=False):
        entries = "".join(_entry(message, is_sent=is_sent, is_peek=is_peek) for message in messages)
        text = f'<?xml version="1.0" encoding="utf-8"?><QueueMessagesList>{entries}</QueueMessagesList>'
        return Reply(status, text.encode(), {"Content-Type": "application/xml"})


def _entry(message, *, is_sent, is_peek):
    content = (
        ""
        if is_sent
        else (f"<DequeueCount>{message.deliveries}</DequeueCount><MessageText>{escape(message.text)}</MessageText>")
    )
    taken = (
        ""
        if is_peek
        else f"<PopReceipt>{message.receipt}</PopReceipt><TimeNextVisible>{http_date(message.visible_at)}</TimeNextVisible>"
    )
    return (
        f"<QueueMessage><MessageId>{message.id}</MessageId><InsertionTime>{http_date(message.put_at)}</InsertionTime>"
        f"<ExpirationTime>Fri, 31 Dec 9999 23:59:59 GMT</ExpirationTime>{taken}{content}</QueueMessage>"
    )


def _refused(queue, message, asked):
    if message not in queue:
        return refusal(404, "MessageNotFound")
    if queue[message].receipt != asked.query.get("popreceipt"):
        return refusal(400, "PopReceiptMismatch")
    return None
