"""The `sluice` command: its groups and commands, its exit status. Each command has a module of its own."""

import logging
import sys
from typing import Annotated, Final

import typer
from typer.exceptions import TyperException

from shared import __version__
from shared.errors import SettingsError, SluiceError
from tools.cli.capabilities import Groups, Named
from tools.cli.options import PROBLEM_FOUND, WRONG_CALL, complain, note_reader

_LOOK, _PUBLISH, _UNDERSTAND, _RUN = "Look and act", "Publish", "Understand", "Run and install"
#: A test holds the lines to those of the modules.
NAMED: Final = {
    "now": Named(
        "now",
        "now",
        _LOOK,
        "List what needs a person, the grave ones first: jobs that are paused, late or failed. Status 1: one is grave.",
    ),
    "find": Named(
        "find",
        "find",
        _LOOK,
        "Find jobs, gates, causes and numbers by a part of their names. Status 1: nothing has it.",
    ),
    "jobs": Named("jobs", "app", _LOOK, "Jobs: list them, look at one, watch one to its end."),
    "nights": Named(
        "nights",
        "app",
        _LOOK,
        "Nights: jobs that share a name. Look at them together, pause, resume, stop, rerun or erase them.",
    ),
    "gate": Named(
        "gate",
        "app",
        _LOOK,
        "Gates: work behind a closed gate waits, and starts at once when it is opened.",
    ),
    "parked": Named("parked", "app", _LOOK, "What failed for good: look at it, replay it, discard it."),
    "audit": Named(
        "audit",
        "audit",
        _LOOK,
        "List the acts of operators: each was written before its effect, and its result after it.",
    ),
    "submit": Named(
        "submit",
        "submit",
        _PUBLISH,
        "Publish a file of transactions as one job. The same file again is the same job and counts once.",
    ),
    "workload": Named("workload", "app", _PUBLISH, "Workloads of your own."),
    "publisher-env": Named(
        "publisher_env",
        "publisher_env",
        _PUBLISH,
        'Print what the examples for publishers need: eval "$(sluice publisher-env)".',
    ),
    "cost": Named(
        "cost",
        "app",
        _UNDERSTAND,
        "What it costs: a job, a month, push against polling; by prices that you can replace.",
    ),
    "tune": Named(
        "tune",
        "app",
        _UNDERSTAND,
        "Concurrency: how many tasks may run, why, and what other rules would have done.",
    ),
    "ids": Named("ids", "app", _UNDERSTAND, "Unique ids: draw numbers, explain one, show a sequence."),
    "web": Named(
        "web",
        "web",
        _RUN,
        "Show the console in a browser of this machine: jobs, gates, parked messages, and why. Ctrl-C ends it.",
    ),
    "worker": Named(
        "worker",
        "worker",
        _RUN,
        "Work off the queues until SIGTERM or Ctrl+C, with the app's settings, workloads and rules.",
    ),
    "doctor": Named(
        "checkup",
        "doctor",
        _RUN,
        "Check that every entity exists, responds and is set as deployed, and what the app and its host are set to.",
    ),
    "provision": Named(
        "provision",
        "provision",
        _RUN,
        "Make every queue, container, table and bus entity that is missing. What is there stays unchanged.",
    ),
    "new": Named(
        "project",
        "new",
        _RUN,
        "Make a project with an example of a workload, and say how to run its first job.",
    ),
    "upgrade": Named(
        "project",
        "upgrade",
        _RUN,
        "Bring a project to this release. Files that you changed are merged, own/ stays, and a conflict writes nothing.",
    ),
}


class Commands(Groups):
    """All of them."""

    named = NAMED


app = typer.Typer(
    cls=Commands,
    help="Operate Sluice. It reads the app's own settings: the environment, else those of a running `make up`, else "
    "local.settings.json.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it with the flag's value
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Operate Sluice."""
    note_reader(False)  # noqa: FBT003 - an option of a command says otherwise


def main() -> None:
    """Run the command. A fault of the call or the settings is one line, or one document of JSON."""
    # The error repeats the library's log lines, and a person needs them once.
    logging.getLogger().addHandler(logging.NullHandler())
    as_json = "--json" in sys.argv
    try:
        # A program reads no boxes: by this flag the library raises its errors and prints none.
        sys.exit(app(standalone_mode=not as_json))
    except SettingsError as error:
        text, status = str(error), WRONG_CALL
    except SluiceError as error:
        text, status = str(error), PROBLEM_FOUND
    except typer.Abort:
        text, status = "it was not confirmed, so nothing was done: --yes does not ask", PROBLEM_FOUND
    except TyperException as error:
        text, status = error.format_message(), error.exit_code
    complain(text, status, as_json=as_json)
    sys.exit(status)
