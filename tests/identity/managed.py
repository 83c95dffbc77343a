"""The endpoint that Azure gives to each app for the tokens of its identity, played on loopback."""

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

HEADER = "canary-identity-header"
#: What the services want a token to be from; Azurite checks it.
ISSUER = "https://sts.windows.net/00000000-0000-0000-0000-000000000000/"


def token_for(resource, *, seconds=3600):
    """Return a token as Entra writes it, unsigned."""
    now = int(time.time())
    said = {"iss": ISSUER, "aud": resource, "iat": now - 5, "nbf": now - 5, "exp": now + seconds, "canary": "token"}
    parts = ({"alg": "none", "typ": "JWT"}, said)
    return ".".join(base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts) + ".sign"


class ManagedIdentity:
    """Serves tokens to whoever knows the header, and keeps what was asked."""

    def __init__(self):
        self.asked, self.seconds = [], 3600
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def environment(self):
        """What Azure puts into the app's environment."""
        return {
            "IDENTITY_ENDPOINT": f"http://127.0.0.1:{self._server.server_port}/msi/token",
            "IDENTITY_HEADER": HEADER,
        }

    def close(self):
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    def _handler(identity):  # noqa: N805 - the class below has a `self` of its own
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                asked = {name: values[0] for name, values in parse_qs(urlparse(self.path).query).items()}
                if self.headers["X-IDENTITY-HEADER"] != HEADER:
                    self.send_error(401)
                    return
                identity.asked.append(asked)
                expires = int(time.time()) + identity.seconds
                token = token_for(asked["resource"], seconds=identity.seconds)
                body = json.dumps({"access_token": token, "expires_on": str(expires), "token_type": "Bearer"}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                """Say nothing."""

        return Handler
