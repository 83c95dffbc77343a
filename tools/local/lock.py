"""Makes the lock files: from pyproject.toml what the app installs and what developers need, and one of each tool apart."""

import os
import subprocess
from pathlib import Path

from tools.local.errors import SetupError
from tools.local.paths import ROOT, STACK, venv_python

#: What is built here for Azure has the hash of each file. Its versions are those of requirements.txt, in which pip would
#: refuse everything without a hash.
UPLOAD = "tools/requirements-upload.txt"
#: Each lock file and the extras of pyproject.toml that it holds.
LOCKS = {
    "requirements.txt": ("app",),
    UPLOAD: ("app",),
    "tools/requirements-dev.txt": ("dev",),
    "tools/requirements-browser.txt": ("dev", "browser"),
    "tools/requirements-parquet.txt": ("dev", "parquet"),
}
#: Requirements of a person's own code.
OWN = (ROOT / "own" / "requirements.txt",)
#: Tools in environments of their own: each lock file and what it is made from.
TOOLS = {
    "tools/local/infra/checkov/requirements.txt": "tools/local/infra/checkov/requirements.in",
    "tools/local/worker/requirements.txt": "tools/local/worker/requirements.in",
}
#: The oldest Python of a lock file where it is not the project's.
SINCE = {"tools/local/worker/requirements.txt": "3.13"}


def compile_command(name: str, output: Path) -> list[str]:
    """Return the resolver's command: one lock for every Python and platform, no registry address in it."""
    extras = [flag for extra in LOCKS.get(name, ()) for flag in ("--extra", extra)]
    hashed = (
        ["--generate-hashes", "--constraint", str(output.parents[1] / "requirements.txt")] if name == UPLOAD else []
    )
    quiet = ["--quiet", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
    since = SINCE.get(name, "3.11")
    universal = ["--universal", "--python-version", since, "--custom-compile-command", "make lock"]
    # What a person's own code imports stands in the same locks, so that a conflict shows here and not in Azure.
    sources = [ROOT / TOOLS[name]] if name in TOOLS else [ROOT / "pyproject.toml", *OWN]
    uv = [str(venv_python()), "-m", "uv", "pip", "compile", *map(str, sources)]
    return [*uv, *extras, *universal, *hashed, *quiet, "--output-file", str(output)]


def write(*, upgrade: bool = False, folder: Path = ROOT) -> None:
    """Write the lock files. Their versions are kept unless `upgrade` wants the newest."""
    for name in (*LOCKS, *TOOLS):
        command = [*compile_command(name, folder / name), *(["--upgrade"] if upgrade else [])]
        # Its downloads stay here, unless the environment names another folder.
        kept = {"UV_CACHE_DIR": str(STACK / "kept" / "uv"), "UV_PYTHON_INSTALL_DIR": str(STACK / "kept" / "uv-python")}
        done = subprocess.run(
            command, cwd=ROOT, env={**kept, **os.environ}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SetupError(f"cannot resolve {name}: {' '.join(done.stderr.split())}")
