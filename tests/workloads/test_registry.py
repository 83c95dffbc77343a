"""Loading workloads by name, and the result message of the largest one."""

from asyncio import CancelledError
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from msgspec import Raw

from docs.examples.enrichment import Enrichment
from shared.errors import FinishRefusedError, SettingsError, UnknownWorkloadError, WorkloadsRefusedError
from shared.grammar import DIGITS_OF_SUM, PLACES
from shared.messages import PortionMessage, Result, encode
from shared.pipeline.outputs import Outputs
from shared.pipeline.results import MOST_BYTES, trim_result
from shared.pipeline.segments import Merger
from shared.settings import SETTINGS
from shared.workloads import Line
from shared.workloads.billing import Billing
from shared.workloads.registry import LONGEST_SUM_NAME, MOST_SUMS, Workloads, items_of, split


class Usage(msgspec.Struct):
    """A transaction."""

    label: str
    units: int
    amount: float
    renamed: int = msgspec.field(name="other", default=0)


def variant(**changes):
    """Return a workload that differs from a good one."""
    good = {"name": "good", "transaction": Usage, "partial": int, "sums": ("units",)}
    calls = dict.fromkeys(("map", "combine", "merge", "finish"), lambda *_: 0)
    return type("Variant", (), {**good, **calls, **changes})()


def test_the_default_setting_has_billing():
    """An installation that sets nothing can bill."""
    (setting,) = (one for one in SETTINGS if one.name == "SLUICE_WORKLOADS")
    workloads = Workloads.load(setting.default, {})
    assert list(workloads) == ["billing"]
    assert isinstance(workloads.find("billing"), Billing)
    assert "billing" in workloads


def test_billing_has_a_short_name():
    """The long one stands in the settings of apps, and is read for good. Both are one workload."""
    assert isinstance(Workloads.load("billing", {}).find("billing"), Billing)
    with pytest.raises(WorkloadsRefusedError, match="two workloads are called 'billing'"):
        Workloads.load("billing, shared.workloads.billing:Billing", {})


def test_a_workload_may_read_the_apps_settings():
    """The one that asks a service is told where it is."""
    setting = "shared.workloads.billing:Billing, docs.examples.enrichment:Enrichment,"
    workloads = Workloads.load(setting, {"ENRICHMENT_URL": "http://127.0.0.1:8000/accounts"})
    assert list(workloads) == ["billing", "enrichment"]
    with pytest.raises(SettingsError, match="ENRICHMENT_URL"):
        Workloads.load("docs.examples.enrichment:Enrichment", {})
    assert isinstance(workloads.find("enrichment"), Enrichment)


def test_an_unknown_name_says_which_there_are():
    """A person who misspelt it sees the right one."""
    with pytest.raises(UnknownWorkloadError, match="known: billing"):
        Workloads.load("shared.workloads.billing:Billing", {}).find("biling")


@pytest.mark.parametrize(
    "entry", ["biling", "missing.module:Billing", "shared.workloads.billing:Missing", ":", "..x:Y"]
)
def test_an_entry_that_loads_nothing_is_refused_by_name(entry):
    """A typing error is found at the start, and says what the setting should look like."""
    with pytest.raises(WorkloadsRefusedError, match="write module:Class"):
        Workloads.load(entry, {})


async def waits(*_):
    """Stand for an async method."""


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": "Bad Name"}, "does not fit"),
        ({"name": None}, "does not fit"),
        ({"map": None}, "it has no map"),
        ({"merge": waits}, "only map may be async"),
        ({"split": waits}, "only map may be async"),
        ({"split": 16}, "its split is not a function"),
        ({"partial": None}, "no type `partial`"),
        ({"transaction": dict}, "not a msgspec Struct"),
        ({"sums": ["units"]}, "must be a tuple"),
        ({"sums": ("units",) * (MOST_SUMS + 1)}, "at most"),
        ({"sums": ("x" * (LONGEST_SUM_NAME + 1),)}, "at most"),
        ({"sums": ("label",)}, "label in its `sums`"),
        ({"sums": ("amount",)}, "amount in its `sums`"),
        ({"sums": ("renamed",)}, "renamed in its `sums`"),
        ({"sums": ("missing",)}, "missing in its `sums`"),
    ],
    # A function's text differs from process to process, and tests that run side by side must agree on their names.
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_a_workload_that_lacks_something_is_refused_at_the_start(changes, problem):
    """What would fail at the first chunk fails before anything listens."""
    with pytest.raises(WorkloadsRefusedError, match=problem):
        Workloads([variant(**changes)])


