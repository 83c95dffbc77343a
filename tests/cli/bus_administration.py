"""The administration of a namespace, in memory: what a client of Azure's asks of it over HTTPS."""

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

from servicebus_local.certificates import tls_context

FEED = '<feed xmlns="http://www.w3.org/2005/Atom">{}</feed>'
EVERYTHING = """<entry xmlns="http://www.w3.org/2005/Atom"><title>$Default</title><content type="application/xml">
<RuleDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
 xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><Filter i:type="TrueFilter"><SqlExpression>1=1</SqlExpression>
</Filter><Action i:type="EmptyRuleAction"/><Name>$Default</Name></RuleDescription></content></entry>"""


def listed(place, body):
    """Return an entry with its title, which the service knows from its address."""
    bare = re.sub(r"<\?xml.*?\?>|<title>.*?</title>", "", body)
    title = f'<title xmlns="http://www.w3.org/2005/Atom">{place.rpartition("/")[2]}</title>'
    return re.sub("</([a-z0-9]*:?)entry>", lambda end: title + end[0], bare)


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        """Make an entity, or change it."""
        path, body = self._path(), self.rfile.read(int(self.headers["content-length"])).decode()
        self.server.asked.append(path)
        if path in self.server.refusing:
            self._answer(401, "<Error><Code>401</Code><Detail>Manage is required</Detail></Error>")
        elif path in self.server.kept and self.headers.get("if-match") is None:
            self._answer(409, "<Error><Code>409</Code><Detail>it exists</Detail></Error>")
        else:
            self.server.kept[path] = body
            if path.count("/") == 2:
                self.server.kept[f"{path}/rules/$Default"] = EVERYTHING
            self._answer(201, body)

    def do_GET(self):
        """List what is below."""
        path = self._path()
        self.server.asked.append(path)
        rules = [
            listed(place, body) for place, body in sorted(self.server.kept.items()) if place.startswith(f"{path}/")
        ]
        self._answer(200, FEED.format("".join(rules)))

    def _path(self):
        return unquote(self.path.partition("?")[0]).strip("/")

    def _answer(self, status, body):
        encoded = body.encode()
        self.send_response(status)
        self.send_header("content-type", "application/atom+xml")
        self.send_header("content-length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *_):
        """Say nothing."""


class Administration(ThreadingHTTPServer):
    """The administration of a namespace: keeps each entity that it is sent once, and gives a subscription its first rule."""

    daemon_threads = True

    def __init__(self, folder, *, refusing=()):
        self.kept, self.asked, self.refusing = {}, [], refusing
        super().__init__(("127.0.0.1", 0), Handler)
        self.socket = tls_context(folder).wrap_socket(self.socket, server_side=True)

    def __enter__(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    @property
    def connection_string(self):
        """Where it is."""
        return f"Endpoint=sb://127.0.0.1:{self.server_port};SharedAccessKeyName=k;SharedAccessKey=a-key;"
