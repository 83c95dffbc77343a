"""Celery on its Azure Storage Queues transport, installed into a virtual environment of the benchmark's own."""

import base64
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.benchmarks.pipeline_measure import FOLDER, RequestLog, Run, cpu_of, file_of, warm_up
from tests.benchmarks.pipeline_peers import added, lines_of, rate
from tools.local.azurite.launcher import Account, Azurite
from tools.local.paths import ROOT

PACKAGES = ("celery==5.7.0", "kombu[azurestoragequeues]==5.7.0")
PATIENCE = 180.0
HOME = FOLDER.resolve() / "celery"
PYTHON = HOME / "bin" / "python"


class CeleryUnavailableError(Exception):
    """Raised when Celery can be neither found nor installed, or does not do its work."""


def install() -> None:
    """Install Celery where it is not there yet."""
    if (HOME / "complete").exists():
        return
    commands = (
        ["venv", "--quiet", "--clear", "--python", sys.executable, str(HOME)],
        # Its tasks import our workload, which imports what the app has.
        ["pip", "install", "--quiet", "--python", str(PYTHON), "--requirement", str(ROOT / "requirements.txt")],
        ["pip", "install", "--quiet", "--python", str(PYTHON), *PACKAGES],
    )
    for command in commands:
        made = subprocess.run([sys.executable, "-m", "uv", *command], capture_output=True, text=True, check=False)
        if made.returncode:
            raise CeleryUnavailableError(f"it could not be installed: {made.stderr.strip().splitlines()[-1:]}")
    (HOME / "complete").touch()


def run(items: int, chunk: int) -> Run:
    """Run Celery with two processes; `chunk` 0 is one task for each transaction."""
    install()
    notes = HOME / f"notes-{items}-{chunk}"
    notes.write_text("")
    # The transport knows Azurite by its well-known account name only; the key may be any.
    account = Account("devstoreaccount1", base64.b64encode(secrets.token_bytes(32)).decode())
    with Azurite.start(account=account, is_logging=True) as azurite:
        address = f"azurestoragequeues://{account.key}@http://127.0.0.1:{azurite.ports['queue']}/{account.name}"
        settings = {"CELERY_BENCH_BROKER": address, "CELERY_BENCH_NOTES": str(notes), "PYTHONPATH": str(ROOT)}
        environment, asked = os.environ | settings, RequestLog(azurite)
        words = [
            "-m",
            "celery",
            "--app",
            "tests.benchmarks.celery_rates",
            "worker",
            "--concurrency=2",
            "--loglevel=WARNING",
        ]
        words += ["--without-mingle", "--without-gossip", "--without-heartbeat"]
        with (HOME / "worker.log").open("wb") as log:
            worker = subprocess.Popen([PYTHON, *words], env=environment, stdout=log, stderr=log, cwd=ROOT)
        try:
            # It asks for messages as soon as its processes are there; what it writes to its log differs by release.
            _wait(lambda: asked.by_kind()["GET celery messages"], worker, "it did not start")
            # Imports and connections are paid for here, as in Sluice's first job.
            _measured(azurite, worker.pid, (warm_up(items), chunk), environment)
            notes.write_text("")
            seconds, requests, cpu = _measured(azurite, worker.pid, (items, chunk), environment)
        finally:
            worker.terminate()
            worker.wait(30)
    return Run(name_of(chunk), items, seconds, requests, cpu)


def name_of(chunk: int) -> str:
    """Return the contender's name."""
    return f"Celery, chunks of {chunk:,}" if chunk else "Celery, one task each"


def _measured(
    azurite: Azurite, worker: int, job: tuple[int, int], environment: Mapping[str, str]
) -> tuple[float, int, float]:
    """Publish, wait until all is done, and return seconds, requests and CPU seconds."""
    items, chunk = job
    notes, processes = Path(environment["CELERY_BENCH_NOTES"]), [worker, *_children(worker)]
    log, used = RequestLog(azurite), cpu_of(processes)
    command = [PYTHON, "-m", "tests.benchmarks.celery_rates", str(file_of(items).resolve()), str(chunk)]
    published = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=ROOT)
    if published.returncode:
        raise CeleryUnavailableError(f"its publisher failed: {published.stderr.strip().splitlines()[-1]}")
    began, cpu = map(float, published.stdout.split())
    _wait(lambda: _noted(notes)[0] >= items, None, f"it did not process {items} transactions")
    seconds, cpu = time.time() - began, cpu + cpu_of(processes) - used
    found, expected = _noted(notes), (items, int(added(rate(lines_of(items))) * 100))
    if found != expected:
        raise CeleryUnavailableError(f"it processed {found[0]} transactions to {found[1]}, not {expected}")
    return seconds, log.total(), cpu


def _noted(notes: Path) -> tuple[int, int]:
    pairs = [line.split() for line in notes.read_text().splitlines()]
    return sum(int(items) for items, _ in pairs), sum(int(amount) for _, amount in pairs)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _wait(is_so: Callable[[], object], worker: subprocess.Popen[bytes] | None, what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        if worker is not None and worker.poll() is not None:
            raise CeleryUnavailableError(f"{what}: its worker ended, see {HOME / 'worker.log'}")
        if time.monotonic() > end:
            raise CeleryUnavailableError(f"{what} in {PATIENCE:g} s")
        time.sleep(0.02)
