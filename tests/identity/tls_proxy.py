"""TLS in front of a server that speaks none; keeps what the client sent."""

import socket
import ssl
import threading
from contextlib import suppress


class TlsProxy:
    """Listens with a certificate and passes everything on to a port of loopback."""

    def __init__(self, address, port, tls):
        self._port, self.sent = port, bytearray()
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(tls.certificate, tls.key)
        self._listener = socket.create_server(address)
        self._open = []
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        """Stop, and end every connection."""
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _serve(self):
        with suppress(OSError):
            while True:
                raw, _ = self._listener.accept()
                threading.Thread(target=self._pass_on, args=(raw,), daemon=True).start()

    def _pass_on(self, raw):
        with suppress(OSError):
            client = self._context.wrap_socket(raw, server_side=True)
            server = socket.create_connection(("127.0.0.1", self._port))
            self._open += [client, server]
            back = threading.Thread(target=self._copy, args=(server, client, None), daemon=True)
            back.start()
            self._copy(client, server, self.sent)
            back.join()

    def _copy(self, source, target, kept):
        with suppress(OSError, ValueError):
            while data := source.recv(65536):
                if kept is not None:
                    kept += data
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
