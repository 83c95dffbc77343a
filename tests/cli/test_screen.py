"""What others wrote is shown as text: no markup, no control sequence reaches a person's terminal."""

import io
import re
from datetime import UTC, datetime

import pytest
from rich.table import Table

from shared.gate.held import HeldSummary
from shared.gate.state import GateState, Opening, open_gate
from shared.gate.timetables import TimetableRow
from shared.ledger.ledger import Listed
from shared.ledger.records import Job, JobState
from shared.operating import JOBS, Overview, row_of_job
from shared.parked.entry import Entry
from tools.cli import checkup, gate_view, job_view, parked_view
from tools.cli.doctor import Finding
from tools.cli.lists import make_list
from tools.cli.screen import Screen

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


def gate(screen):
    """A gate that somebody opened for a strange reason."""
    shown = gate_view.Status(
        Overview("g", open_gate(GateState(), Opening(at=NOW, by=EVIL, why=EVIL), NOW), HeldSummary(0, None)), [], []
    )
    gate_view.show_status(screen, shown, NOW)


def broken_gate(screen):
    """A gate whose blob holds something strange."""
    gate_view.show_overview(screen, [Overview("g", GateState(), HeldSummary(0, None), EVIL)], {}, NOW)


def timetable(screen):
    """A timetable that nobody but its writer understands."""
    row = TimetableRow(line=EVIL, zone="UTC", minutes=None, by=EVIL, why=EVIL, set_at=NOW)
    gate_view.show_overview(screen, [], {"g": row}, NOW)
    row_of_gate = Overview("g", GateState(), HeldSummary(0, None))
    gate_view.show_status(screen, gate_view.Status(row_of_gate, [], [], row), NOW)


def finding():
    """What the doctor heard from a library."""
    return checkup._table([Finding("queue", "q", EVIL)])


@pytest.mark.parametrize("show", [job, entry, finding, gate, broken_gate, timetable], ids=lambda show: show.__name__)
def test_the_text_of_others_is_shown_as_text(show):
    """All of it can be read, and none of it does anything."""
    screen = _screen(400)
    if show in {gate, broken_gate, timetable}:
        show(screen)
    else:
        screen.show(show())
    said = screen.file.getvalue()
    assert "[/x][link=http://example.com]here[/link]" in said
    assert [one for one in ("\x1b]", "\x1b[31m", "\x07", "\u202e") if one in said] == []


def _screen(width, *, is_terminal=True):
    return Screen(file=io.StringIO(), width=width, is_terminal=is_terminal)


def jobs(number=2):
    """Jobs whose ids differ at the end only, in the longest state."""
    rows = []
    for count in range(number):
        name = f"usage-of-november-north-{count:012}"
        state = JobState.COMPLETED_WITH_PARKED
        rows.append(Listed(name, NOW, "billing", "nightly", state, NOW))
    return make_list("Jobs", JOBS, [row_of_job(one, NOW) for one in rows], NOW)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_ids_and_states_are_whole_in_a_terminal(width):
    """A cut id is typed into the next command, and `comple...` is two states."""
    screen = _screen(width)
    screen.show(jobs())
    said = re.sub(r"\x1b\[[\d;]+m", "", screen.file.getvalue())
    for part in ("usage-of-november-north-000000000000", "usage-of-november-north-000000000001"):
        assert part in said
    assert said.count("completed_with_parked") == 2
    assert "…" not in said
    assert max(map(len, said.splitlines())) <= width


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_terminal_has_id_state_and_progress(width):
    """Whole words: the rest is left out by name before them."""
    screen = _screen(width)
    row = Listed(
        "usage-0412-0001", NOW, "billing", "nightly", JobState.COMPLETED_WITH_PARKED, NOW, chunks=800, done=790
    )
    screen.show(make_list("Jobs", JOBS, [row_of_job(row, NOW)], NOW))
    said = re.sub(r"\x1b\[[\d;]+m", "", screen.file.getvalue())
    assert all(part in said for part in ("usage-0412-0001", "completed_with_parked", "790", "800", "left out"))
    assert max(map(len, said.splitlines())) <= width


def test_columns_that_have_no_room_are_named():
    """A person at 80 columns knows that there is more, and a wide terminal has all of it."""
    narrow, wide = _screen(80), _screen(200)
    narrow.show(jobs())
    wide.show(jobs())
    assert "left out for lack of room:" in narrow.file.getvalue()
    assert "deadline" in narrow.file.getvalue()
    assert "left out" not in wide.file.getvalue()


def test_nothing_is_lost_where_not_even_the_ids_have_room():
    """Every character is there, on more lines."""
    screen, name = _screen(40), "a" * 30 + "b" * 30
    table = Table("job", "state")
    table.add_row(name, "completed_with_parked")
    screen.show(table)
    said = screen.file.getvalue()
    assert (said.count("a"), said.count("b")) == (32, 31)


def test_a_pipe_gets_plain_lines():
    """One line for each row, values between tabs, whole; what others wrote cannot add a value or a line."""
    screen = _screen(80, is_terminal=False)
    table = Table("job", "why", title="Jobs", caption="prices: mine")
    table.add_row("j" * 100, f"long {'text ' * 40}\tand\nmore [dim](assumed)[/dim]")
    screen.show(table)
    title, head, row, caption = screen.file.getvalue().splitlines()
    assert (title, head, caption) == ("# Jobs", "job\twhy", "# prices: mine")
    name, why = row.split("\t")
    assert name == "j" * 100
    assert why.endswith("text \\x09and\\x0amore (assumed)")
