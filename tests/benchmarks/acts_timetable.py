"""Lines of cron against a walk along the clock on the wall, and an app that was stopped over three openings."""

import subprocess
import sys
from collections.abc import Iterator
from zoneinfo import ZoneInfo

from tests.benchmarks.acts_row import Row
from tests.gate import test_cron as cron
from tools.local.paths import ROOT

STOPPED = "tests/gate/test_timetables.py::test_an_app_that_was_stopped_over_three_openings_opens_once"


def measure() -> Iterator[Row]:
    """Compare every moment of two years, and run the test of the stopped app."""
    moments, wrong = 0, list[str]()
    for name in cron.ZONES:
        zone = ZoneInfo(name)
        for text in cron.LINES:
            found, expected = cron.walk(text, zone), cron.expected(text, zone)
            moments += len(expected)
            wrong += [f"{text} in {name}"] * (found != expected)
    said = f"{moments:,} openings of {len(cron.LINES)} lines in {len(cron.ZONES)} zones, {len(wrong)} lines wrong"
    yield Row("timetable: two years, once each and in order", said, "0 wrong", not wrong)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", STOPPED]
    done = subprocess.run(words, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
    said = "one opening, two are said to be skipped" if not done.returncode else "OTHERS"
    yield Row("timetable: an app that was stopped over three openings", said, "one opening", not done.returncode)
