"""What others wrote is shown as text: no markup, no control sequence reaches a person's terminal."""

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from cli import gate_view, job_view, main, parked_view
from cli.doctor import Finding
from shared.gate.gate_decisions import open_gate
from shared.gate.held import HeldSummary
from shared.gate.state import GateState, Opening
from shared.ledger.records import Job, JobState
from shared.operating.gate_acts import Overview
from shared.parked.entry import Entry

NOW = datetime(2026, 11, 21, tzinfo=UTC)
#: A closing tag that fits nothing, a link, a colour, a new title for the window, text that runs backwards.
EVIL = "[/x][link=http://example.com]here[/link]\x1b[31m\x1b]0;title\x07\u202e=cmd"


def job():
    """A job whose problem quotes a workload's error."""
    return job_view.job_table(
        Job(job="j", content_hash="", workload="w", accepted_at=NOW, state=JobState.PAUSED, problem=EVIL), NOW
    )


def entry():
    """Something parked, with what was found in it."""
    fields = {"reason": EVIL, "found": EVIL, "instead": EVIL, "fingerprint": "f", "attempts": 1, "message_id": EVIL}
    known = {"job": "j", "key": "k", "stage": "accept", "queue": "q", "sha256": "0", "size": 1}
    return parked_view.entry_table(Entry(**known, **fields, first_at=NOW, last_at=NOW))


def gate(console):
    """A gate that somebody opened for a strange reason."""
    shown = gate_view.Status(
        Overview("g", open_gate(GateState(), Opening(at=NOW, by=EVIL, why=EVIL), NOW), HeldSummary(0, None)), [], []
    )
    gate_view.show_status(console, shown, NOW)


def broken_gate(console):
    """A gate whose blob holds something strange."""
    gate_view.show_overview(console, [Overview("g", GateState(), HeldSummary(0, None), EVIL)], NOW)


def finding():
    """What the doctor heard from a library."""
    return main._table([Finding("queue", "q", EVIL)])


@pytest.mark.parametrize("show", [job, entry, finding, gate, broken_gate], ids=lambda show: show.__name__)
def test_the_text_of_others_is_shown_as_text(show):
    """All of it can be read, and none of it does anything."""
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=400)
    if show in {gate, broken_gate}:
        show(console)
    else:
        console.print(show())
    said = console.file.getvalue()
    assert "[/x][link=http://example.com]here[/link]" in said
    assert [one for one in ("\x1b]", "\x1b[31m", "\x07", "\u202e") if one in said] == []
