"""What an exception means for its message; pure."""

import socket

import msgspec
import pytest
from azure.core.exceptions import HttpResponseError, ServiceRequestError, ServiceResponseError
from azure.servicebus.exceptions import ServiceBusConnectionError
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import (
    ContentionError,
    RefusedError,
    ResultNotSentError,
    StorageUnavailableError,
    UnknownWorkloadError,
)
from shared.pipeline.failure import (
    DEATHS_OF_KILLER,
    KILLER_PARKS_AT,
    NOTED_FROM,
    UNKNOWN_PARKS_AT,
    Mark,
    Nature,
    fingerprint_of,
    killed_its_worker,
    nature_of,
    parks,
    reason_of,
)
from shared.pipeline.messages import Outcome, Result, decode, encode

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
        Nature.UNKNOWN: delivery >= UNKNOWN_PARKS_AT,
    }
    assert parks(nature, delivery) is expected[nature]


@given(st.dictionaries(st.integers(NOTED_FROM, 40), st.sampled_from(Mark)), st.integers(1, 40))
def test_a_killer_has_left_enough_deliveries_without_an_end(marks, delivery):
    """Nothing is taken for a killer before the tenth delivery, or for deliveries that ended, or for later ones."""
    deaths = [number for number, mark in marks.items() if mark is Mark.BEGUN and number < delivery]
    assert killed_its_worker(marks, delivery) is (delivery >= KILLER_PARKS_AT and len(deaths) >= DEATHS_OF_KILLER)


def test_a_message_that_dies_each_time_is_a_killer_by_the_tenth_delivery():
    """The deliveries that are noted before it suffice."""
    marks = dict.fromkeys(range(NOTED_FROM, KILLER_PARKS_AT), Mark.BEGUN)
    assert len(marks) >= DEATHS_OF_KILLER
    assert killed_its_worker(marks, KILLER_PARKS_AT)


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
    ("module", "is_same"), [("shared.workloads.billing", False), ("shared.workloads.run", True), ("sales", False)]
)
def test_of_our_own_code_only_the_example_is_a_workload(module, is_same):
    """Each function on the way through a workload counts; of ours, only the last one."""
    longer = WORKLOAD.replace("return price()", "return step()\n\ndef step():\n    return price()")
    assert (print_of(raised_in(longer, module, "a.py")) == print_of(raised_in(WORKLOAD, module, "a.py"))) is is_same


@pytest.mark.parametrize(
    ("module", "filename"),
    [
        ("shared.workloads.run", "/site/wwwroot/shared/workloads/run.py"),
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
    result = Result(job="j", chunk=0, revision=1, parked=Outcome(items=10, sums=None), reason="corrupt")
    assert decode(encode(result)) == result
