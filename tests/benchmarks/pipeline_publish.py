"""Publishes one file as one job, in a process whose time and memory are its own.

python -m tests.benchmarks.pipeline_publish FILE JOB WORKLOAD TOTAL        (the storage account is named by SluiceStorage)
"""

import json
import os
import sys
import time
from contextlib import closing
from pathlib import Path

from shared.azure.connections import Connections
from shared.publish import Publisher
from tests.memory import peak


def main() -> None:
    """Publish, and print when it began, and the CPU seconds and the memory it took."""
    path, job, workload, total = sys.argv[1:]
    with (
        Connections.parse(os.environ) as connections,
        closing(Publisher.connect(connections)) as publisher,
        Path(path).open("rb") as file,
    ):
        used, began = time.process_time(), time.time()
        publisher.submit_file(job=job, file=file, workload=workload, declare={"quantity": total})
        cpu, sent = time.process_time() - used, time.time()
    sys.stdout.write(json.dumps({"began": began, "sent": sent, "cpu": cpu, "peak": peak()}))


if __name__ == "__main__":
    main()
