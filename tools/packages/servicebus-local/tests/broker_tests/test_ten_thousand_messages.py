"""Ten thousand messages, four consumers in two processes."""

import subprocess
import sys
from itertools import chain
from pathlib import Path

from azure.servicebus import ServiceBusClient, ServiceBusMessage

_COUNT = 10_000
_CONSUMER = Path(__file__).parent / "consumer.py"


def test_each_of_ten_thousand_messages_is_completed_by_one_of_four_consumers(broker, fresh):
    """None is lost, none is doubled, and every consumer gets a share."""
    queue = fresh("plain")
    command = [sys.executable, str(_CONSUMER), broker.connection_string, queue]
    consumers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    ids = [f"{number:05}" for number in range(_COUNT)]
    with (
        ServiceBusClient.from_connection_string(broker.connection_string) as client,
        client.get_queue_sender(queue) as sender,
    ):
        for part in (ids[start : start + 500] for start in range(0, _COUNT, 500)):
            sender.send_messages([ServiceBusMessage("x", message_id=each) for each in part])
    taken = [line.split() for consumer in consumers for line in consumer.communicate()[0].splitlines()]
    assert [consumer.returncode for consumer in consumers] == [0, 0]
    assert sorted(chain(*taken)) == ids
    assert len(taken) == 4
    assert all(taken)
