"""A person with the console open, who looks at one page after the other."""

import os
import subprocess
import urllib.error
from contextlib import suppress

from tests.console.test_server import SLUICE, browse, next_address

PAGES = ("/", "/jobs", "/gates", "/parked", "/job/rate-0", "/returns")


class Looking:
    """`sluice web` in a process, and its reader; a context manager that ends it."""

    def __init__(self, project, settings, home):
        self._project = project
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(project), **settings}
        #: Pages that were read, and those that could not be made, as while storage is away.
        self.read = self.missed = 0

    def __enter__(self):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self._process = subprocess.Popen([SLUICE, "web"], env=self._environment, cwd=self._project, **pipes)
        self._browser = browse()
        with self._browser.open(next_address(self._process), timeout=60) as reply:
            self._root = reply.url.rstrip("/")
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.communicate()

    def look(self, until):
        """Read pages, one after the other, until it is over."""
        while not until.wait(2):
            for page in PAGES:
                with suppress(OSError):
                    self._look(page)

    def _look(self, page):
        try:
            with self._browser.open(self._root + page, timeout=60) as reply:
                reply.read()
                self.read += 1
        except urllib.error.HTTPError as error:
            # A page of a job that was not accepted yet is 404.
            self.missed += error.code >= 500
