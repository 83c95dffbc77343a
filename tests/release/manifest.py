"""The manifest of a release: its version, and the SHA-256 of each file that a copy of the project has of it.

By it a copy tells its own changes from the release's. Tests, and the folder of a person's own code, are in no manifest.
"""

import hashlib
import io
import json
import subprocess
import zipfile

from tools.local.paths import ROOT

FILE = ".sluice.json"
_OTHERS = (
    "own/",
    "tests/",
    "tools/packages/functions-local-host/tests/host_tests/",
    "tools/packages/servicebus-local/tests/broker_tests/",
)


def belongs(name):
    """Return whether a file is one of the manifest's."""
    return name != FILE and not name.startswith(_OTHERS)


def files_of(commit):
    """Return the files of a commit, by name."""
    zipped = subprocess.run(
        ["git", "archive", "--format=zip", commit], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with zipfile.ZipFile(io.BytesIO(zipped)) as content:
        return {name: content.read(name) for name in content.namelist() if not name.endswith("/")}


def text_of(version, files):
    """Return the manifest's text. `files`: the content of each, by name."""
    hashes = {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files) if belongs(name)}
    return json.dumps({"version": version, "files": hashes}, indent=1) + "\n"
