"""host.json: defaults, ranges, overrides."""

import json
import logging
import os
from datetime import timedelta

import pytest
from functions_local_host.host_json import HostJsonError, load_host_json, parse_host_json


def parsed(extensions=None, settings=None, **root):
    """Parse a host.json of these parts."""
    return parse_host_json({"version": "2.0", "extensions": extensions or {}, **root}, settings or {})


def test_a_missing_host_json_gives_the_hosts_defaults(tmp_path):
    """Without a file every documented default holds."""
    options = load_host_json(tmp_path / "host.json", {})
    assert (options.queues.batch_size, options.queues.max_dequeue_count) == (16, 5)
    assert options.queues.new_batch_threshold == 8 * os.cpu_count()
    assert options.queues.max_polling_interval == timedelta(minutes=1)
    assert options.queues.visibility_timeout == timedelta(0)
    assert options.queues.message_encoding == "base64"
    assert options.bus.max_concurrent_calls == 16 * os.cpu_count()
    assert (options.bus.max_concurrent_sessions, options.bus.max_message_batch_size) == (8, 1000)
    assert options.function_timeout == timedelta(minutes=30)
    assert options.route_prefix == "api"


def test_the_batch_threshold_follows_the_batch_size():
    """Left out, newBatchThreshold is half the batch for each processor."""
    assert parsed({"queues": {"batchSize": 8}}).queues.new_batch_threshold == 4 * os.cpu_count()


@pytest.mark.parametrize(
    ("said", "environment", "seconds"),
    [
        (None, "Development", 2),
        ("00:01:00", "Development", 2),
        ("00:00:59", "Development", 59),
        ("00:00:05", "Development", 5),
        ("00:01:00", "Staging", 60),
    ],
)
def test_development_turns_exactly_one_minute_into_two_seconds(said, environment, seconds):
    """As the real host does, whether host.json says the minute or nothing; every other value stands."""
    extensions = {"queues": {"maxPollingInterval": said}} if said else None
    options = parsed(extensions, {"AZURE_FUNCTIONS_ENVIRONMENT": environment})
    assert options.queues.max_polling_interval == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("section", "name", "value", "reason"),
    [
        ("queues", "batchSize", 0, "1 to 32"),
        ("queues", "batchSize", 33, "1 to 32"),
        ("queues", "batchSize", "many", "a whole number"),
        ("queues", "newBatchThreshold", -1, "0 or more"),
        ("queues", "maxPollingInterval", "00:00:00.099", "0:00:00.100000 or more"),
        ("queues", "maxPollingInterval", "soon", "a time span"),
        ("queues", "maxDequeueCount", 0, "1 or more"),
        ("queues", "messageEncoding", "utf8", "base64 or none"),
        ("queues", "visibilityTimeout", "-00:00:01", "0:00:00 to"),
        ("serviceBus", "maxConcurrentCalls", 0, "1 or more"),
        ("serviceBus", "maxBatchWaitTime", "00:02:31", "to 0:02:30"),
        ("serviceBus", "transportType", "amqpWebSockets", "amqpTcp"),
        ("serviceBus", "autoCompleteMessages", "maybe", "true or false"),
    ],
)
def test_a_value_outside_the_hosts_range_is_refused_by_name(section, name, value, reason):
    """The error names the setting, what it is and what the host takes."""
    with pytest.raises(HostJsonError) as refused:
        parsed({section: {name: value}})
    assert f"extensions.{section}: {name} is {str(value)!r}" in str(refused.value)
    assert reason in str(refused.value)


@pytest.mark.parametrize("batch_size", [1, 32])
def test_the_ends_of_a_range_are_taken(batch_size):
    """Ranges include both ends."""
    assert parsed({"queues": {"batchSize": batch_size}}).queues.batch_size == batch_size


def test_all_problems_are_reported_together():
    """Two wrong values give two lines, so that one run shows both."""
    with pytest.raises(HostJsonError) as refused:
        parsed({"queues": {"batchSize": 99, "maxDequeueCount": 0}})
    assert len(str(refused.value).splitlines()) == 2


@pytest.mark.parametrize("version", [None, "1.0", 2])
def test_another_version_is_refused(version):
    """Only the text "2.0" is a version the host starts with."""
    with pytest.raises(HostJsonError, match=r"the host takes only '2\.0'"):
        parse_host_json({"version": version}, {})


def test_an_application_setting_overrides_host_json():
    """AzureFunctionsJobHost__… wins, in any case, and counts against the same range."""
    name = "AzureFunctionsJobHost__Extensions__queues__batchSize"
    assert parsed({"queues": {"batchSize": 8}}, {name: "4"}).queues.batch_size == 4
    assert parsed({"queues": {"batchSize": 8}}, {name.replace("__", ":"): "5"}).queues.batch_size == 5
    with pytest.raises(HostJsonError):
        parsed({}, {name: "40"})


def test_an_unknown_key_of_an_extension_is_a_warning():
    """A misspelt setting is told, not swallowed, and does not stop the host."""
    (warning,) = parsed({"queues": {"batchsize": 4, "btchSize": 4}}).warnings
    assert "extensions:queues:btchsize" in warning


def test_what_this_host_does_not_do_is_a_warning():
    """Dynamic concurrency and retry policies are not applied, and that is said."""
    options = parsed(concurrency={"dynamicConcurrencyEnabled": True}, retry={"strategy": "fixedDelay"})
    assert len(options.warnings) == 2


def test_function_timeout_can_be_unlimited():
    """-1 means no limit; below a second is refused."""
    assert parsed(functionTimeout="-1").function_timeout is None
    assert parsed(functionTimeout="00:00:01").function_timeout == timedelta(seconds=1)
    with pytest.raises(HostJsonError):
        parsed(functionTimeout="00:00:00.5")


def test_lock_renewal_can_be_unlimited_and_idle_time_follows_the_try_timeout():
    """The host's own spelling of infinite is known, and sessionIdleTimeout falls back to tryTimeout."""
    bus = parsed(
        {
            "serviceBus": {
                "maxAutoLockRenewalDuration": "-00:00:00.0010000",
                "clientRetryOptions": {"tryTimeout": "00:00:07"},
            }
        }
    ).bus
    assert bus.max_auto_lock_renewal_duration is None
    assert bus.session_idle_timeout == timedelta(seconds=7)


def test_singleton_leases_stay_within_what_a_blob_lease_can_be():
    """15 to 60 seconds."""
    assert parsed(singleton={"listenerLockPeriod": "00:00:15"}).singleton.listener_lock_period == timedelta(seconds=15)
    with pytest.raises(HostJsonError):
        parsed(singleton={"listenerLockPeriod": "00:00:14"})


def test_the_longest_log_category_decides():
    """Function.<name>.User falls back to Function, then to default."""
    options = parsed(logging={"logLevel": {"default": "Error", "Function": "Debug", "Function.a.User": "None"}})
    assert options.log_level("Function.a.User") > logging.CRITICAL
    assert options.log_level("Function.b.User") == logging.DEBUG
    assert options.log_level("Host") == logging.ERROR


def test_what_is_no_json_is_named(tmp_path):
    """A file with a comma too many is one clear line."""
    path = tmp_path / "host.json"
    path.write_text('{"version": "2.0",}')
    with pytest.raises(HostJsonError, match=r"host\.json is not JSON: .*line 1"):
        load_host_json(path, {})
    path.write_text("\ufeff" + json.dumps({"version": "2.0"}), encoding="utf-8")
    assert load_host_json(path, {}).route_prefix == "api"
