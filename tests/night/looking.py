"""A person with the console open, who looks at one page after the other."""

import os
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from http.cookiejar import CookieJar
from pathlib import Path

from tools.local.paths import ROOT

PAGES = ("/", "/jobs", "/gates", "/parked", "/job/rate-0")


class Looking:
    """`sluice web` in a process, and its reader; a context manager that ends it."""

    def __init__(self, settings, home):
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT), **settings}
        #: Pages that were read, and those that could not be made, as while storage is away.
        self.read = self.missed = 0

    def __enter__(self):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self._process = subprocess.Popen(
            [Path(sys.executable).parent / "sluice", "web"], env=self._environment, cwd=ROOT, **pipes
        )
        address = next(line.strip() for line in self._process.stdout if line.startswith("http://127.0.0.1:"))
        self._browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        with self._browser.open(address, timeout=60) as reply:
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
