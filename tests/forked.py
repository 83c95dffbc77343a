"""Processes that are forked where all that they import is there already: a start is most of what a short one takes."""

import fcntl
import multiprocessing
import os
import subprocess
import sys
from multiprocessing.reduction import DupFd

from servicebus_local import command
from servicebus_local.launcher import Broker

#: Above all numbers of files that a process has here.
_FREE = 500


class _File:
    """An open file, which the child gets."""

    def __init__(self, number):
        self.number = number

    def __reduce__(self):
        return _File, (DupFd(self.number),)


class Forked:
    """A process, with the part of `Popen` that those use who start one. Its files have the numbers that they are given by."""

    def __init__(self, work, arguments, files):
        asked, told = os.pipe()
        self.stdin = os.fdopen(told, "wb")
        given = {number: _File(file) for number, file in {0: asked, **files}.items()}
        context = multiprocessing.get_context("forkserver")
        self._process = context.Process(target=_run, args=(work, arguments, given))
        self._process.start()
        os.close(asked)

    @property
    def pid(self):
        """Its number."""
        return self._process.pid

    @property
    def returncode(self):
        """Its status, or none while it runs."""
        return self._process.exitcode

    def poll(self):
        """Return its status, or none while it runs."""
        return self._process.exitcode

    def wait(self, timeout=None):
        """Return its status when it has ended, or raise as `Popen` does."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a forked process", timeout)
        return self._process.exitcode

    def send_signal(self, number):
        """Send it a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        """End it."""
        self._process.kill()


class ForkedBroker(Broker):
    """A broker in a forked process."""

    @staticmethod
    def _begin(words, environment, log):
        return Forked(_serve, (words, environment), {1: log.fileno(), 2: log.fileno()})


def _run(work, arguments, given):
    # None of them takes the number of another one that is still to be moved.
    moved = {number: fcntl.fcntl(file.number.detach(), fcntl.F_DUPFD, _FREE) for number, file in given.items()}
    for number, file in moved.items():
        os.dup2(file, number)
        os.close(file)
    sys.stdin = os.fdopen(0)
    work(*arguments)


def _serve(words, environment):
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    sys.exit(command.main(words))
