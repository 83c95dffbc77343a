"""Tables of an Azurite, but for the totals: of ten million rows it keeps a bit each, for they are more than Azurite holds.

It answers on a port of its own, passes on what is about other tables, and judges each row of the totals when it is written.
"""

import itertools
import json
import re
import threading
import urllib.parse
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from requests.structures import CaseInsensitiveDict

from tests.benchmarks.work_checker import amount_of, number_of
from tests.faults.memory.reply import Asked, Reply
from tests.faults.memory.tables import Tables

_ABOUT_TOTALS = re.compile(rb" \S+/totals[( ]")
_AMOUNTS = [amount_of(number) for number in range(1000)]
#: Before each change of a group, and between the head of one and its row.
_PART_ENDS, _BEFORE_ROW = re.compile(rb"--changeset_[^\r\n]*"), b"\r\n\r\n{"
#: The end of a reply of `Tables`, what shows that it refuses, and the answer to a row.
_LAST, _REFUSED = b"--changesetresponse_s--", b"odata.error"
_DONE = (
    b"--changesetresponse_s\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
    b"HTTP/1.1 204 No Content\r\n\r\n\r\n"
)
_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}


class CountedRows(Tables):
    """The table of totals. It keeps the fences, and of each account that it has a row."""

    def __init__(self, accounts: int) -> None:
        self._versions = itertools.count(1)
        super().__init__(self, ["totals"])
        self.seen, self.transactions = bytearray(accounts), 0
        #: Rows that are there already, and rows that are not what was sent.
        self.again = self.wrong = 0

    @property
    def now(self) -> datetime:
        """The time of a change."""
        return datetime.now(UTC)

    def version(self) -> int:
        """Return a number that no other change has."""
        return next(self._versions)

    def _batch(self, asked: Asked) -> Reply:
        """Take the fence's change as all tables do, and then count the rows behind it."""
        head, *rows = _PART_ENDS.split(asked.body)[1:-1]
        reply = super()._batch(replace(asked, body=head))
        self.transactions += 1
        if _REFUSED in reply.body:
            return reply
        for row in rows:
            self._count(json.loads(row[row.index(_BEFORE_ROW) + 4 :]))
        return replace(reply, body=reply.body.replace(_LAST, _DONE * len(rows) + _LAST))

    def _count(self, row: dict[str, Any]) -> None:
        number = number_of(row["account"])
        self.again += self.seen[number]
        self.seen[number] = 1
        self.wrong += (int(row["items"]), Decimal(row["amount_EUR"])) != (1, _AMOUNTS[number % 1000])


class TotalsService:
    """Serves both in threads; a context manager that ends it."""

    def __init__(self, target: int, accounts: int) -> None:
        self.rows, self._lock, self._target = CountedRows(accounts), threading.Lock(), target
        self._here = threading.local()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version, wbufsize, disable_nagle_algorithm = "HTTP/1.1", -1, True

            def do_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                service.answer(self, body)

            do_GET = do_PUT = do_POST = do_PATCH = do_MERGE = do_DELETE = do_HEAD = do_any  # noqa: N815 - the library's

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads, request_queue_size = True, 128

            def handle_error(self, *_: object) -> None:
                """Say nothing of a caller that was killed."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="totals", daemon=True)

    @property
    def port(self) -> int:
        """Where it answers."""
        return int(self._server.server_port)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        """Answer one request."""
        url = urllib.parse.urlsplit(handler.path)
        path = urllib.parse.unquote(url.path.split("/", 2)[2])
        if path.startswith("totals") or (path == "$batch" and _ABOUT_TOTALS.search(body, 0, 2_000)):
            query = {name: values[0] for name, values in urllib.parse.parse_qs(url.query).items()}
            asked = Asked(handler.command, path, query, CaseInsensitiveDict(handler.headers.items()), body)
            with self._lock:
                reply = self.rows.answer(asked)
            headers = {"x-ms-version": "2025-07-05", "x-ms-request-id": "totals", **reply.headers}
            self._send(handler, reply.status, headers, reply.body)
        else:
            self._send(handler, *self._passed(handler, body))

    def _passed(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
        link = getattr(self._here, "link", None)
        if link is None:
            link = self._here.link = HTTPConnection("127.0.0.1", self._target, timeout=120)
        try:
            link.request(handler.command, handler.path, body or None, dict(handler.headers.items()))
            found = link.getresponse()
            return found.status, dict(found.getheaders()), found.read()
        except OSError:
            link.close()
            raise

    @staticmethod
    def _send(handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            if name.lower() not in _HOP:
                handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def breaches(self) -> list[str]:
        """Return what is wrong with the rows, in words."""
        rows = self.rows
        said = [
            (missing := len(rows.seen) - sum(rows.seen), f"{missing:,} accounts have no row"),
            (rows.again, f"{rows.again:,} rows were written twice"),
            (rows.wrong, f"{rows.wrong:,} rows are not what was sent"),
        ]
        return [text for number, text in said if number]
