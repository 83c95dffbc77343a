"""The child of a suspect, forked where all that it imports is there already: a start is eight tenths of a second of CPU."""

import faulthandler
import fcntl
import multiprocessing
import os
import subprocess
import sys
from multiprocessing.reduction import DupFd

from shared.pipeline.alone_child import main

#: Above all numbers of files that a process has here.
_FREE = 500


class _File:
    """An open file, which the child gets under the same number or another one."""

    def __init__(self, number):
        self.number = number

    def __reduce__(self):
        return _File, (DupFd(self.number),)


class Forked:
    """A child, with the part of `Popen` that `Alone` uses."""

    def __init__(self, chunk, answered, said, noted, pipes):
        asked, told = os.pipe()
        self.stdin = os.fdopen(told, "wb")
        kept = (noted.fileno(), chunk.fileno(), *pipes)
        files = {0: asked, 1: answered.fileno(), 2: said.fileno()} | {number: number for number in kept}
        given = {number: _File(file) for number, file in files.items()}
        self._process = multiprocessing.get_context("forkserver").Process(target=_run, args=(given, *kept[:2]))
        self._process.start()
        os.close(asked)

    @property
    def pid(self):
        """Its number."""
        return self._process.pid

    def wait(self, seconds=None):
        """Return its status when it has ended, or raise as `Popen` does."""
        self._process.join(seconds)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a child", seconds)
        return self._process.exitcode

    def kill(self):
        """End it."""
        self._process.kill()


def _run(given, noted, chunk):
    # None of them takes the number of another one that is still to be moved.
    moved = {number: fcntl.fcntl(file.number.detach(), fcntl.F_DUPFD, _FREE) for number, file in given.items()}
    for number, file in moved.items():
        os.dup2(file, number)
        os.close(file)
    sys.stdin = os.fdopen(0)
    faulthandler.enable(2)
    main(noted, chunk)
