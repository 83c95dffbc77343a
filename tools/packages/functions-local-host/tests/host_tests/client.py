"""What the host's integration tests ask and wait for."""

import json
import time
import urllib.error
import urllib.request

from azure.storage.blob import ContainerClient

#: Generous: machines that run tests are busy.
DEADLINE = 600.0


def get(host, path, method="GET", headers=None, body=None):
    """Return status and body of one request, whatever the status."""
    request = urllib.request.Request(host.base_url + path, method=method, headers=headers or {}, data=body)
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def get_json(host, path, **options):
    """Return the JSON of a request that must succeed."""
    status, body = get(host, path, **options)
    assert status == 200, body
    return json.loads(body)


def eventually(ask, deadline=DEADLINE):
    """Return the first answer that is true, or fail with the last one."""
    end = time.monotonic() + deadline
    while not (answer := ask()):
        assert time.monotonic() < end, f"still {answer!r} after {deadline:g} s"
        time.sleep(0.05)
    return answer


def runs(azurite, timer, container="ticks"):
    """Return what the runs of a timer left behind, oldest first."""
    with ContainerClient.from_connection_string(azurite.connection_string, container) as client:
        if not client.exists():
            return []
        names = [blob.name for blob in client.list_blobs(name_starts_with=f"{timer}/")]
        found = [json.loads(client.download_blob(name).readall()) for name in names]
    return sorted(found, key=lambda run: run["at"])
