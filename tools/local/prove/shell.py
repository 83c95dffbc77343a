"""Runs the programs of a proof: each within a time, each in a process group of its own."""

import math
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

#: Seconds that a program gets to end by itself.
_GRACE = 20
_LOOK_EVERY = 0.1


class InterruptedRunError(Exception):
    """Raised when a signal ended what was under way."""


class ProblemError(Exception):
    """Raised when a step found a fault. The text is for the page."""


class Done(NamedTuple):
    """The end of a program."""

    status: int
    out: str
    err: str

    @property
    def last_words(self) -> str:
        """The end of its output, on one line."""
        lines = [line.strip() for line in (self.err.strip() or self.out.strip()).splitlines() if line.strip()]
        return " | ".join(lines[-3:])[-600:] or f"it ended with status {self.status} and no word"


class Shell:
    """The programs on a path, with the environment of a proof."""

    def __init__(self, path: Sequence[str], root: Path, log: Path, stop: threading.Event) -> None:
        self._path = os.pathsep.join([*path, os.environ.get("PATH", "")])
        self._root = root
        self._log = log
        self._stop = stop
        #: The removal goes on after any signal.
        self._heeds_stop = True
        self._ends_at = math.inf

    def begin(self, minutes: float, *, heeds_stop: bool) -> None:
        """Begin a step, which may take so long in all its calls."""
        self._heeds_stop = heeds_stop
        self._ends_at = time.monotonic() + minutes * 60

    def call(self, *words: str, minutes: float, settings: Mapping[str, str] | None = None) -> Done:
        """Run a program to its end, or to the end of its time."""
        program = shutil.which(words[0], path=self._path)
        if program is None:
            return Done(127, "", f"{words[0]} is not on the PATH")
        self._raise_if_over()
        done = self._run([program, *words[1:]], min(minutes * 60, self._ends_at - time.monotonic()), settings or {})
        self._note(words, done)
        if self._is_stopped():
            raise InterruptedRunError
        return done

    def _run(self, words: Sequence[str], seconds: float, settings: Mapping[str, str]) -> Done:
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = subprocess.Popen(
                words,
                cwd=self._root,
                env=self._environment(settings),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            try:
                is_late = self._wait(process, seconds)
            finally:
                _end(process)
            out.seek(0)
            err.seek(0)
            late = "it took longer than it may, and was ended" if is_late else ""
            return Done(124 if is_late else process.returncode, out.read(), err.read() + late)

    def demand(self, *words: str, minutes: float, settings: Mapping[str, str] | None = None) -> str:
        """Run a program that must succeed, and return its output."""
        done = self.call(*words, minutes=minutes, settings=settings)
        if done.status:
            raise ProblemError(f"`{' '.join(words[:3])}` ended with status {done.status}: {done.last_words}")
        return done.out

    def wait(self, seconds: float) -> None:
        """Let time pass, until a signal comes."""
        self._stop.wait(seconds)
        self._raise_if_over()

    def _is_stopped(self) -> bool:
        return self._heeds_stop and self._stop.is_set()

    def _raise_if_over(self) -> None:
        if self._is_stopped():
            raise InterruptedRunError
        if time.monotonic() >= self._ends_at:
            raise ProblemError("the step took longer than it may, and the price that was said counts on that")

    def _wait(self, process: subprocess.Popen[bytes], seconds: float) -> bool:
        """Wait for the end, or for a signal. Return true if the time was up first."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._is_stopped():
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_EVERY)
                return False
        return time.monotonic() >= until

    def _environment(self, settings: Mapping[str, str]) -> dict[str, str]:
        # Those of another installation, in the terminal of who runs this, must not be mixed with the proof's.
        others = ("SLUICE_", "SluiceStorage", "SluiceBus", "AzureWebJobsStorage", "AZURE_ENV_NAME")
        kept = {name: text for name, text in os.environ.items() if not name.startswith(others)}
        # Otherwise az asks, where no person answers, whether it may load what reads logs.
        return {**kept, "AZURE_EXTENSION_USE_DYNAMIC_INSTALL": "yes_without_prompt", **settings, "PATH": self._path}

    def _note(self, words: Sequence[str], done: Done) -> None:
        # The output of a token request is a secret.
        shown = "(not kept)" if "get-access-token" in words else done.out + done.err
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(words)}\n{shown}\n= {done.status}\n\n")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program with its children, if it still runs."""
    if process.poll() is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        os.killpg(process.pid, number)
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            continue
        return
