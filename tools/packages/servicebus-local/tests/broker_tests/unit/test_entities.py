"""The file of entities: read, written, and refused where it says nothing that a broker can serve."""

import copy
import json
from datetime import timedelta
from pathlib import Path

import pytest
from broker_tests.topology import bus
from servicebus_local.entities import DeliveryRules, duration, parse, read
from servicebus_local.entities_file import document

ENTITIES = Path(__file__).resolve().parents[6] / "infra" / "entities.json"


def test_a_namespace_that_is_written_is_read_again():
    """Queues, topics, filters of both kinds, sessions, windows and lives: each field returns."""
    assert parse(document(bus())["bus"]) == bus()


def test_the_project_s_file_says_no_more_than_is_read():
    """A property that the broker left out would be one that Azure honours and the broker does not."""
    given = json.loads(ENTITIES.read_text())["bus"]
    assert document(read(ENTITIES)) == {"bus": given}


def test_a_part_of_the_file_stands_behind_the_rest():
    """Its subscriptions and rules name their parents by places that count from the file's first."""
    whole, base = read(ENTITIES, ["registration"]), read(ENTITIES)
    assert whole.queues[: len(base.queues)] == base.queues
    added = {one.name: [each.name for each in one.subscriptions] for one in whole.topics[len(base.topics) :]}
    assert added == {"order-events": ["orders"], "seats-events": ["processes", "conferences"]}
    (processes,) = (each for one in whole.topics for each in one.subscriptions if each.name == "processes")
    assert [dict(one.properties) for one in processes.filters] == [
        {"seats_reserved": True},
        {"reservation_refused": True},
    ]


@pytest.mark.parametrize(
    ("text", "span"),
    [("PT5M", timedelta(minutes=5)), ("P1DT2H", timedelta(hours=26)), ("PT1M30S", timedelta(seconds=90))],
)
def test_durations_are_read(text, span):
    """As Azure Resource Manager writes them."""
    assert duration(text) == span


@pytest.mark.parametrize("text", ["", "P", "PT", "5M", "PT1.5S", "P1Y"])
def test_any_other_duration_is_refused(text):
    """None of them is read as nothing."""
    with pytest.raises(ValueError, match="is no duration such as"):
        duration(text)


@pytest.mark.parametrize("kind", ["queues", "subscriptions"])
def test_a_property_that_the_broker_does_not_do_is_refused_by_name(kind):
    """Its messages would stay where Azure forwards them."""
    given = copy.deepcopy(document(bus())["bus"])
    given[kind][0]["properties"]["forwardTo"] = "parked"
    with pytest.raises(ValueError, match="does not do 'forwardTo'"):
        parse(given)


def test_a_kind_of_filter_that_nobody_knows_is_refused():
    """It would pass everything."""
    given = copy.deepcopy(document(bus())["bus"])
    given["rules"][0]["properties"]["filterType"] = "TrueFilter"
    with pytest.raises(ValueError, match="'TrueFilter', expected SqlFilter or CorrelationFilter"):
        parse(given)


@pytest.mark.parametrize(
    "rules", [{"lock": timedelta(seconds=4)}, {"lock": timedelta(minutes=6)}, {"max_delivery_count": 2001}]
)
def test_rules_beyond_the_service_s_limits_are_refused(rules):
    """Azure would refuse the entity."""
    with pytest.raises(ValueError, match="is outside of"):
        DeliveryRules(**rules)


def test_a_quota_on_size_is_kept():
    """Azure refuses messages beyond it; here it is what the administration reports."""
    given = copy.deepcopy(document(bus())["bus"])
    given["queues"][0]["properties"]["maxSizeInMegabytes"] = 2048
    assert (parse(given).queues[0].megabytes, document(parse(given))["bus"]) == (2048, given)
