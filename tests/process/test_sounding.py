"""The first chunk of a job says early that the job's merged partial cannot fit."""

import random

import msgspec
import pytest
from hypothesis import given, strategies as st

from shared.messages import encode
from shared.payload import Limits
from shared.pipeline.outputs import expect_merged, run_in_parts
from shared.workloads import by_key
from shared.workloads.billing import Billing


def lines(count, accounts):
    """Return lines of usage over accounts that come alike often, in a mixed order."""
    chance = random.Random(7)
    return [b'{"account":"a%07d","plan":"basic","quantity":"2.5"}' % chance.randrange(accounts) for _ in range(count)]


def merged_size(count, accounts):
    """Return the bytes of the merged partial of so many lines."""
    return len(msgspec.json.encode(run_in_parts(Billing(), [lines(count, accounts)], 1, Limits()).partial))


@pytest.mark.parametrize("accounts", [50, 2_000, 20_000, 10**7])
def test_the_expected_size_is_about_the_true_one(accounts):
    """A tenth of the job says how much its accounts repeat each other."""
    ran = run_in_parts(Billing(), [lines(4_000, accounts)], 1, Limits(), sound=40_000)
    true = merged_size(40_000, accounts)
    assert 0.8 * true <= ran.expected <= 1.25 * true


def test_what_a_chunk_comes_to_does_not_depend_on_its_sounding():
    """Each value of `map` is combined once, and halves are merged as parts are."""
    parts = [lines(11, 4), lines(7, 3)]
    sounded = run_in_parts(Billing(), parts, 1, Limits(), sound=100)
    assert sounded == run_in_parts(Billing(), parts, 1, Limits())
    assert sounded.expected > 0
    assert run_in_parts(Billing(), [lines(1, 1)], 1, Limits(), sound=100).expected == 0


@given(st.integers(1, 10**6), st.integers(1, 10**7), st.integers(2, 10**5), st.integers(1, 1000))
def test_more_transactions_never_have_a_smaller_partial(half, whole, items, times):
    """Nor one that is larger than if none repeated another; any two sizes have an answer."""
    found = expect_merged(half, whole, items, items * times)
    assert whole - 1 <= found <= whole * times + 1
    assert found <= expect_merged(half, whole, items, items * times * 2) + 1


@pytest.fixture
def sounding(world):
    """A world whose chunk is the first of a job, and in which nothing fits."""
    world.message = msgspec.structs.replace(world.message, sound=1000)
    world.body, world.merged_most = encode(world.message), 1
    return world


def test_a_result_says_what_cannot_fit(sounding):
    """In its message and in its stored form, so that another delivery says it again."""
    sounding.deliver()
    (message,) = sounding.sent
    assert message.expected >= message.partial
    assert sounding.told[0].result.expected == message.expected
    assert message.partial == len(bytes(sounding.told[0].result.partial))


def test_a_workload_with_split_is_not_sounded(sounding):
    """Whatever its size, cuts bound it."""
    sounding.workload.split = by_key
    sounding.deliver()
    assert sounding.sent[0].expected is None


def test_what_fits_is_not_spoken_of(sounding):
    """Its result has the bytes of any other."""
    sounding.merged_most = 1024 * 1024
    sounding.deliver()
    assert sounding.sent[0].expected is None
    assert b"expected" not in encode(sounding.sent[0])
