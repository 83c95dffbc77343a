"""A large payload goes in stretches: cut by its lines alone, found again by a publisher that begins anew."""

import gzip
import io
import json
from itertools import count

import pytest

from shared.errors import RefusedError
from shared.ledger.records import JobState
from shared.payload import Limits, StretchStore, expand_frame, read_stretch
from shared.payload.submission import Form
from shared.publish import Publisher
from tests.faults.world import sales
from tests.pipeline.whole_app import app_in_memory

JOB = "meters"
#: Texts of a line: some stretches of a few frames each.
LIMITS = Limits(frame_items=4, stretch_bytes=1000)


@pytest.fixture
def app():
    """The app on storage in memory."""
    with app_in_memory() as made:
        yield made


def publisher(app, limits=LIMITS):
    """Return a publisher as a new process has it."""
    payloads = app.others.blobs.get_container_client("payloads")
    return Publisher(app.others.queues.get_queue_client("submissions"), payloads, limits=limits)


def lines(number):
    """Return so many transactions as the bytes of a file."""
    return b"".join(json.dumps(one).encode() + b"\n" for one in sales(*"ab" * (number // 2)))


def texts(app):
    """Return the lines of all stretches, and the last blob of the chain."""
    container, found = app.others.blobs.get_container_client("payloads"), []
    for number in count():
        one = read_stretch(StretchStore(container).find(JOB, number), JOB, number, LIMITS)
        if one.end is not None:
            return found, one
        stored = container.download_blob(one.blob).readall()
        frames = [stored[frame.offset : frame.offset + frame.length] for frame in one.index.frames]
        found.append(b"".join(expand_frame(frame, one.codec, LIMITS) for frame in frames))
    return None


@pytest.mark.parametrize("items", [12, 40, 200])
@pytest.mark.parametrize("options", [{}, {"check": True}, {"sums": ("amount",)}], ids=str)
def test_the_form_follows_from_the_lines(app, items, options):
    """Up to two stretches it goes whole. More are cut alike, whether it is checked before or not."""
    content = lines(items)
    sent = publisher(app).submit_file(job=JOB, file=io.BytesIO(content), workload="sales", **options)
    assert (sent.form is Form.STRETCHES) == (len(content) > 2 * LIMITS.stretch_bytes)
    if sent.stretches:
        parts, end = texts(app)
        assert b"".join(parts) == content
        assert max(map(len, parts)) <= LIMITS.stretch_bytes
        assert (len(parts), end.end.items) == (sent.stretches, items)
    app.work_off()
    job = app.read(JOB)
    assert (job.state, job.totals.accepted.items, job.items) == (JobState.COMPLETE, items, items)
    assert job.declared == dict(sent.sums)


def test_a_packed_file_is_cut_by_its_lines(app):
    """The same stretches as of the plain one."""
    publisher(app).submit_file(job=JOB, file=io.BytesIO(gzip.compress(lines(200))), workload="sales")
    before, _ = texts(app)
    again = publisher(app).submit_file(job=JOB, file=io.BytesIO(lines(200)), workload="sales")
    assert (again.found, again.stretches) == (len(before), len(before))


@pytest.mark.parametrize("killed_at", range(1, 6))
def test_one_that_was_killed_goes_on_behind_its_stretches(app, killed_at):
    """The same command again: what is there is compared, and not sent once more."""
    one = publisher(app)

    def kill(number, _is_found):
        if number == killed_at:
            raise KeyboardInterrupt

    one.on_stretch = kill
    with pytest.raises(KeyboardInterrupt):
        one.submit_file(job=JOB, file=io.BytesIO(lines(200)), workload="sales")
    app.work_off()
    assert app.read(JOB).stretches == killed_at
    sent = publisher(app).submit_file(job=JOB, file=io.BytesIO(lines(200)), workload="sales")
    assert sent.found == killed_at
    app.work_off()
    assert (app.read(JOB).state, app.read(JOB).totals.accepted.items) == (JobState.COMPLETE, 200)


def test_another_file_under_the_same_id_is_refused_with_its_first_other_transaction(app):
    """Nothing of it is sent."""
    publisher(app).submit_file(job=JOB, file=io.BytesIO(lines(200)), workload="sales")
    parts, _ = texts(app)
    same, rest = b"".join(parts[:2]), b"".join(parts[2:])
    tries = [(lines(200).replace(b"\n", b" \n"), 1), (same + rest.replace(b"\n", b" \n"), same.count(b"\n") + 1)]
    for content, first in tries:
        with pytest.raises(RefusedError, match=f"from number {first} on"):
            publisher(app).submit_file(job=JOB, file=io.BytesIO(content), workload="sales")


@pytest.mark.parametrize("items", [200, 190])
def test_a_longer_or_a_shorter_file_is_another_one(app, items):
    """Its end is there, or its last stretch is not its last."""
    publisher(app).submit_file(job=JOB, file=io.BytesIO(lines(items)), workload="sales")
    with pytest.raises(RefusedError, match="another payload"):
        publisher(app).submit_file(job=JOB, file=io.BytesIO(lines(390 - items)), workload="sales")


def test_a_number_that_another_system_knows_is_proven(app):
    """Before anything is sent where all is read before, else before the end."""
    for options in ({"check": True}, {}):
        with pytest.raises(RefusedError) as refused:
            publisher(app).submit_file(
                job=JOB, file=io.BytesIO(lines(200)), workload="sales", declare={"items": 7}, **options
            )
        assert refused.value.reason == "count_mismatch"
    app.work_off()
    assert app.read(JOB).state is JobState.DISPATCHING


def test_a_slow_source_is_sent_as_it_is_flushed(app):
    """The app runs what was flushed while the rest is not there yet."""
    one = publisher(app)
    with one.open(job=JOB, workload="sales") as opened:
        opened.write(sales("a", "b"))
        opened.flush()
        app.work_off()
        assert app.read(JOB).totals.accepted.items == 2
        opened.write(sales(*"ab" * 20))
    app.work_off()
    job = app.read(JOB)
    assert (job.state, job.totals.accepted.items) == (JobState.COMPLETE, 42)
    assert job.stretches > 2


def fail_after(app, transactions):
    """Have a program fail after it has flushed these."""

    def run():
        with publisher(app).open(job=JOB, workload="sales") as opened:
            opened.write(transactions)
            opened.flush()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run()


def test_a_slow_source_that_failed_goes_on_by_its_own_lines(app):
    """However it flushes the second time."""
    every = sales(*"ab" * 4)
    fail_after(app, every[:6])
    app.work_off()
    assert app.read(JOB).growing
    with publisher(app).open(job=JOB, workload="sales") as opened:
        for at in range(0, 8, 2):
            opened.write(every[at : at + 2])
            opened.flush()
        assert opened.sender.found == 1
    app.work_off()
    assert (app.read(JOB).state, app.read(JOB).totals.accepted.items) == (JobState.COMPLETE, 8)


@pytest.mark.parametrize("others", [sales("a"), sales(*"bb" * 3)], ids=["fewer", "others"])
def test_a_slow_source_with_other_lines_is_refused(app, others):
    """Also one that has fewer than are there."""
    fail_after(app, sales(*"ab" * 3))
    with pytest.raises(RefusedError, match="another payload"), publisher(app).open(job=JOB) as opened:
        opened.write(others)


def test_an_open_job_without_a_line_is_refused(app):
    """As an empty file."""
    with pytest.raises(RefusedError) as refused, publisher(app).open(job=JOB):
        pass
    assert refused.value.reason == "empty"


def test_an_unreadable_line_among_the_first_stops_it_before_the_first_stretch(app):
    """Nothing was written."""
    with pytest.raises(RefusedError), publisher(app).open(job=JOB) as opened:
        opened.write([b"{"])
    with pytest.raises(RefusedError):
        publisher(app).submit_file(job=JOB, file=io.BytesIO(lines(200) + b"{\n"), check=True)
    assert list(app.others.blobs.get_container_client("payloads").list_blobs()) == []


def test_more_stretches_than_a_job_may_have_are_not_written(app):
    """The job stays open, for a person to stop it."""
    limits = Limits(frame_items=4, stretch_bytes=1000, stretches_most=3)
    with pytest.raises(RefusedError) as refused:
        publisher(app, limits).submit_file(job=JOB, file=io.BytesIO(lines(200)), workload="sales")
    assert refused.value.reason == "too_many_items"
    app.work_off()
    assert (app.read(JOB).stretches, app.read(JOB).growing) == (3, True)
