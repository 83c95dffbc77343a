"""The forecast of an opening: it is noted with the act, and what happened is beside it; the price is near the bill."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from shared.azure import tally_requests
from shared.gate import TimetableRow
from shared.operating import describe_check
from shared.operating.forecast import DETAIL, ForecastNote, note_forecast, read_note
from shared.usage import bill_of, count_requests, load, price
from tests.ledger.builders import NOON
from tests.pipeline.test_pause import tick
from tests.pipeline.whole_app import app_in_memory

PRICES = load()
GATE = "nightly"


@pytest.fixture
def app():
    """An installation of its own, at work: the first job of a process reads and writes what the others find."""
    with app_in_memory() as made:
        made.run("warm", 3)
        yield made


def hold(app, *sizes):
    """Have jobs of so many chunks wait behind the gate."""
    for number, chunks in enumerate(sizes):
        app.submit(f"rate-{number}", chunks, gate=GATE)
    app.work_off()


def open_gate(app):
    """Open it as the command does, and return the forecast."""
    found = app.stores.gate_forecaster.forecast(GATE, PRICES, app.clock.now())
    app.stores.gate_operator.open(GATE, by="ann", forecast=note_forecast(found, PRICES))
    return found


def check(app):
    """Return what the last opening was to come to, and what happened."""
    return app.stores.forecast_check.check(GATE, app.stores.gates.read(GATE), PRICES)


@pytest.mark.parametrize("sizes", [(1,), (3,), (10,), (60,), (1, 3, 10, 60), (1,) * 40, (3,) * 20])
def test_the_price_is_within_a_tenth_of_the_bills(app, sizes):
    """Of jobs of one chunk and of many, whose requests are not those of their chunks alone."""
    hold(app, *sizes)
    found = open_gate(app)
    tick(app, 2)
    note, happened = check(app)
    bills = sum(bill_of(app.read(f"rate-{number}"), PRICES).total for number in range(len(sizes)))
    assert (note.jobs, note.amount, happened.jobs, happened.ended) == (len(sizes), found.amount, len(sizes), len(sizes))
    assert happened.amount == bills
    assert note.amount == pytest.approx(bills, rel=Decimal("0.1"))


def test_three_jobs_come_to_what_was_forecast_and_the_forecast_writes_nothing(app):
    """Jobs and transactions exactly, the price within a tenth. `make bench ARGS="--only forecasts"` adds many jobs and seconds."""
    hold(app, 1, 1, 1)
    with tally_requests() as tally:
        app.stores.gate_forecaster.forecast(GATE, PRICES, app.clock.now())
    assert {kind.operation for kind, _ in tally.counts()} <= {"QueryEntities", "GetBlob"}
    found = open_gate(app)
    tick(app, 2)
    rows = [app.read(f"rate-{number}") for number in range(3)]
    assert (len(found.jobs), found.items) == (3, sum(row.totals.accepted.items for row in rows))
    assert found.amount == pytest.approx(sum(bill_of(row, PRICES).total for row in rows), rel=Decimal("0.1"))


def test_what_happened_is_said_beside_the_forecast(app):
    """So far, and at the end. What was accepted after the opening, or has no forecast, is left out."""
    assert check(app) is None
    hold(app, 2, 2)
    open_gate(app)
    assert describe_check(*check(app)).endswith("; so far 0 of 2 jobs ended, 0.0000000 USD")
    app.clock.advance(seconds=1)
    app.submit("late", 2, gate=GATE)
    tick(app, 2)
    note, happened = check(app)
    assert (happened.jobs, happened.ended) == (2, 2)
    assert happened.ended_at == max(app.read(f"rate-{number}").finished_at for number in range(2))
    assert describe_check(note, happened) == (
        f"forecast no end, {note.amount:.7f} USD; happened {happened.ended_at:%H:%M:%S}, {happened.amount:.7f} USD"
    )
    app.stores.gate_operator.close(GATE, by="ann")
    app.stores.gate_operator.open(GATE, by="ann")
    assert check(app) is None


@pytest.mark.parametrize("by_timetable", [False, True])
def test_a_planned_opening_is_foretold_when_it_is_planned(app, by_timetable):
    """Also over the end of a month. What happened is beside it, and an opening by hand after it has no forecast."""
    app.clock.advance(seconds=(datetime(2026, 11, 30, 20, tzinfo=UTC) - app.clock.now()).total_seconds())
    hold(app, 3, 2)
    at = datetime(2026, 12, 1, 2, tzinfo=UTC)
    if by_timetable:
        row = TimetableRow(line="0 2 * * *", zone="UTC", minutes=None, by="ann", why="", set_at=app.clock.now())
        app.stores.build_timetabler(None).set(GATE, row)
    else:
        noted = app.stores.gate_forecaster.foretell(GATE, at)
        app.stores.gate_operator.schedule(GATE, at, by="ann", once=True, forecast=noted)
    app.clock.advance(hours=6, minutes=1)
    tick(app, 3)
    note, happened = check(app)
    assert (note.jobs, happened.jobs, happened.ended) == (2, 2, 2)
    assert note.amount == pytest.approx(happened.amount, rel=Decimal("0.25"))
    app.stores.gate_operator.close(GATE, by="ann")
    app.stores.gate_operator.open(GATE, by="ann")
    assert check(app) is None


def test_the_note_is_read_as_it_was_written():
    """And one of another version is none."""
    for ends in (None, NOON + timedelta(seconds=9)):
        note = ForecastNote(12, ends, Decimal("1.31"), "USD")
        assert read_note(str(note)) == note
    assert (read_note("1 soon 3 USD 0"), read_note("1 - x USD 0"), read_note("")) == (None, None, None)


@pytest.mark.parametrize("chunks", [1, 10, 60])
def test_a_rerun_is_foretold_by_the_run_before(app, chunks):
    """By its chunks and its work; its price is what the new run adds to the bill. A job that never ran again has none."""
    job, _ = app.run("rate", chunks)
    reader = app.stores.job_reader(1)
    assert reader.look("rate").checked is None
    app.stores.job_operator.rerun("rate", by="ann", why="tariff corrected")
    note, happened = reader.look("rate").checked
    before = price(count_requests(job), PRICES).total
    assert (happened.ended, happened.ended_at, note.before) == (0, None, before)
    tick(app, 2)
    note, happened = reader.look("rate").checked
    ran = app.read("rate")
    assert (happened.ended, happened.ended_at) == (1, ran.finished_at)
    assert happened.amount == bill_of(ran, PRICES).total - note.before
    assert note.amount == pytest.approx(happened.amount, rel=Decimal("0.25"))


def test_an_opening_that_starts_no_job_notes_nothing(app):
    """Orders alone, or nothing."""
    assert note_forecast(app.stores.gate_forecaster.forecast(GATE, PRICES, NOON), PRICES) == {}
    open_gate(app)
    acts = app.stores.audit.newest(f"{app.clock.now():%Y-%m}", 10, about=GATE)
    assert [DETAIL in one.act.details for one in acts] == [False]
