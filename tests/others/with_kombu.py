"""Puts and takes messages by kombu, the transport of Celery: `with_kombu.py NAME PORT AUTHORITY MESSAGES`.

kombu knows Azure's names and ports alone. So this machine resolves the name to the broker, and trusts its authority, as a
hosts file and a store of certificates would have it. Prints the messages that came, and how many are left.
"""

import json
import socket
import sys

import certifi
from kombu import Connection

#: Seconds. More than any pause of a machine that is overloaded.
LIMIT = 300


def main(name, port, authority, messages):
    """Make a queue, put each number, take and acknowledge each, and remove the queue."""
    _resolve(name, port)
    certifi.where = lambda: authority
    url = f"azureservicebus://RootManageSharedAccessKey:SAS_KEY_VALUE@{name}"
    taken = []
    with Connection(url, transport_options={"wait_time_seconds": 1}) as connection:
        queue = connection.SimpleQueue("numbers")
        for number in range(messages):
            queue.put({"number": number})
        for _ in range(messages):
            message = queue.get(timeout=LIMIT)
            taken.append(message.payload["number"])
            message.ack()
        left = queue.qsize()
        queue.queue.delete()
        queue.close()
    sys.stdout.write(json.dumps({"taken": taken, "left": left}) + "\n")


def _resolve(name, port):
    before = socket.getaddrinfo

    def resolve(host, wanted, *more, **others):
        return before("127.0.0.1", port, *more, **others) if host == name else before(host, wanted, *more, **others)

    socket.getaddrinfo = resolve


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
