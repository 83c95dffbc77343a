"""The `sluice` command, or the app's start, in a process of its own, forked where all that it imports is there already."""

import gc
import importlib
import json
import multiprocessing
import os
import platform
import subprocess
import sys
import time
from unittest.mock import patch

import azure.data.tables
import azure.functions
import azure.servicebus
import azure.storage.blob
import azure.storage.queue  # noqa: F401 - they are imported when they are needed
import typer.main

from sluice.__main__ import main
from tests.quick_bus import shorten_pauses
from tests.waiting import LIMIT
from tools.cli.main import NAMED, app

shorten_pauses()
# What prints looks for a terminal of GitHub's when it is imported, and the command has another environment.
with patch.dict(os.environ, clear=True):
    for name in ("typer._adapters", "typer.rich_utils", "rich.markdown", "capabilities.registration.commands"):
        # The command imports them when it runs.
        importlib.import_module(name)
    # So does it with the module of what is called.
    for name in NAMED:
        typer.main.get_command(app).get_command(None, name)
# The storage libraries ask a program for it, once in a process.
platform.platform()
# A collection would visit, and so copy, all that is there in each process.
gc.freeze()


def run(arguments, environ, folder, scratch):
    """Run it with nothing but the environment. What it prints goes by the scratch folder, and is returned."""
    return _fork(main, ["sluice", *map(str, arguments)], environ, folder, scratch)


def start_app(environ, folder, scratch):
    """Import `function_app` with nothing but the environment. It prints the names of the functions, as JSON."""
    return _fork(_app, ["function_app"], environ, folder, scratch)


def _fork(work, words, environ, folder, scratch):
    context = multiprocessing.get_context("forkserver")
    printed = [scratch / f"{time.monotonic_ns()}-{name}" for name in ("stdout", "stderr")]
    process = context.Process(target=_work, args=(work, words, environ, folder, printed))
    process.start()
    process.join(LIMIT)
    assert process.exitcode is not None, f"{words} did not end"
    texts = [file.read_text() for file in printed]
    return subprocess.CompletedProcess(words, process.exitcode, *texts)


def _work(work, words, environ, folder, printed):
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    sys.path[:0] = filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))
    time.tzset()
    for number, file in enumerate(printed, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
    sys.argv = words
    work()


def _app():
    import function_app  # noqa: PLC0415 - it reads the environment

    names = sorted(one.get_function_name() for one in function_app.app.get_functions())
    sys.stdout.write(json.dumps(names))
