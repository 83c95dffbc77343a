"""Go and Microsoft's storage clients for it, from Debian's archive: unpacked below the project's folder, without root."""

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.local.errors import SetupError
from tools.local.paths import GO, ROOT

#: Each package with its version, and the hash of its archive.
LOCK = ROOT / "tests" / "others" / "go" / "debian.txt"
#: Runs a tool in a folder, and raises its error.
Run = Callable[[str, list[str], Path], None]


def unpack(run: Run, lock: Path = LOCK, into: Path = GO) -> None:
    """Fetch each package of the list, check all, and unpack what a build needs of them."""
    if not shutil.which("apt-get"):
        raise SetupError("Go and its storage clients come from Debian's archive, and apt-get is not here")
    shutil.rmtree(into, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="sluice-debian-") as name:
        folder = Path(name)
        for needed in ("lists/partial", "cache/archives/partial"):
            (folder / needed).mkdir(parents=True)
        # The machine's own lists may be missing or old, and belong to root.
        apt = ["apt-get", "-q", "-o", f"Dir::State::Lists={folder}/lists", "-o", f"Dir::Cache={folder}/cache"]
        run("apt", [*apt, "update"], folder)
        wanted = read(lock)
        run("apt", [*apt, "download", *(package for package, _ in wanted)], folder)
        for archive in _checked(wanted, folder):
            _extract(archive, into)


def read(lock: Path) -> Sequence[tuple[str, str]]:
    """Return each package with its version, and the hash of its archive."""
    lines = [line.split() for line in lock.read_text().splitlines() if not line.startswith("#")]
    return [(package, digest) for package, digest in lines]


def _checked(wanted: Sequence[tuple[str, str]], folder: Path) -> list[Path]:
    found = {hashlib.sha256(file.read_bytes()).hexdigest(): file for file in folder.glob("*.deb")}
    for package, digest in wanted:
        if digest not in found:
            raise SetupError(f"Debian's archive has another {package} than the list names: nothing of it was unpacked")
    return [found[digest] for _, digest in wanted]


def _extract(archive: Path, into: Path) -> None:
    command = ["dpkg-deb", "--fsys-tarfile", str(archive)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as process,
        tarfile.open(fileobj=process.stdout, mode="r|") as whole,
    ):
        for member in whole:
            if _is_needed(member.name):
                whole.extract(member, into, filter="tar")
    if process.returncode:
        raise SetupError(f"dpkg-deb cannot read {archive.name}")


def _is_needed(name: str) -> bool:
    """Leave out documents, and the clients of Azure's administration: they take half a gigabyte."""
    _, sdk, inside = name.partition("/azure-sdk-for-go/")
    return "/share/doc/" not in name and (not sdk or inside.startswith(("storage", "version")))
