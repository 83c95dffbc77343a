"""The capacity model: more instances help up to the lowest ceiling, each ceiling can be the lowest, and nothing is free."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from shared.ledger import MERGED_MOST, MOST_ROWS
from shared.usage import load as load_prices
from tools.planning.azure_limits import LIMITS
from tools.planning.capacity import STEPS, ceilings, finish_seconds, publish_seconds, stages
from tools.planning.capacity_bill import bury, count_requests, memory, price_load
from tools.planning.load import Load, Machines, account_json
from tools.planning.measured import MEANINGS, Constants, Shares, constants

#: Round figures: the model's own are measured anew from time to time.
FOUND = Constants(
    machine="a test",
    publisher=Shares(0.1, 0.0, 2e-6),
    app=Shares(0.3, 0.01, 8e-6),
    host=Shares(0.1, 0.004, 0.0),
    stand_ins=Shares(0.2, 0.01, 1e-6),
    workload=2e-6,
    start=0.5,
    put=0.002,
    finish_job=0.2,
    finish_chunk=0.003,
    merge=1e-6,
    account_bytes=9,
    totals=0.01,
    retire_job=0.1,
    retire_chunk=0.001,
    tick=0.1,
    app_bytes=80 * 2**20,
    publisher_bytes=75 * 2**20,
)
MANY = Machines(tasks=2000, most=1000, queues=100)
TEN = Load(transactions=10_000_000)
loads = st.builds(
    Load,
    transactions=st.integers(1, 10_000_000),
    jobs=st.integers(1, 1),
    accounts=st.integers(1, 1_000_000),
    chunk_items=st.one_of(st.none(), st.integers(1, 100_000)),
)


@given(loads, st.sampled_from([MANY, Machines(), Machines(most=3)]))
def test_more_instances_are_never_slower_and_stop_helping_at_the_lowest_ceiling(load, machines):
    """The work shrinks up to the ceiling; publishing is the same for any number."""
    found = [stages(load, machines, FOUND, one) for one in STEPS]
    assert [one.total for one in found] == sorted((one.total for one in found), reverse=True)
    assert len({one.publish for one in found}) == 1
    lowest = min(one.rate for one in ceilings(load, machines, FOUND))
    assert all(one.first.rate <= lowest for one in found)


def test_twice_the_instances_do_the_work_in_half_the_time():
    """As long as nothing else binds."""
    one, two = (stages(TEN, MANY, FOUND, number) for number in (1, 2))
    assert one.first.name == "processor of each instance"
    assert one.work == pytest.approx(2 * two.work)
    assert one.total == one.publish + one.start + one.work + one.finish


@pytest.mark.parametrize(
    ("name", "load", "machines", "quick"),
    [
        ("publisher, one process per job", TEN, MANY, {}),
        ("finish", replace(TEN, accounts=100_000), MANY, {"publisher"}),
        ("tasks that the rules allow", replace(TEN, jobs=100, cpu=50e-6), Machines(), {"publisher", "put"}),
        ("maximum instance count", replace(TEN, jobs=100, cpu=50e-6), Machines(tasks=2000, most=2), {}),
        ("dispatch, one process per job", TEN, MANY, {"publisher", "finish", "a slow put"}),
        ("bus, tier Standard", replace(TEN, jobs=100, chunk_items=1_000), MANY, {"publisher", "finish"}),
        ("processors of this machine", TEN, replace(MANY, shared_cores=2.0), {}),
    ],
)
def test_each_scarce_resource_comes_first(name, load, machines, quick):
    """And it binds; `quick` names what takes no time here."""
    found = FOUND
    if "publisher" in quick:
        found = structs.replace(found, publisher=Shares(0.0, 0.0, 1e-12))
    if "finish" in quick:
        found = structs.replace(found, finish_job=1e-9, finish_chunk=0.0, merge=0.0, totals=0.0)
    if "a slow put" in quick:
        found = structs.replace(found, put=0.01)
    every = ceilings(load, machines, found)
    assert every[0].name == name, [(one.name, round(one.rate)) for one in every[:4]]
    assert stages(load, machines, found, machines.most).first.rate == every[0].rate


def test_limits_of_azure_are_rates_of_their_resource():
    """A queue's messages count twice, rows and pointers are of one partition, requests are those that are counted."""
    load = Load(transactions=10_000_000, jobs=10_000, accounts=100)
    found = {one.name: one.rate / load.chunk for one in ceilings(load, replace(MANY, queues=3), FOUND)}
    assert found["3 work queues"] == pytest.approx(3_000)
    assert found["bus, tier Standard"] == pytest.approx(1_000 / 3)
    assert found["rows of a job, one partition each"] == pytest.approx(2_000 * load.jobs)
    assert found["pointers to jobs, one partition"] == pytest.approx(400 * load.job_chunks)
    assert found["storage account"] == pytest.approx(20_000 / (count_requests(load, FOUND).storage / load.chunks))
    name = "totals of a job, one partition per shard"
    assert found[name] == pytest.approx(2_000 * load.chunks / load.accounts)
    large = replace(TEN, accounts=1_000_000)
    sharded = {one.name: one.rate / large.chunk for one in ceilings(large, MANY, FOUND)}
    assert sharded[name] == pytest.approx(16 * 2_000 * large.chunks / large.accounts)


