"""The service that the night's work calls: it logs each call, is away for a while, and answers 429 for another."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Bank:
    """A server in threads; a context manager that ends it."""

    def __init__(self):
        #: When each call came, for which transaction, and its answer.
        self.calls, self._answer, self._lock = [], 200, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(handler):  # noqa: N805 - the library's names
                body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
                status = self._take(body)
                handler.send_response(status)
                if status == 429:
                    handler.send_header("Retry-After", "2")
                handler.send_header("Content-Length", "0")
                handler.end_headers()

            def log_message(handler, *_):  # noqa: N805 - the library's names
                """Print nothing."""

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_):
                """Say nothing of a caller that was killed."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="bank", daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    @property
    def address(self):
        """Where it answers."""
        return f"http://127.0.0.1:{self._server.server_port}/charges"

    def turn(self, answer):
        """Answer with this status from now on."""
        self._answer = answer

    def _take(self, body):
        with self._lock:
            self.calls.append((time.time(), body["id"], self._answer))
            return self._answer
