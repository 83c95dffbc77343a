"""When a message is poison: what an exception means for it, and when its deliveries have killed enough."""

import socket
from unittest.mock import ANY, Mock

import msgspec
import pytest
from azure.core.exceptions import HttpResponseError, ServiceRequestError, ServiceResponseError
from azure.servicebus.exceptions import ServiceBusConnectionError
from hypothesis import given, strategies as st

from shared.errors import (
    ContentionError,
    RefusedError,
    ResultNotSentError,
    StorageUnavailableError,
    UnknownWorkloadError,
)
from shared.messages import Delivery, PortionMessage, Result, decode, encode
from shared.parked.parking import Deliveries
from shared.parked.poison_policy import (
    DEFAULT_POLICY as POLICY,
    FailedAlone,
    FailedAloneError,
    KillerError,
    Mark,
    Nature,
    PoisonPolicy,
    cause_of,
    count_deaths,
    fingerprint_of,
    kind_of,
    nature_of,
    place_of,
    reason_of,
)

REFUSED = RefusedError("hash_mismatch", "found", "instead")


def answered(status):
    """Return what the SDK raises for a status."""
    error = HttpResponseError("answered")
    error.status_code = status
    return error


def wrapped(cause):
    """Return what an adapter makes of it."""
    error = StorageUnavailableError("could not")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "nature"),
    [
        *((answered(status), Nature.TRANSIENT) for status in (401, 403, 404, 408, 409, 412, 429, 500, 503)),
        *((wrapped(answered(status)), Nature.TRANSIENT) for status in (403, 404, 500, 503)),
        *((answered(status), Nature.UNKNOWN) for status in (400, 413, 414)),
        (wrapped(answered(400)), Nature.UNKNOWN),
        (wrapped(ServiceRequestError("down")), Nature.TRANSIENT),
        (StorageUnavailableError("down"), Nature.TRANSIENT),
        (ContentionError("lost"), Nature.TRANSIENT),
        (ResultNotSentError("down"), Nature.TRANSIENT),
        (ServiceResponseError("cut off"), Nature.TRANSIENT),
        (ServiceBusConnectionError(), Nature.TRANSIENT),
        (ConnectionResetError(), Nature.TRANSIENT),
        (TimeoutError(), Nature.TRANSIENT),
        (socket.gaierror(), Nature.TRANSIENT),
        (REFUSED, Nature.PERMANENT),
        (UnknownWorkloadError("no such"), Nature.PERMANENT),
        (ValueError(), Nature.UNKNOWN),
        (MemoryError(), Nature.UNKNOWN),
        (FileNotFoundError(), Nature.UNKNOWN),
        (msgspec.ValidationError(), Nature.UNKNOWN),
    ],
    ids=lambda value: (
        f"{type(value).__name__} {getattr(value, 'status_code', '')}" if isinstance(value, Exception) else ""
    ),
)
def test_each_failure_is_what_it_is(error, nature):
    """An outage passes, a wrong message does not, and of the rest nobody knows."""
    assert nature_of(error) is nature


@given(st.sampled_from(Nature), st.integers(1, 100))
def test_only_what_does_not_pass_is_ever_parked(nature, delivery):
    """A transient failure never parks, a permanent one at once, an unknown one from its fifth delivery on."""
    expected = {
        Nature.TRANSIENT: False,
        Nature.PERMANENT: True,
        Nature.UNKNOWN: delivery >= POLICY.deliveries,
    }
    assert POLICY.parks(nature, delivery) is expected[nature]


@given(st.dictionaries(st.integers(POLICY.noted_from, 40), st.sampled_from(Mark)), st.integers(1, 40))
def test_a_death_is_an_earlier_delivery_without_an_end(marks, delivery):
    """Neither those that ended count, nor later ones: two deliveries of one message may be under way."""
    deaths = [number for number, mark in marks.items() if mark is Mark.BEGUN and number < delivery]
    assert count_deaths(marks, delivery) == len(deaths)


@given(st.integers(0, 40), st.integers(1, 40))
def test_a_killer_has_left_enough_deliveries_without_an_end(deaths, delivery):
    """Nothing is taken for a killer before the delivery at which an unknown failure parks."""
    assert POLICY.is_killer(deaths, delivery) is (delivery >= POLICY.deliveries and deaths >= POLICY.deaths)


def test_a_message_that_dies_each_time_is_a_killer_by_the_fifth_delivery():
    """The deliveries that are noted before it suffice."""
    assert POLICY.is_killer(len(range(POLICY.noted_from, POLICY.deliveries)), POLICY.deliveries)


