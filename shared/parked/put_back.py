"""Puts a parked message back where it came from."""

import base64
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import msgspec
from azure.storage.queue import QueueServiceClient

from shared.answers import expecting_an_answer
from shared.errors import NotParkedError
from shared.parked.door import named
from shared.parked.entry import Entry, Stage
from shared.payload.limits import Limits
from shared.pipeline.messages import Result, decode, unwrap
from shared.pipeline.send_result import SendResult


class PutBack(Protocol):
    """Sends the bytes of an entry to the queue that it names; twice has the effect of once."""

    def __call__(self, entry: Entry, body: bytes, /) -> None:
        """Send it."""
        ...


def nobody() -> None:
    """Wake nobody."""


class QueuesPutBack:
    """PutBack to the storage queues, and to the bus what was a result; `wake` is called for work that was put back."""

    def __init__(self, queues: QueueServiceClient, send: SendResult, wake: Callable[[], object] = nobody) -> None:
        self._queues, self._send, self._wake = queues, send, wake

    def __call__(self, entry: Entry, body: bytes, /) -> None:
        """Send it; a submission says its job's id from now on, so that no replay of it makes a second job."""
        if entry.stage is Stage.SETTLE:
            self._send(_result(entry, body))
            return
        message = body if entry.stage is not Stage.ACCEPT else _named(entry, body)
        tried = f"put parked {entry.key!r} of job {entry.job!r} back on queue {entry.queue!r}"
        # Not closed: it shares the connections of the service's client.
        queue = self._queues.get_queue_client(entry.queue)
        with expecting_an_answer(tried):
            queue.send_message(_text(message), time_to_live=-1)
        if entry.stage in {Stage.PROCESS, Stage.FINISH}:
            self._wake()


def _named(entry: Entry, body: bytes) -> bytes:
    message, most = named(body, entry.about), Limits().message_bytes
    if len(message) > max(most, len(body)):
        raise NotParkedError(
            f"parked {entry.key!r} of job {entry.about!r} has {len(message)} bytes with its job id in it, {most} may "
            "be: publish it again under that job id, its transactions in a blob, and discard it"
        )
    return message


def _result(entry: Entry, body: bytes) -> Result:
    with suppress(msgspec.DecodeError, RecursionError):
        message = decode(unwrap(body))
        if isinstance(message, Result):
            return message
    raise NotParkedError(
        f"parked {entry.key!r} of job {entry.job!r} is no result that can be sent again: discard it, "
        "its chunk is dispatched again by itself"
    )


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        # A queue takes text only; whoever reads work and submissions recognises Base64.
        return base64.b64encode(body).decode()
