"""How much of the CPU time of a busy run the local broker takes: `python tests/benchmarks/broker_cpu.py`.

Four client processes send, receive and complete 20,000 small messages, one by one as the Functions host does; the
broker must not be what limits such a run.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from servicebus_local.launcher import Broker  # noqa: E402 - the path to it is set just above

from tests.benchmarks import document  # noqa: E402 - the same

DOCUMENT = ROOT / "docs" / "appendix" / "stand-ins.md"

MESSAGES = 20_000
CLIENTS = 4
_ARGUMENTS = 3
_TICKS = os.sysconf("SC_CLK_TCK")


def _cpu_seconds(pid: int) -> float:
    """User and system time of a running process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _client(connection_string: str, share: int) -> None:
    from azure.servicebus import ServiceBusClient, ServiceBusMessage  # noqa: PLC0415 - only the clients need it

    with ServiceBusClient.from_connection_string(connection_string) as client:
        with client.get_queue_sender("results") as sender:
            for _ in range(share):
                sender.send_messages(ServiceBusMessage(b"x" * 100))
        with client.get_queue_receiver("results", prefetch_count=100) as receiver:
            left = share
            while left:
                for message in receiver.receive_messages(max_message_count=min(100, left), max_wait_time=30):
                    receiver.complete_message(message)
                    left -= 1


def main(_arguments: Sequence[str] = ()) -> int:
    """Run and print the table; the exit status is 1 where the broker takes half or more."""
    with Broker.start() as broker:
        pid = broker.pid or 0
        idle = _cpu_seconds(pid)
        command = [sys.executable, __file__, broker.connection_string, str(MESSAGES // CLIENTS)]
        started = time.monotonic()
        clients = [subprocess.Popen(command) for _ in range(CLIENTS)]
        statuses = [client.wait() for client in clients]
        wall = time.monotonic() - started
        taken = _cpu_seconds(pid) - idle
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    # The children's total holds the broker too, once it has ended.
    of_clients = used.ru_utime + used.ru_stime - taken - idle
    share = taken / (taken + of_clients)
    rows = (
        ("small messages, sent, received and completed", f"{MESSAGES:,} by {CLIENTS} client processes"),
        ("wall time", f"{wall:.1f} s"),
        ("CPU of the clients", f"{of_clients:.1f} s"),
        ("CPU of the broker", f"{taken:.1f} s, {taken / MESSAGES * 1e6:.0f} µs a message"),
        ("the broker's share (less than half is wanted)", f"{share:.0%}"),
    )
    table = "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])
    sys.stdout.write(f"{table}\n")
    document.write(DOCUMENT, "broker_cpu", table)
    return int(share >= 0.5 or any(statuses))


if __name__ == "__main__":
    if len(sys.argv) == _ARGUMENTS:
        _client(sys.argv[1], int(sys.argv[2]))
    else:
        sys.exit(main())
