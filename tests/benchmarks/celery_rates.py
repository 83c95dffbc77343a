"""Celery's side of the benchmark; it runs in a virtual environment of its own, with this project on its path.

    celery --app tests.benchmarks.celery_rates worker        (one of the two processes of a worker)
    python -m tests.benchmarks.celery_rates FILE CHUNK       (publishes: 0 a chunk is one task for each transaction)

The broker's address and the file that each task notes its transactions in come from the environment.
"""

import os
import sys
import time
from pathlib import Path

import msgspec
from celery import Celery

from shared.workloads.billing import Billing, UsageRecord

BROKER, NOTES = os.environ["CELERY_BENCH_BROKER"], Path(os.environ["CELERY_BENCH_NOTES"])

app = Celery("rates", broker=BROKER)
app.conf.update(
    task_ignore_result=True,
    task_compression="gzip",
    worker_prefetch_multiplier=4,
    broker_transport_options={"polling_interval": 0.05},
    broker_connection_retry_on_startup=True,
)


# Named, for the publisher imports this module under another name than the worker does.
@app.task(name="rate")
def rate(line: str) -> None:
    """Rate one transaction."""
    _note([line])


@app.task(name="rate_many")
def rate_many(lines: list[str]) -> None:
    """Rate a chunk of transactions."""
    _note(lines)


def _note(lines: list[str]) -> None:
    decode, billing = msgspec.json.Decoder(UsageRecord).decode, Billing()
    charges = billing.map_many(list(map(decode, lines)), ())
    amount = sum(round(charge[3] * 100) for charge in charges)
    # Small appends are not torn, so both processes may write the same file.
    with NOTES.open("a") as notes:
        notes.write(f"{len(lines)} {amount}\n")


def main() -> None:
    """Publish the file and print when it began and the CPU seconds it took."""
    path, chunk = sys.argv[1], int(sys.argv[2])
    lines = Path(path).read_text().splitlines()
    began, used = time.time(), time.process_time()
    if chunk:
        for first in range(0, len(lines), chunk):
            rate_many.delay(lines[first : first + chunk])
    else:
        for line in lines:
            rate.delay(line)
    sys.stdout.write(f"{began} {time.process_time() - used}")


if __name__ == "__main__":
    main()
