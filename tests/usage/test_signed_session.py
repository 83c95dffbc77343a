"""The session below the storage libraries sends and reads what the one of `requests` does."""

import socket
from contextlib import closing
from threading import Thread

import pytest
from azure.core.exceptions import AzureError, IncompleteReadError, ServiceRequestError, ServiceResponseTimeoutError
from azure.core.pipeline.transport import RequestsTransport
from azure.core.rest import HttpRequest
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient, LinearRetry
from azure.storage.queue import QueueServiceClient

from shared.azure.transport import SignedSession

PIECE = 65536
ANSWER = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\nSet-Cookie: a=b\r\nContent-Type: application/json\r\n\r\n{}"


class Server:
    """Answers every connection's requests with the same bytes, and keeps what it was sent."""

    def __init__(self, answer, *, is_closing=False):
        self.answer, self.is_closing, self.sent = answer, is_closing, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with closing(connection):
            while request := whole_request(connection):
                self.sent.append(request)
                connection.sendall(self.answer)
                if self.is_closing:
                    return

    def close(self):
        """Take no more connections."""
        # Or a thread that waits for one keeps the socket.
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def whole_request(connection):
    """Return the bytes of one request, or none."""
    text = b""
    while b"\r\n\r\n" not in text:
        if not (more := connection.recv(PIECE)):
            return b""
        text += more
    head, _, body = text.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
    while lengths and len(body) < int(lengths[0]):
        body += connection.recv(PIECE)
    return head + b"\r\n\r\n" + body


@pytest.fixture
def server():
    """A server that refuses everything for good, so that nobody tries again."""
    with closing(Server(ANSWER)) as server:
        yield server


def plain():
    """Return the transport as the storage libraries make it."""
    return RequestsTransport(use_env_settings=False)


def signed():
    """Return the transport over our session."""
    return RequestsTransport(session=SignedSession())


def requests_of(client):
    """Make requests with and without bodies, conditions and characters that an address writes otherwise."""
    pairs = {
        BlobServiceClient: lambda blobs: [
            lambda: blobs.get_blob_client("c", "a b/ü%'~").upload_blob(b"x" * 70_000, metadata={"k": "v"}),
            lambda: blobs.get_blob_client("c", "d").download_blob(3, 9).readall(),
            lambda: blobs.get_blob_client("c", "d").delete_blob(),
            lambda: list(blobs.get_container_client("c").list_blobs(name_starts_with="é/&?")),
        ],
        QueueServiceClient: lambda queues: [
            lambda: queues.get_queue_client("q").send_message("<&>ü" * 100, time_to_live=-1),
            lambda: list(queues.get_queue_client("q").receive_messages(max_messages=3)),
            lambda: queues.get_queue_client("q").delete_message("id", "pop+/=receipt"),
        ],
        TableServiceClient: lambda tables: [
            lambda: tables.get_table_client("t").get_entity("it's", "a b"),
            lambda: tables.get_table_client("t").upsert_entity({"PartitionKey": "a'b", "RowKey": "c/d", "n": 1}),
            lambda: tables.get_table_client("t").submit_transaction(
                [("upsert", {"PartitionKey": "p", "RowKey": str(n)}) for n in range(3)]
            ),
            lambda: list(tables.get_table_client("t").query_entities("a eq 'b c'")),
        ],
    }
    return pairs[type(client)](client)


#: Each is made anew for each request, or says when it was made; and no storage service gives cookies.
OWN_OF_EACH = (
    "cookie",
    "x-ms-date",
    "date",
    "authorization",
    "x-ms-client-request-id",
    "boundary",
    "--batch",
    "--change",
)


def comparable(request):
    """Return the lines of a request that should be the same whoever sends it."""
    lines = request.decode("latin-1").split("\r\n")
    # Without its own identifiers; their order says nothing.
    return sorted(line for line in lines if not any(own in line.lower() for own in OWN_OF_EACH))


@pytest.mark.parametrize("kind", [BlobServiceClient, QueueServiceClient, TableServiceClient])
def test_it_sends_the_same_bytes_as_the_session_of_requests(server, kind):
    """Paths, queries, headers and bodies: the service must not see a difference."""
    service = {BlobServiceClient: "Blob", QueueServiceClient: "Queue", TableServiceClient: "Table"}[kind]
    text = f"DefaultEndpointsProtocol=http;AccountName=a;AccountKey=YQ==;{service}Endpoint={server.address}/a"
    for transport in (plain(), signed()):
        with kind.from_connection_string(text, transport=transport, retry_total=0) as client:
            for request in (made := requests_of(client)):
                with pytest.raises(AzureError):
                    request()
    half = len(made)
    assert len(server.sent) == 2 * half
    assert [*map(comparable, server.sent[:half])] == [*map(comparable, server.sent[half:])]


def test_the_library_reads_the_same_from_both(server):
    """Status, headers, body and text."""
    seen = []
    for transport in (plain(), signed()):
        with transport:
            reply = transport.send(HttpRequest("GET", f"{server.address}/x"))
            seen.append((reply.status_code, reply.reason, dict(reply.headers), reply.content, reply.text()))
    assert seen[0] == seen[1]
    assert b"cookie" not in b"".join(server.sent).lower()


def test_a_connection_is_used_again(server):
    """One connection serves one request after the other: a new one for each would cost more than the request."""
    with signed() as transport:
        session = transport.session
        for _ in range(3):
            transport.send(HttpRequest("GET", f"{server.address}/x"))
        (pool,) = session.get_adapter("http://").poolmanager.pools._container.values()
        assert (pool.num_connections, pool.num_requests) == (1, 3)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", IncompleteReadError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf", AzureError),
        (b"", AzureError),
    ],
)
def test_a_reply_that_ends_too_early_is_the_same_error(answer, error):
    """The storage libraries decide by the error whether to try again."""
    kinds = []
    for transport in (plain(), signed()):
        with closing(Server(answer, is_closing=True)) as server, transport, pytest.raises(error) as raised:
            transport.send(HttpRequest("GET", f"{server.address}/x"))
        kinds.append(raised.type)
    assert kinds[0] is kinds[1]


def test_nobody_there_and_nobody_answering_are_told_apart():
    """A connection that is refused is sent again at once, an answer that does not come may have taken effect."""
    with closing(socket.create_server(("127.0.0.1", 0))) as silent, signed() as transport:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        with pytest.raises(ServiceResponseTimeoutError):
            transport.send(HttpRequest("GET", address), read_timeout=0.05)
    with signed() as transport, pytest.raises(ServiceRequestError):
        transport.send(HttpRequest("GET", address))


def test_a_blob_is_streamed_in_pieces(azurite):
    """What is larger than one read is not held twice."""
    retry = LinearRetry(backoff=0, random_jitter_range=0)
    with BlobServiceClient.from_connection_string(
        azurite.connection_string, transport=signed(), retry_policy=retry
    ) as blobs:
        container = blobs.create_container("signed-session")
        container.upload_blob("large", b"0123456789" * 300_000)
        assert b"".join(container.download_blob("large").chunks()) == b"0123456789" * 300_000
        assert container.download_blob("large", 10, 5).readall() == b"01234"
