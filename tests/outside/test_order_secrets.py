"""Everything that everybody may send about orders of others, in one go: nobody learns or changes what is not theirs."""

from collections import Counter

import pytest

from tests.outside import order_campaign, order_checker, seat_checker
from tests.waiting import until

#: All of it together is one fixture; a busy machine takes longer than for a usual test.


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """Everybody around one stack."""
    with order_campaign.everybody(tmp_path_factory.mktemp("keys")) as started:
        yield started


@pytest.fixture(scope="module")
def record(campaign):
    """All that came of it."""
    campaign.open()
    return campaign.run()


def test_nobody_learns_or_changes_what_is_not_theirs(record):
    """By the independent checker, for each request and each message."""
    assert list(order_checker.breaches(record)) == []


def test_everybody_tried(record):
    """So many requests and messages, and no group of answers that must be alike has one alone."""
    assert len(record["asked"]) + len(record["dropped"]) >= 500
    groups = Counter(one["alike"] for one in record["asked"] if one["alike"])
    assert min(groups.values()) > 1


def test_seats_and_money_add_up_after_it(campaign, record):
    """As the checker of a sale has it."""
    books = seat_checker.Books(campaign.sent, record["told"])
    shown = {"pycon": {"seats": record["kept"]["the conference"][1]}}
    answers = {name: record["kept"][name][1] for name in record["born"]}
    assert list(seat_checker.breaches(books, answers, shown)) == []


def test_an_operator_is_told_of_many_guesses(campaign, record):
    """Whatever door they come by. A slow machine needs more than one burst for a hundred in a minute."""
    assert until(campaign.guess)