def test_a_ceiling_says_how_many_instances_reach_it():
    """Fewer do less than it lets through, that many do as much."""
    for one in ceilings(TEN, MANY, FOUND):
        if one.instances > 1:
            processor = 1 / TEN.chunk_cpu(FOUND) * TEN.chunk
            assert (one.instances - 1) * processor < one.rate * 1.000001 <= one.instances * processor * 1.000002


def test_what_a_workload_computes_replaces_what_billing_does():
    """In the worker, and nowhere else."""
    slow = replace(TEN, cpu=FOUND.workload + 10e-6)
    assert slow.chunk_cpu(FOUND) - TEN.chunk_cpu(FOUND) == pytest.approx(slow.chunk * 10e-6)
    assert publish_seconds(slow, FOUND) == publish_seconds(TEN, FOUND)
    assert finish_seconds(slow, MANY, FOUND, 1) == finish_seconds(TEN, MANY, FOUND, 1)


def test_a_workload_that_waits_is_bound_by_its_tasks_and_has_smaller_chunks():
    """Its chunks take 15 seconds at most, and each occupies a task."""
    waits = replace(TEN, wall=0.006)
    assert waits.chunk == 2_000
    found = stages(waits, Machines(tasks=100), FOUND, 25)
    assert found.first.name == "tasks that the rules allow"
    assert found.first.rate == pytest.approx(100 / 0.006)
    assert stages(waits, MANY, FOUND, 2).first.rate == pytest.approx(2 * 16 / 0.006)


def test_the_built_in_rules_allow_tasks_by_the_chunks_that_wait():
    """So large chunks, of which a job has few, let fewer instances work."""
    assert [Machines().working(chunks) for chunks in (1, 50, 125, 1_250)] == [3, 3, 13, 25]
    assert (Machines(tasks=401).working(1), Machines(most=2).working(125)) == (100, 2)


def test_totals_take_as_long_as_their_partition_needs():
    """Two thousand rows a second, or a group after the other, whichever is slower."""
    slow, quick = replace(MANY, round_trip=0.1), replace(MANY, round_trip=0.0)
    many = replace(TEN, accounts=99_000, has_split=False)
    none = structs.replace(FOUND, totals=0.0)
    extra = finish_seconds(many, slow, FOUND, 1) - finish_seconds(many, quick, none, 1)
    assert extra == pytest.approx(99_000 / MOST_ROWS * 0.11 - 99_000 / 2000)
    local = replace(quick, shared_cores=2.0)
    assert finish_seconds(many, quick, none, 1) - finish_seconds(many, local, none, 1) == pytest.approx(99_000 / 2000)


