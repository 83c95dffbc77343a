"""Takes every hostile case in through the real store, in a process that may not have much memory, and says how each ends.

python -m tests.payload.within_limit CONNECTION_STRING CONTAINER BYTES
"""

import json
import resource
import sys
import time
from decimal import Decimal

import msgspec
from azure.storage.blob import ContainerClient

from shared.errors import RefusedError
from shared.payload import Intake, Limits, PayloadStores, open_envelope, read_submission
from shared.workloads.registry import run_lines
from tests import memory
from tests.payload.fetching import fetch
from tests.payload.hostile import MESSAGE_ID, Case, Stage, cases

LIMITS = Limits()


class Bought(msgspec.Struct):
    """What the workload of these cases wants of a transaction."""

    id: int | None = None
    amount: Decimal = Decimal(0)


class Buying:
    """That workload; what it makes of the transactions is nobody's concern."""

    name, transaction, partial, sums = "buying", Bought, int, ("amount",)

    def map(self, _bought, number):
        """Return anything."""
        return number

    def combine(self, mapped):
        """Count."""
        return len(mapped)


def main() -> None:
    """Print one JSON document with every outcome and the memory that was used at most."""
    connection, name, most = sys.argv[1:]
    with ContainerClient.from_connection_string(connection, name) as container:
        # Only what comes on top of the interpreter and its libraries is the payload's doing.
        resource.setrlimit(resource.RLIMIT_AS, (int(most), int(most)))
        outcomes = [outcome(case, container) for case in cases()]
    sys.stdout.write(json.dumps({"outcomes": outcomes, "peak": memory.peak()}))


def outcome(case: Case, container: ContainerClient) -> dict[str, object]:
    """Return how a case ended."""
    for name, content in case.blobs.items():
        container.upload_blob(name, content, overwrite=True)
    # Of this process, so that what else a machine does counts little.
    began = time.process_time()
    stage, reason = take(case.message, PayloadStores(lambda _name: container))
    seconds = time.process_time() - began
    return {
        "name": case.name,
        "wanted": [case.stage, case.reason],
        "found": [stage, reason],
        "seconds": seconds,
    }


def take(message: bytes, stores: PayloadStores) -> tuple[str, str]:
    """Do with a message what the pipeline does, and return where it ends and why."""
    intake = Intake("", stores)
    try:
        submission = read_submission(open_envelope(message, LIMITS), MESSAGE_ID, LIMITS)
        payload = intake.take(submission)
    except RefusedError as refused:
        return Stage.ACCEPT, refused.reason
    try:
        for first, text in fetch(intake, payload):
            for rejection in run_lines(Buying(), text.split(b"\n")[:-1], first).rejections:
                return Stage.TRANSACTION, rejection.reason
    except RefusedError as refused:
        return Stage.CHUNK, refused.reason
    return "", "accepted"


if __name__ == "__main__":
    main()
