"""The files of a commit, of which a release is made."""

import io
import subprocess
import zipfile

from tools.local.paths import ROOT


def files_of(commit):
    """Return the files of a commit, by name."""
    zipped = subprocess.run(
        ["git", "archive", "--format=zip", commit], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with zipfile.ZipFile(io.BytesIO(zipped)) as content:
        return {name: content.read(name) for name in content.namelist() if not name.endswith("/")}
