"""The page and the price: what is written for whom, and that a rehearsal never passes for a run."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from tests.waiting import LIMIT, until
from tools.local.infra import costs
from tools.local.infra.project import Project
from tools.local.paths import ROOT
from tools.local.prove.__main__ import FOLDER, PAGE, REFUSED
from tools.local.prove.page import Report, render
from tools.local.prove.price import price_of
from tools.local.prove.site import Answer
from tools.local.prove.steps import STEPS, Ended

ALL = [Ended(one.key, 2.0, ("fine",)) for one in STEPS]
COMMAND = [sys.executable, "-m", "tools.local.prove"]


def report(ended=ALL, answers=(), *, is_rehearsal=False):
    """Return a report of these steps."""
    began = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
    versions = {"az": "2.80.0"}
    return Report(began, "n", "westeurope", versions, ended, answers, 1.0, Decimal("0.03"), is_rehearsal=is_rehearsal)


def test_the_page_has_its_date_its_region_its_versions_and_each_step():
    """Each fault with its remedy, and what was not reached by name."""
    text = render(report([*ALL[:3], Ended("provision", 9.0, problem="no | quota")]))
    assert text.startswith("# A run on Azure: 2026-11-27\n")
    assert "westeurope" in text
    assert "az 2.80.0" in text
    assert "- failed: provision; not reached: roles, doctor," in text
    assert "**failed**: no \\| quota. Then: read the end of azd's log" in text


def test_a_rehearsal_says_in_its_title_that_it_is_none():
    """Whoever copies it copies that too."""
    text = render(report(is_rehearsal=True))
    assert text.startswith("# A rehearsal, and no run on Azure")
    assert "no line here says anything of Azure" in text
    assert FOLDER not in PAGE.parents


@pytest.mark.parametrize(("is_right", "is_all_right"), [(True, True), (None, True), (False, False)])
def test_an_answer_that_was_not_hoped_for_makes_the_run_wrong(is_right, is_all_right):
    """One that only says something does not."""
    assert report(answers=[Answer("why?", "az x", "so", is_right)]).is_right is is_all_right


def test_the_price_is_a_share_of_the_month_without_work():
    """Of the same table that docs/deploy.md has."""
    month = sum(one.amount for one in costs.idle(Project()))
    assert price_of(30 * 24) == pytest.approx(month)
    assert price_of(1) == pytest.approx(month / 720)


def test_the_price_is_said_and_the_answer_waited_for_before_anything_is_called(tmp_path):
    """Who says no has called no program; none is on this path."""
    done = subprocess.run(
        COMMAND, cwd=ROOT, input="n\n", capture_output=True, text=True, check=False, env=os.environ | {"PATH": ""}
    )
    assert done.returncode == REFUSED
    assert "USD at most" in done.stdout
    assert "nothing was done" in done.stdout


@pytest.mark.ci("starts a stack of its own, and examines it for a minute")
def test_the_rehearsal_is_green():
    """Every step, against the local stack, as a person types it."""
    done = subprocess.run([*COMMAND, "--local"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    text = (FOLDER / "rehearsal.md").read_text()
    assert "killed the process" in text
    assert "- failed: nothing; not reached: nothing" in text


@pytest.mark.ci("starts a stack of its own")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_midst_of_a_rehearsal_leaves_nothing(number):
    """No process of the stack, and no folder of the run."""
    process = subprocess.Popen(
        [*COMMAND, "--local"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for line in process.stdout:
        if "sluice prove: doctor" in line:
            break
    children = until(lambda: _descendants(process.pid))
    process.send_signal(number)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, out + err
    assert "is gone, and azd's environment too" in out
    until(lambda: not [pid for pid in children if _is_alive(pid)])


def _descendants(pid):
    children = [int(one) for one in _read(f"/proc/{pid}/task/{pid}/children").split()]
    return children + [below for one in children for below in _descendants(one)]


def _is_alive(pid):
    return (text := _read(f"/proc/{pid}/stat")) != "" and text.rsplit(")", 1)[1].split()[0] != "Z"


def _read(file):
    try:
        return Path(file).read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return ""
