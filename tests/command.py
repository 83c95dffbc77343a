"""The `sluice` command in a process of its own, forked where all that it imports is there already."""

import multiprocessing
import os
import subprocess
import sys
import time
from unittest.mock import patch

import azure.data.tables
import azure.servicebus
import azure.storage.blob
import azure.storage.queue  # noqa: F401 - the command imports the four when it needs them

from sluice.__main__ import main
from tests.quick_bus import shorten_pauses
from tests.waiting import LIMIT

shorten_pauses()
# What prints looks for a terminal of GitHub's when it is imported, and the command has another environment.
with patch.dict(os.environ, clear=True):
    import tools.cli.main  # noqa: F401 - the command imports all of itself when it runs


def run(arguments, environ, folder, scratch):
    """Run it with nothing but the environment. What it prints goes by the scratch folder, and is returned."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    printed = [scratch / f"{time.monotonic_ns()}-{name}" for name in ("stdout", "stderr")]
    process = context.Process(target=_work, args=([*map(str, arguments)], environ, folder, printed))
    process.start()
    process.join(LIMIT)
    assert process.exitcode is not None, f"{arguments} did not end"
    texts = [file.read_text() for file in printed]
    return subprocess.CompletedProcess(arguments, process.exitcode, *texts)


def _work(arguments, environ, folder, printed):
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    for number, file in enumerate(printed, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
    sys.argv = ["sluice", *arguments]
    main()
