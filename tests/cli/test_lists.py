"""Lists that are watched, and ids that the shell completes."""

import io
import sys
from datetime import UTC, datetime

import pytest
import typer
from typer.testing import CliRunner

from shared.app import Stores
from shared.azure.connections import Connections
from shared.ledger.records import Job, JobState
from tests.console.fillings import make_entry, park
from tools.cli import watchable
from tools.cli.screen import Screen


@pytest.fixture
def app(monkeypatch):
    """A command that lists a number which grows, and a person who presses Ctrl-C at the third look."""
    looks = []

    def sleep(_seconds):
        looks.append(1)
        if len(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(watchable.time, "sleep", sleep)
    made = typer.Typer()

    @made.command()
    @watchable.watchable
    def count(*, plus: int = 0) -> None:
        """Count."""
        typer.echo(f"look {len(looks) + plus}")
        raise typer.Exit(1)

    return made


def test_a_watched_list_is_shown_again_until_a_person_ends_it(app):
    """Its own options stay, and its status is that of a list that was watched."""
    done = CliRunner().invoke(app, ["--watch", "--plus", "10"])
    assert (done.exit_code, done.stdout.split("\n")[:3]) == (0, ["look 10", "look 11", "look 12"])
    once = CliRunner().invoke(app, [])
    assert (once.exit_code, once.stdout) == (1, "look 3\n")


def test_a_terminal_has_one_list_in_place(app, monkeypatch):
    """Each look replaces the one before."""
    printed = io.StringIO()
    printed.isatty = lambda: True
    monkeypatch.setattr(sys, "stdout", printed)
    show = app.registered_commands[0].callback
    show(watch=True, plus=0)
    assert printed.getvalue().count("\x1b[H\x1b[J") == 3
    assert Screen().is_terminal


@pytest.mark.parametrize("words", [("jobs", "show"), ("gate", "status"), ("parked", "list")])
def test_a_shell_completes_ids(sluice, stack_settings, words):
    """Those that begin so. Silently none where storage does not answer, and none of others."""
    with Connections.parse(stack_settings) as connections:
        stores = Stores(connections)
        known = {"content_hash": "0", "workload": "billing", "accepted_at": datetime.now(UTC)}
        stores.ledger.insert(Job(job=f"tab-job-{words[0]}", state=JobState.COMPLETE, **known))
        stores.gate_operator.open(f"tab-gate-{words[0]}", by="ann")
        park(stores, make_entry("tab", 1, key=f"tab-{words[0]}", fingerprint=f"tab{words[0]}cause"))

    def complete(word, **settings):
        line = {"COMP_WORDS": " ".join(("sluice", *words, word)), "COMP_CWORD": str(1 + len(words))}
        done = sluice(settings={**stack_settings, **settings, **line, "_SLUICE_COMPLETE": "complete_bash"})
        return done.stdout.split(), done.stderr

    wanted = {"jobs": "tab-job-jobs", "gate": "tab-gate-gate", "parked": "tabparkedcause"}[words[0]]
    assert complete(wanted[:-2]) == ([wanted], "")
    assert complete("no-such-thing") == ([], "")
    nowhere = "http://127.0.0.1:9/dev"
    dead = f"AccountName=dev;AccountKey=AAAA;BlobEndpoint={nowhere};QueueEndpoint={nowhere};TableEndpoint={nowhere};"
    assert complete("tab", SluiceStorage=dead) == ([], "")