def test_a_step_of_a_finish_that_dies_of_others_mostly_is_no_killer():
    """One that takes as long as its instances live dies half of the time: ten times in twelve deliveries is rare."""
    last = POLICY.noted_from + POLICY.step_deaths
    assert POLICY.is_killer(len(range(POLICY.noted_from, last)), last, is_step=True)
    assert not POLICY.is_killer(POLICY.step_deaths - 1, last, is_step=True)


def raised(error):
    """Return the error with the traceback of being raised."""
    try:
        raise error
    except type(error) as caught:
        return caught


def print_of(error, stage="process"):
    """Return the fingerprint of what failed in this stage."""
    return fingerprint_of(error, stage)


def test_a_fingerprint_is_of_the_cause_and_not_of_the_case():
    """Other values are the same cause; another type, reason or way there is another."""
    one, other = print_of(raised(KeyError("a"))), print_of(raised(KeyError("b" * 1000)))
    assert one == other
    assert len(one) == 12
    assert one != print_of(raised(IndexError("a")))
    assert print_of(raised(REFUSED)) != print_of(raised(RefusedError("corrupt", "found", "instead")))
    assert one != print_of(KeyError("a"))


def raised_in(source, module, filename):
    """Return what `fail()` raises when its source is this module, in this file."""
    scope = {"__name__": module}
    exec(compile(source, filename, "exec"), scope)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any, that is the point
        scope["fail"]()
    # The frame of this test is no part of what happened.
    return caught.value.with_traceback(caught.value.__traceback__.tb_next)


DIRECT = "def fail():\n    return {}['a']"
WORKLOAD = "def fail():\n    return price()\n\ndef price():\n    return {}['a']"
LATER = WORKLOAD.replace("def price", "\n\nRATE = 3\n\n\ndef price")
LISTED = WORKLOAD.replace("{}['a']", "[{}[key] for key in 'a']")


@pytest.mark.parametrize(
    ("source", "module", "filename", "is_same"),
    [
        (WORKLOAD, "sales", "/site/wwwroot/sales.py", True),
        (WORKLOAD, "sales", "/home/ann/sales/__init__.py", True),
        (LATER, "sales", "/home/ann/sales.py", True),
        (LISTED, "sales", "/home/ann/sales.py", True),
        (DIRECT, "sales", "/home/ann/sales.py", False),
        (WORKLOAD, "billing", "/home/ann/sales.py", False),
    ],
    ids=["deployed", "a package", "moved lines", "a comprehension", "another way", "another module"],
)
def test_a_failure_in_the_workload_is_known_by_its_functions(source, module, filename, is_same):
    """Its modules and functions count, wherever it is installed; not its files and lines."""
    known = print_of(raised_in(WORKLOAD, "sales", "/home/ann/sales.py"))
    assert (print_of(raised_in(source, module, filename)) == known) is is_same


@pytest.mark.parametrize(
    ("module", "is_same"), [("shared.workloads.billing", False), ("shared.workloads.registry", True), ("sales", False)]
)
def test_of_our_own_code_only_the_example_is_a_workload(module, is_same):
    """Each function on the way through a workload counts; of ours, only the last one."""
    longer = WORKLOAD.replace("return price()", "return step()\n\ndef step():\n    return price()")
    assert (print_of(raised_in(longer, module, "a.py")) == print_of(raised_in(WORKLOAD, module, "a.py"))) is is_same


@pytest.mark.parametrize(
    ("module", "filename"),
    [
        ("shared.workloads.registry", "/site/wwwroot/shared/workloads/registry.py"),
        ("shared.guard", "/elsewhere/guard.py"),
    ],
)
def test_a_failure_of_our_own_outlives_the_move_of_a_module(module, filename):
    """The stage and the last function of ours say where it was."""
    moved = raised_in(WORKLOAD, module, filename)
    known = raised_in(WORKLOAD, "shared.pipeline.process", "/home/ann/process.py")
    assert print_of(moved) == print_of(known)
    assert print_of(moved) != print_of(moved, "accept")
    assert print_of(moved) != print_of(raised_in(DIRECT, module, filename))


@pytest.mark.parametrize(
    ("module", "filename"),
    [("pricing", "/app/.python_packages/lib/site-packages/pricing.py"), ("decimal", "/usr/lib/python3/decimal.py")],
)
def test_libraries_do_not_count(module, filename):
    """An upgrade changes their functions."""
    assert print_of(raised_in(WORKLOAD, module, filename)) == print_of(raised_in(DIRECT, module, filename))