def _list_items(workload, partial):
    return list(items_of(workload, partial))


@pytest.mark.parametrize(
    "exit_", [SystemExit("away"), KeyboardInterrupt(), CancelledError(), GeneratorExit()], ids=repr
)
def test_a_finish_or_a_merge_that_leaves_is_refused_as_any_failure_of_it(exit_):
    """It is the same for the same partials. So the job pauses with it, and no worker tries it ten times."""

    def leave(*_):
        raise exit_

    def leave_later(_partial):
        yield Line({})
        raise exit_

    kind, parts = type(exit_).__name__, (None, Outputs(None, "nightly", 1))
    calls = [
        ("finish", _list_items, variant(finish=staticmethod(leave)), 1),
        ("finish", _list_items, variant(finish=staticmethod(leave_later)), 1),
        ("split", split, variant(split=staticmethod(leave)), 1, 2),
        ("combine", Merger, *parts, variant(combine=staticmethod(leave))),
        ("merge", Merger.add, Merger(*parts, variant(merge=staticmethod(leave))), Raw(b"1")),
    ]
    with ThreadPoolExecutor(1) as pool:
        for name, call, *given in calls:
            error = pool.submit(call, *given).exception()
            assert isinstance(error, FinishRefusedError)
            assert f"'good' failed in its {name}: {kind}: {exit_};" in str(error)


def test_a_good_workload_is_taken_and_a_name_only_once():
    """Two workloads of one name would make it chance which one runs."""
    assert list(Workloads([variant()])) == ["good"]
    with pytest.raises(WorkloadsRefusedError, match="two workloads"):
        Workloads([variant(), variant()])


def test_the_largest_result_fits_its_kibibyte():
    """The longest job id with as many of the longest sums as a workload may have."""
    job, longest = "j" * 100, f"-{'9' * DIGITS_OF_SUM}.{'9' * PLACES}"
    sums = {f"{n}".ljust(LONGEST_SUM_NAME, "x"): longest for n in range(MOST_SUMS)}
    result = Result(
        job=job,
        chunk=10**6,
        revision=100,
        blob=f"{job}/100/{10**6}",
        hash="f" * 64,
        accepted=PortionMessage(items=100_000, sums=sums),
        rejected=PortionMessage(items=100_000, sums=sums),
        milliseconds=600_000,
        requests={"blob-read useful": 10, "blob-write useful": 10},
    )
    assert len(encode(result)) <= MOST_BYTES
    assert trim_result(result).requests == result.requests


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        ({"bank": "-100/s"}, "the limit bank is '-100/s', expected 1 to 1600 calls in a second or a minute"),
        ({"bank": "0/s"}, "expected 1 to 1600"),
        ({"bank": "1601/s"}, "expected 1 to 1600"),
        ({"bank": "100/h"}, "expected 1 to 1600"),
        ({"bank": 100}, "the limit bank is '100'"),
        ({"The Bank": "100/s"}, "a limit is called 'The Bank', expected at most 40 small letters"),
        ({1: "100/s"}, "a limit is called '1'"),
        ("100/s", "its `limits` is a str, expected a dict"),
    ],
)
def test_limits_that_are_none_stop_the_start(limits, found):
    """The error says how they are written."""
    with pytest.raises(WorkloadsRefusedError, match=found):
        Workloads([variant(limits=limits)])


def test_limits_count_calls_of_map_alone():
    """A call of `map_many` is one for a whole chunk. Without limits it is as before."""
    with pytest.raises(WorkloadsRefusedError, match="limits counts calls of map, so leave out one of the two"):
        Workloads([variant(limits={"bank": "100/s"}, map_many=lambda *_: [])])
    assert not Workloads([variant(limits={}, map_many=lambda *_: [])]).limits


def test_one_limit_of_two_workloads_has_one_rate():
    """Both count against it."""
    one, same = variant(limits={"bank": "100/s"}), variant(name="same", limits={"bank": "100/s"})
    assert {name: str(rate) for name, rate in Workloads([one, same]).limits.items()} == {"bank": "100/s"}
    with pytest.raises(
        WorkloadsRefusedError, match="the limit bank is 30/min in workload 'other', and 100/s in another"
    ):
        Workloads([one, variant(name="other", limits={"bank": "30/min"})])
