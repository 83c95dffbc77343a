"""`make vendor`: brings the files of others that the console's pages load, from the npm archives that their list names.

The list has the hash of each archive, as npm's own locks have it, and of each file. Nothing is written unless all agree.
"""

import base64
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.local.errors import SetupError, StackError
from tools.local.installation import node_folder
from tools.local.paths import ROOT

FOLDER = ROOT / "capabilities" / "console" / "static"
LIST = FOLDER / "vendored.json"


def main() -> int:
    """Bring all files of the list."""
    try:
        for name, content in bring(json.loads(LIST.read_text()), download):
            (FOLDER / name).write_bytes(content)
            print(f"wrote {(FOLDER / name).relative_to(ROOT)}: {len(content):,} bytes")
    except StackError as error:
        print(f"sluice vendor: {error}", file=sys.stderr)
        return 1
    return 0


def bring(wanted: Mapping[str, Any], fetch: Any) -> Iterator[tuple[str, bytes]]:
    """Yield each file with its content, once all hashes of its archive agree."""
    for package, said in wanted.items():
        archive: bytes = fetch(package, said["version"])
        found = base64.b64encode(hashlib.sha512(archive).digest()).decode()
        if f"sha512-{found}" != said["integrity"]:
            raise SetupError(f"the archive of {package} {said['version']} is not the one of the list: sha512-{found}")
        yield from list(_unpack(package, archive, said["files"]))


def _unpack(package: str, archive: bytes, files: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        for path, file in files.items():
            member = members.extractfile(f"package/{path}")
            content = member.read() if member else b""
            if hashlib.sha256(content).hexdigest() != file["sha256"]:
                raise SetupError(f"{path} of {package} is not the file of the list: nothing of it was written")
            yield file["as"], content


def download(package: str, version: str) -> bytes:
    """Return an archive as npm packs it."""
    node = node_folder()
    npm = [str(node / "bin" / "node"), str(node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    path = f"{node / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*npm, "pack", f"{package}@{version}", "--silent", "--pack-destination", folder],
            env={**os.environ, "NODE_USE_SYSTEM_CA": "1", "PATH": path},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        archives = list(Path(folder).glob("*.tgz"))
        if done.returncode or len(archives) != 1:
            raise SetupError(f"npm could not bring {package} {version}: {done.stderr.strip()[-300:]}")
        return archives[0].read_bytes()


if __name__ == "__main__":
    sys.exit(main())