def test_reasons_are_short_codes():
    """A catalogue's own reason stays; what has none is called by its type."""
    assert reason_of(REFUSED) == "hash_mismatch"
    assert reason_of(UnknownWorkloadError("no such")) == "unknown_workload"
    assert reason_of(KeyError("secret")) == "failed:KeyError"
    assert len(reason_of(type("E" * 500, (Exception,), {})())) <= 200


def test_unknown_sums_stay_unknown_on_the_wire():
    """A parked chunk's sums are not nothing, and the ledger must not take them for it."""
    result = Result(job="j", chunk=0, revision=1, parked=PortionMessage(items=10, sums=None), reason="corrupt")
    assert decode(encode(result)) == result


class Parked:
    """Remembers the errors that messages were parked for, and what their notes were then."""

    def __init__(self, notes, is_back=lambda _error: False):
        self.notes, self.ask, self.errors, self.noted = notes, is_back, [], {}

    def is_back(self, _stage, _delivery, error):
        """Say whether a message was replayed for this error."""
        return self.ask(error)

    def park(self, _stage, _delivery, error):
        """Remember it."""
        self.errors.append(error)
        self.noted = dict(self.notes.of("m")[0]) if self.notes else {}


class Notes:
    """Notes of deliveries in memory."""

    def __init__(self, begun=()):
        self.rows = {"m": dict.fromkeys(begun, Mark.BEGUN)} if begun else {}

    def of(self, key):
        """Return the marks of a message, and how many of its deliveries were put off."""
        return self.rows.get(key, {}), 0

    def note_begun(self, key, delivery, suspected):
        """Keep a mark."""
        self.suspected = suspected
        self.rows.setdefault(key, {})[delivery] = Mark.BEGUN

    def note_failure(self, key, delivery, _error, tries):
        """Keep a mark."""
        self.tries = tries
        self.rows.setdefault(key, {})[delivery] = Mark.ENDED

    def forget(self, key):
        """Drop the marks of a message."""
        self.rows.pop(key, None)


def attempt(notes, count, error=None, *, policy=POLICY, is_back=lambda _error: False, can_run_alone=False):
    """Deliver message m to work that fails as planned. Return what was parked, and whether the work was done."""
    parked, work = Parked(notes, is_back), Mock(side_effect=error)
    deliveries = Deliveries(notes, parked, policy)
    delivery = Delivery(queue="work-00", message_id="1", body=b"", count=count)
    one = deliveries.begin("process", delivery, "m", can_run_alone=can_run_alone)
    try:
        if one.goes_on:
            work()
    except Exception as failed:  # noqa: BLE001 - as the stages do
        one.fail(failed)
    deliveries.end(one)
    return parked, work.called


def test_the_verdict_on_a_killer_comes_before_any_work():
    """The work would be the next death. The notes stay until the entry is parked: a crash before that must find them."""
    notes = Notes(begun=range(POLICY.noted_from, POLICY.deliveries))
    parked, worked = attempt(notes, POLICY.deliveries)
    assert [type(error) for error in parked.errors] == [KillerError]
    assert not worked
    assert len(parked.noted) == POLICY.deliveries - POLICY.noted_from
    assert notes.rows == {}


def test_a_chunk_is_never_parked_for_its_deaths_alone():
    """Its neighbours may have caused them: it runs in a process of its own, and a person reads so."""
    for count in range(POLICY.noted_from + 1, 40):
        notes = Notes(begun=range(POLICY.noted_from, count))
        parked, worked = attempt(notes, count, can_run_alone=True)
        assert (parked.errors, worked) == ([], True)
        assert "runs in one of its own" in notes.suspected


@pytest.mark.parametrize("can_run_alone", [True, False])
def test_deliveries_that_ended_make_no_suspect(can_run_alone):
    """They failed by an exception, which has its own limit."""
    notes = Notes()
    notes.rows["m"] = dict.fromkeys(range(POLICY.noted_from, 30), Mark.ENDED)
    assert attempt(notes, 30, can_run_alone=can_run_alone) == (ANY, True)
    assert notes.suspected == ""


