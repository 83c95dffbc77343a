"""Publishes many transactions from a generator and takes them in again, in a process whose memory is measured.

python -m tests.publish.million CONNECTION_STRING ITEMS
"""

import json
import sys
import time
import uuid
from decimal import Decimal

import msgspec
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

from shared.payload import Intake, Limits, PayloadStores, open_envelope, read_submission
from shared.payload.transactions import Reader
from shared.publish import Publisher
from tests.memory import peak
from tests.payload.fetching import fetch

LIMITS = Limits()


class Usage(msgspec.Struct):
    """A transaction of about 195 bytes as JSON."""

    id: str
    account: str
    plan: str
    meter: str
    quantity: int
    amount: str
    currency: str
    at: str


def usages(count):
    """Yield so many, one at a time."""
    for number in range(count):
        mixed = number * 2_654_435_761 % 4_294_967_296
        yield Usage(
            f"usage-{number:010}-{mixed:08x}",
            f"account-{mixed % 50_000:06}",
            ("basic", "team", "enterprise")[mixed % 3],
            ("api-calls", "storage-gb-hours", "egress-gb")[mixed % 7 % 3],
            mixed % 1000,
            f"{mixed % 100_000 / 100:.2f}",
            "EUR",
            f"2026-11-{mixed % 28 + 1:02}T{mixed % 24:02}:{mixed % 60:02}:00Z",
        )


def main() -> None:
    """Print how many came back, whether the sums agree, the memory at most, and the time of both ways."""
    connection, count = sys.argv[1], int(sys.argv[2])
    mark = uuid.uuid4().hex[:12]
    with (
        QueueServiceClient.from_connection_string(connection) as queues,
        BlobServiceClient.from_connection_string(connection) as blobs,
    ):
        queue, payloads = queues.create_queue(f"million-{mark}"), blobs.create_container(f"million-{mark}")
        began = time.monotonic()
        sent = Publisher(queue, payloads).submit(job="million", transactions=usages(count), sums=["amount"])
        published = time.monotonic()
        (message,) = queue.peek_messages()
        submission = read_submission(open_envelope(message.content, LIMITS), message.id, LIMITS)
        intake = Intake("", PayloadStores(lambda _name: payloads), LIMITS)
        payload, items, amounts, reader = intake.take(submission), 0, [], Reader(Usage, ("amount",))
        for _, text in fetch(intake, payload):
            read = reader.read(text.split(b"\n")[:-1])
            items += len(read.transactions)
            amounts.append(sum(Decimal(one.amount) for one in read.transactions))
    sys.stdout.write(
        json.dumps(
            {
                "items": items,
                "is_balanced": sum(amounts) == submission.declared.sums["amount"] == sent.sums["amount"],
                "peak": peak(),
                "stored_per_item": sent.stored_bytes / count,
                "publish_microseconds": (published - began) / count * 1e6,
                "read_microseconds": (time.monotonic() - published) / count * 1e6,
            }
        )
    )


if __name__ == "__main__":
    main()
