"""The app on storage that publishers reach as in Azure: over TLS, with a token of an endpoint like Azure's, without a key."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

from servicebus_local.launcher import Broker

from shared.topology import topology
from tests.identity.authority import certify
from tests.identity.managed import ManagedIdentity
from tests.waiting import LIMIT
from tools.local.azurite.launcher import Azurite
from tools.local.provision import provision
from tools.local.stack import StackOptions, settings_for, start_host

SLUICE = Path(sys.executable).parent / "sluice"
#: What `az` does for a shell that publishes, and nothing else: it asks the endpoint of the test for a token.
AZ = """#!/bin/sh
[ "$*" = "account get-access-token --resource https://storage.azure.com --query accessToken --output tsv" ] || exit 2
curl --fail --silent --show-error -H "X-IDENTITY-HEADER: $IDENTITY_HEADER" \\
  "$IDENTITY_ENDPOINT?api-version=2019-08-01&resource=https://storage.azure.com" |
  sed 's/.*"access_token": "\\([^"]*\\)".*/\\1/'
"""


class WithoutKeys:
    """What a publisher has, and what an operator types."""

    def __init__(self, folder, azurite, settings, identity):
        self._folder, self._azurite, self._settings, self.identity = folder, azurite, settings, identity
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        az = bin_folder / "az"
        az.write_text(AZ)
        az.chmod(0o755)
        self._path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"

    @property
    def storage(self):
        """The connection of who checks what came of it."""
        return self._azurite.connection_string

    def run(self, command, folder):
        """Run an example in a folder, with two addresses and a login and without a key."""
        addresses = {
            "PAYLOADS": f"{self._azurite.endpoints['blob']}/payloads",
            "QUEUE": f"{self._azurite.endpoints['queue']}/submissions",
        }
        environment = {
            "PATH": self._path,
            "HOME": str(folder),
            **addresses,
            **self.identity.environment,
            **self._trust(),
        }
        assert self._azurite.account.key not in environment.values()
        self._checked(command, environment, folder)

    def sluice(self, *words):
        """Type a command as an operator, and return what it says."""
        environment = {**os.environ, **self._settings, **self._trust()}
        return json.loads(self._checked([SLUICE, *words, "--json"], environment, self._folder))

    def _trust(self):
        # By the words of each: curl, Node, Python.
        names = ("CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE")
        return dict.fromkeys(names, str(self._azurite.tls.authority))

    def _checked(self, command, environment, folder):
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout


@contextmanager
def running(folder):
    """Start everything, yield it, and stop everything."""
    with ExitStack() as parts:
        tls = certify(folder, "127.0.0.1")
        trust = {"REQUESTS_CA_BUNDLE": str(tls.authority)}
        os.environ |= trust
        parts.callback(os.environ.pop, "REQUESTS_CA_BUNDLE")
        azurite = parts.enter_context(Azurite.start(tls=tls))
        broker = Broker.start()
        parts.callback(broker.stop)
        settings = settings_for(azurite.connection_string, broker.connection_string) | trust
        # The host's own clients believe what OpenSSL does.
        settings["SSL_CERT_FILE"] = str(tls.authority)
        provision(azurite.connection_string, topology())
        host = start_host(StackOptions(instances=1), settings)
        parts.callback(host.stop)
        identity = ManagedIdentity()
        parts.callback(identity.close)
        yield WithoutKeys(folder, azurite, settings, identity)