@given(loads, st.integers(2, 50))
def test_requests_money_and_retention_are_linear_in_the_jobs(load, times):
    """As many jobs more, as much more of each."""
    more = replace(load, transactions=load.transactions * times, jobs=times)
    one, all_ = count_requests(load, FOUND), count_requests(more, FOUND)
    assert (all_.storage, all_.bus, all_.buried) == (one.storage * times, one.bus * times, one.buried * times)
    prices = load_prices()
    assert float(price_load(more, MANY, FOUND, prices).total) == pytest.approx(
        float(price_load(load, MANY, FOUND, prices).total) * times
    )
    assert bury(more, MANY, FOUND).seconds == pytest.approx(bury(load, MANY, FOUND).seconds * times)


def test_a_day_of_small_jobs_leaves_more_than_its_ticks_bury():
    """The bound is the time of a day's ticks."""
    day = Load(transactions=100_000_000, jobs=10)
    assert bury(day, Machines(), FOUND).keeps_up
    small = bury(replace(day, jobs=1_000_000), Machines(), FOUND)
    assert (small.keeps_up, small.ticks > 1440) == (False, True)
    assert 40 < small.longest < 45
    most = int(small.most_a_day(100_000_000))
    assert bury(Load(transactions=most, jobs=most // 100), Machines(), FOUND).keeps_up


def test_memory_of_a_stage_does_not_grow_beyond_what_the_code_lends():
    """However large the job is."""
    small, large = (memory(Load(transactions=items), Machines(), FOUND) for items in (10_000, 10_000_000))
    assert all(one.most <= other.most for one, other in zip(small, large, strict=True))
    assert max(one.most for one in large) <= FOUND.app_bytes + 224 * 2**20


def test_every_constant_is_explained_and_positive():
    """None is missing on the page, and none was measured as nothing."""
    assert {*MEANINGS, "machine"} == set(Constants.__struct_fields__)
    plain = msgspec.to_builtins(constants())
    values = [value for one in plain.values() for value in (one.values() if isinstance(one, dict) else [one])]
    assert all(value >= 0 for value in values if not isinstance(value, str))
    assert constants().app.transaction > constants().workload > 0
    assert min(constants().put, constants().merge, constants().totals, constants().retire_job) > 0


def test_every_limit_of_azure_names_its_source():
    """A number without one is a guess."""
    assert all(one.most > 0 and len(one.source) > 10 for one in LIMITS)


def test_a_job_of_many_chunks_is_merged_in_segments_by_several_instances():
    """By their number or by their bytes; each segment costs some requests."""
    load = replace(TEN, has_split=False)
    assert [replace(load, accounts=one).segments(FOUND) for one in (1, 500, 8_000)] == [4, 4, 54]
    assert Load(transactions=1_000_000).segments(FOUND) == 1
    alone, shared = (finish_seconds(load, replace(MANY, round_trip=0.0), FOUND, one) for one in (1, 4))
    merged = load.job_chunks * (FOUND.finish_chunk + 500 * FOUND.merge)
    assert alone - shared == pytest.approx(merged * 3 / 4)
    many = replace(load, accounts=8_000)
    rows = -(-8_000 // MOST_ROWS) - -(-500 // MOST_ROWS)
    assert count_requests(many, FOUND).storage - count_requests(load, FOUND).storage == 10 * (54 - 4) + rows


def test_a_job_of_large_partials_is_published_span_after_span():
    """Beyond 256 MiB of partials; ten million accounts take two spans a shard, and few requests more than their rows."""
    few, many = (Load(transactions=10_000_000, accounts=one) for one in (500, 10_000_000))
    assert (few.spans(FOUND), many.spans(FOUND), many.shards(FOUND)) == (0, 2, 16)
    assert replace(many, has_split=False).spans(FOUND) == 0
    asked, rows = count_requests(many, FOUND).storage, 16 * -(-10_000_000 // 16 // MOST_ROWS)
    assert rows < asked < 1.07 * rows
    (held,) = (one.most for one in memory(many, Machines(), FOUND) if one.stage == "finish")
    assert held < 256 * 2**20


def test_a_load_that_one_process_cannot_merge_is_known_beforehand():
    """By the bound of the code; with `split` it has none."""
    load = Load(transactions=10_000_000, accounts=1_000_000)
    fits = MERGED_MOST // account_json()
    assert not load.is_too_large
    assert replace(load, has_split=False).is_too_large
    assert not replace(load, accounts=fits, has_split=False).is_too_large
    assert replace(load, accounts=fits + 1, has_split=False).is_too_large


def test_totals_in_shards_are_written_side_by_side():
    """A million rows in one partition take 500 s on Azure; in sixteen a sixteenth of that, on as many instances."""
    load = Load(transactions=10_000_000, accounts=1_000_000, chunk_items=8_000)
    alone = finish_seconds(replace(load, has_split=False), MANY, FOUND, 16)
    shared = finish_seconds(load, MANY, FOUND, 16)
    assert alone > 500
    assert 32 < shared < alone / 12
    # One process writes them one after the other; a job of one segment has no shards.
    assert finish_seconds(load, MANY, FOUND, 1) > alone * 0.99
    small = Load(transactions=10_000, accounts=1_000_000)
    assert small.shards(FOUND) == 1
    assert finish_seconds(small, MANY, FOUND, 1) == finish_seconds(replace(small, has_split=False), MANY, FOUND, 16)


@pytest.mark.parametrize(("accounts", "shards"), [(500, 1), (2_000, 8), (5_000, 16), (100_000, 16)])
def test_a_job_has_as_many_shards_as_its_accounts_are_worth(accounts, shards):
    """By the bytes of its merged segments, as the app chooses."""
    load = Load(transactions=10_000_000, accounts=accounts, chunk_items=8_000)
    assert load.segments(FOUND) > 1
    assert load.shards(FOUND) == shards
    assert replace(load, has_split=False).shards(FOUND) == 1


def test_instances_without_a_slot_do_not_finish_jobs_either():
    """A finish is a message on the work queues: it needs a task as well."""
    load = Load(transactions=30_000, jobs=30)
    few, many = (stages(load, Machines(), FOUND, one) for one in (3, 100))
    assert (few.finish, few.work) == (many.finish, many.work)
    assert stages(load, MANY, FOUND, 100).finish < few.finish


def test_work_goes_on_beside_the_publishing_of_stretches():
    """From the third stretch on. The same lines in whole payloads wait for the last one."""
    grown, first = stages(TEN, MANY, FOUND, 10), publish_seconds(TEN, FOUND) * 2 / TEN.stretches
    assert TEN.stretches == 26
    assert grown.publish == pytest.approx(first)
    assert grown.work >= publish_seconds(TEN, FOUND) - first
    whole = replace(TEN, transactions=700_000)
    assert whole.stretches == 0
    assert stages(whole, MANY, FOUND, 10).publish == publish_seconds(whole, FOUND)


def test_all_workers_cut_a_raw_file():
    """Its publisher only sends a message, each worker takes longer, and each range costs requests."""
    raw = replace(TEN, is_raw=True)
    assert publish_seconds(raw, FOUND) == FOUND.publisher.job
    assert raw.chunk_cpu(FOUND) - TEN.chunk_cpu(FOUND) == pytest.approx(FOUND.publisher.transaction * TEN.chunk)
    more = count_requests(raw, FOUND).storage - count_requests(TEN, FOUND).storage
    assert more > TEN.stretches * 15
    small = replace(raw, transactions=700_000)
    assert not small.is_ranged
    assert publish_seconds(small, FOUND) == publish_seconds(replace(small, is_raw=False), FOUND)