@pytest.mark.parametrize(
    ("error", "stage"), [(REFUSED, "process"), (ConnectionError("down"), "process"), (ValueError("odd"), "settle")]
)
def test_a_failure_in_a_process_of_its_own_is_judged_as_if_it_were_raised_here(error, stage):
    """Its traceback stays there: kind, nature, place and cause come with it."""
    there = raised(error)
    failed = FailedAlone(kind_of(there), nature_of(there), cause_of(there, stage, "mend it"))
    here = raised(FailedAloneError(failed))
    for judge in (kind_of, nature_of, place_of):
        assert judge(here) == judge(there)
    assert fingerprint_of(here, stage) == fingerprint_of(there, stage)
    assert cause_of(here, stage, "another remedy") == cause_of(there, stage, "mend it")


@pytest.mark.parametrize(("error", "tries"), [(ValueError("odd"), POLICY.deliveries), (ConnectionError("down"), 0)])
def test_the_note_of_a_failure_says_when_it_is_parked(error, tries):
    """A person reads how many tries are left. What may pass is never parked."""
    notes = Notes()
    with pytest.raises(type(error)):
        attempt(notes, 1, error)
    assert notes.tries == tries


def test_an_error_that_parks_is_parked_before_its_notes_are_forgotten():
    """A process that dies between the two parks the same message at its next delivery."""
    notes, error = Notes(), ValueError("odd")
    parked, _ = attempt(notes, POLICY.deliveries, error)
    assert parked.errors == [error]
    assert parked.noted == {POLICY.deliveries: Mark.ENDED}
    assert notes.rows == {}


@pytest.mark.parametrize(
    ("error", "count"), [(StorageUnavailableError("down"), 50), (ValueError("odd"), POLICY.deliveries - 1)]
)
def test_an_error_that_another_delivery_may_not_have_is_raised(error, count):
    """The host then delivers the message again; its death is not among those that were noted."""
    notes = Notes()
    with pytest.raises(type(error)):
        attempt(notes, count, error)
    assert notes.of("m")[0] == {count: Mark.ENDED}


def test_work_that_is_done_leaves_no_notes_and_an_early_delivery_writes_none():
    """The ordinary message costs nothing."""
    notes = Notes()
    assert attempt(notes, POLICY.noted_from)[0].errors == []
    assert notes.rows == {}
    assert attempt(None, 1)[0].errors == []
    assert attempt(None, 1, REFUSED)[0].errors == [REFUSED]


@pytest.mark.parametrize(
    ("error", "is_noted"),
    [(ValueError("odd"), True), (ConnectionError(), True), (StorageUnavailableError("down"), False)],
)
def test_a_failure_is_noted_from_the_first_delivery_on(error, is_noted):
    """A person sees what is tried again; storage that is down is not asked to keep that it is down."""
    notes = Notes()
    with pytest.raises(type(error)):
        attempt(notes, 1, error)
    assert notes.of("m")[0] == ({1: Mark.ENDED} if is_noted else {})
    attempt(notes, 2)
    assert notes.rows == {}


def test_what_was_replayed_for_this_failure_is_parked_at_once():
    """Another four attempts would tell the person who waits nothing. What passes by itself is never parked."""
    error = ValueError("odd")
    assert attempt(Notes(), 1, error, is_back=lambda failed: failed is error)[0].errors == [error]
    with pytest.raises(ConnectionError):
        attempt(Notes(), 1, ConnectionError(), is_back=lambda _: True)


def test_who_cannot_ask_whether_it_was_replayed_goes_on_trying():
    """The outage is not the message's fault, and its own error is the one that is told."""

    def ask(_error):
        raise StorageUnavailableError("down")

    with pytest.raises(ValueError, match="odd"):
        attempt(Notes(), 1, ValueError("odd"), is_back=ask)


def test_the_limits_are_those_of_the_policy():
    """An operator who sets others gets others."""
    strict = PoisonPolicy(deliveries=2, deaths=2)
    error = ValueError("odd")
    assert attempt(Notes(), 2, error, policy=strict)[0].errors == [error]
    assert isinstance(attempt(Notes(begun=[3, 4]), 5, policy=strict)[0].errors[0], KillerError)
    assert attempt(Notes(begun=[3]), 5, policy=strict)[0].errors == []


@given(st.integers(0, 100), st.integers(1, 100), st.integers(0, 100), st.integers(0, 20))
def test_a_job_pauses_when_both_limits_are_passed(parked, chunks, percent, more_than):
    """A small job is not paused for a few chunks, nor a large one for a small share of them."""
    policy = PoisonPolicy(pause_share=percent / 100, pause_chunks=more_than)
    assert policy.pauses(parked, chunks) is (parked > more_than and parked > percent / 100 * chunks)
