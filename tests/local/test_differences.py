"""Rows of docs/appendix/stand-ins.md that say where broker and host differ from Azure, each with the test that would turn red if
the difference went away. `UNHELD` has those that no test can hold, with the reason.
"""

import ast
import re

import pytest

from tools.local.paths import ROOT

BUS, HOST = "tools/packages/servicebus-local/tests/broker_tests", "tools/packages/functions-local-host/tests/host_tests"
LISTENERS = f"{HOST}/listeners"
#: The first cell of the row: the file, the test.
HELD = {
    "transport": (f"{BUS}/test_launcher.py", "test_the_broker_listens_on_the_loopback_interface_only"),
    "after a restart": (f"{BUS}/test_recovery.py", "test_clients_find_a_broker_that_came_back_empty"),
    "HTTP administration, `ServiceBusAdministrationClient`": (
        f"{BUS}/test_administration.py",
        "test_a_change_of_what_is_there_is_refused_by_name",
    ),
    "receivers that compete": (f"{BUS}/test_queue_settlement.py", "test_competing_receivers_share_the_messages"),
    "connection lost with a session held": (f"{BUS}/test_recovery.py", "test_a_broken_connection_frees_its_session"),
    "batches": (f"{BUS}/unit/test_parcel.py", "test_a_batch_is_told_from_a_body"),
    "SQL filters": (f"{BUS}/unit/test_sql.py", "test_anything_else_is_refused_by_name"),
    "forwarded dead letters": (
        f"{BUS}/test_forwarding.py",
        "test_a_place_that_cannot_take_dead_letters_is_refused_at_the_start",
    ),
    "rule actions, forwarding of live messages, auto-delete, partitioning": (
        f"{BUS}/unit/test_entities.py",
        "test_a_property_that_the_broker_does_not_do_is_refused_by_name",
    ),
    "host and worker": (f"{HOST}/test_lifecycle.py", "test_a_timeout_ends_the_whole_worker_and_a_new_one_starts"),
    "triggers": (f"{HOST}/test_indexing.py", "test_a_binding_of_a_type_this_host_has_not_is_refused_by_name"),
    "input bindings, deferred bindings, settlement client": (
        f"{HOST}/test_indexing.py",
        "test_a_binding_of_a_type_this_host_has_not_is_refused_by_name",
    ),
    "retry policies (`@app.retry`, host.json `retry`)": (
        f"{HOST}/test_indexing.py",
        "test_a_retry_policy_is_a_warning",
    ),
    "dynamic concurrency": (f"{HOST}/test_host_json.py", "test_what_this_host_does_not_do_is_a_warning"),
    "`connection` as identity (`X__…`)": (
        f"{HOST}/test_local_settings.py",
        "test_an_identity_is_refused_with_the_way_out",
    ),
    "unknown keys in `extensions.queues` / `serviceBus`": (
        f"{HOST}/test_host_json.py",
        "test_an_unknown_key_of_an_extension_is_a_warning",
    ),
    "route templates": (f"{HOST}/test_routes.py", "test_a_template_beyond_this_host_is_refused"),
    "HTTP keys": (f"{HOST}/test_routes.py", "test_keys_are_made_once_and_only_their_owner_reads_them"),
    "a signature the worker refuses": (
        f"{HOST}/test_indexing.py",
        "test_a_signature_that_does_not_match_fails_the_whole_app",
    ),
    "a malformed connection string": (
        f"{HOST}/test_lifecycle.py",
        "test_a_connection_string_that_is_none_is_named_and_not_shown",
    ),
    "runs by hand": (f"{HOST}/test_runs_by_hand.py", "test_a_message_function_receives_the_input_as_its_body"),
    "messages that arrive while a stop is under way": (
        f"{LISTENERS}/test_queue_listener.py",
        "test_messages_that_arrive_during_a_stop_are_given_back",
    ),
    "lost connections": (f"{LISTENERS}/test_bus_waits.py", "test_reconnections_wait_longer_up_to_half_a_minute"),
    "bodies that are AMQP values or sequences": (
        f"{LISTENERS}/test_message_datums.py",
        "test_a_body_that_is_a_value_is_refused_by_name",
    ),
    "JSON bodies and outputs": (f"{LISTENERS}/test_outputs.py", "test_text_that_only_looks_like_json_fails_the_output"),
    "who may connect": (f"{BUS}/test_differences.py", "test_without_a_key_any_token_will_do_and_none_too"),
    "the same with `--sas-key KEY`": (f"{BUS}/test_secure.py", "test_a_link_without_a_token_is_refused"),
    "rights: `--sas-policies FILE`": (f"{BUS}/test_rights.py", "test_a_message_is_scheduled_with_both_rights"),
    "counts of an entity": (f"{BUS}/test_administration.py", "test_counts_say_what_messages_wait_for"),
    "connections": (f"{BUS}/test_recovery.py", "test_many_connections_are_served_at_once"),
    "throttling": (f"{BUS}/test_throttling.py", "test_a_batch_passes_whole_and_receiving_waits"),
    "quotas on entity size": (f"{BUS}/unit/test_entities.py", "test_a_quota_on_size_is_kept"),
    "largest message or batch": (f"{BUS}/test_refusals.py", "test_too_large_a_message_is_refused_by_the_broker_too"),
    "lock": (f"{BUS}/test_queue_settlement.py", "test_an_unsettled_message_comes_back_when_its_lock_ends"),
    "max delivery count, time to live": (
        f"{BUS}/unit/test_emulator_config.py",
        "test_what_the_emulator_cannot_do_is_clamped",
    ),
    "delivery count": (
        f"{BUS}/unit/test_message_queue.py",
        "test_released_messages_are_not_counted_and_abandoned_ones_are",
    ),
    "connection lost with messages locked": (
        f"{BUS}/test_recovery.py",
        "test_a_message_is_settled_after_its_link_broke",
    ),
    "session lock ran out": (f"{BUS}/test_sessions.py", "test_an_ended_session_lock_closes_the_link"),
    "waiting for the next session": (f"{BUS}/test_differences.py", "test_the_longest_wait_for_a_session_is_a_minute"),
    "duplicate detection": (f"{BUS}/test_differences.py", "test_a_repeat_that_is_scheduled_gets_number_0"),
    "scheduled messages": (f"{BUS}/unit/test_intake.py", "test_scheduled_messages_come_by_time_and_get_new_numbers"),
    "sequence numbers": (f"{BUS}/test_differences.py", "test_numbers_count_from_one_and_a_dead_message_keeps_its_own"),
    "expired messages": (f"{BUS}/unit/test_message_queue.py", "test_a_locked_message_expires_when_it_comes_back"),
    "message without session id on a topic with a session subscription": (
        f"{BUS}/test_topics_and_filters.py",
        "test_a_message_without_a_session_is_dead_lettered_by_a_session_subscription",
    ),
    "message id that the sender left out": (
        f"{BUS}/unit/test_parcel.py",
        "test_a_message_without_an_id_gets_one_beside_what_it_has",
    ),
    "deferred messages": (f"{BUS}/test_deferred.py", "test_a_deferred_message_comes_by_its_number_only"),
    "session that receives and deletes": (
        f"{BUS}/unit/test_sessions_core.py",
        "test_the_lock_of_who_receives_and_deletes_does_not_end_by_itself",
    ),
    "`$Transfer/$DeadLetterQueue`": (f"{BUS}/test_differences.py", "test_no_letter_waits_to_be_forwarded"),
    "listing sessions": (f"{BUS}/test_deferred.py", "test_sessions_are_listed_by_the_time_when_their_state_was_kept"),
    "correlation filters": (f"{BUS}/unit/test_filters.py", "test_a_filter_on_a_flag_passes_no_number"),
    "rule manager": (f"{BUS}/test_rules.py", "test_what_cannot_be_added_or_removed_changes_nothing"),
    "worker count": (f"{HOST}/test_differences.py", "test_the_number_of_instances_is_the_option_s"),
    "scaling": (f"{HOST}/test_differences.py", "test_the_number_of_instances_is_the_option_s"),
    "`ConnectionStrings` of local.settings.json, encrypted settings, Key Vault references": (
        f"{HOST}/test_differences.py",
        "test_connection_strings_and_references_are_no_settings",
    ),
    "host.json `extensions.http`": (f"{HOST}/test_differences.py", "test_only_the_route_prefix_of_http_is_read"),
    "host.json `logging`": (f"{HOST}/test_differences.py", "test_logs_go_by_log_level_alone"),
    "host.json, `local.settings.json`, code changes": (
        f"{HOST}/test_differences.py",
        "test_changed_code_and_settings_wait_for_a_restart",
    ),
    "`serviceBus.transportType` amqpWebSockets, cross-entity transactions": (
        f"{HOST}/test_differences.py",
        "test_transactions_are_refused_at_the_start",
    ),
    "time zones": (f"{HOST}/test_differences.py", "test_a_timer_knows_no_zone_but_utc"),
    "primary host lease": (f"{HOST}/test_differences.py", "test_the_primary_lease_is_held_and_decides_nothing"),
    "host id": (f"{HOST}/test_differences.py", "test_a_host_is_called_by_its_setting_or_its_folder"),
    "`trace_context` of an invocation": (
        f"{HOST}/test_http_host.py",
        "test_a_trace_goes_on_where_the_caller_has_one_and_begins_anew_otherwise",
    ),
    "text of log lines": (f"{HOST}/test_http_host.py", "test_user_log_lines_name_function_and_invocation"),
    "functions in error": (
        f"{HOST}/test_lifecycle.py",
        "test_a_function_in_error_does_not_keep_the_others_from_running",
    ),
    "state of the status request": (f"{HOST}/test_differences.py", "test_the_status_is_that_of_all_instances"),
    "storage out of reach (no reply at all)": (
        f"{LISTENERS}/test_differences.py",
        "test_a_poll_goes_on_where_storage_gives_no_reply",
    ),
    "shortest wait between failing renewals": (
        f"{LISTENERS}/test_queue_backoff.py",
        "test_a_renewal_always_comes_before_the_lease_ends",
    ),
    "a lease or receipt that is lost": (f"{LISTENERS}/test_differences.py", "test_a_lost_message_is_not_renewed_again"),
    "error while a message is settled": (
        f"{LISTENERS}/test_differences.py",
        "test_a_failing_settlement_is_logged_and_the_listener_goes_on",
    ),
    "Service Bus receive": (f"{LISTENERS}/test_differences.py", "test_a_receive_lasts_a_second_at_most"),
    "Service Bus receive, single dispatch": (
        f"{LISTENERS}/test_differences.py",
        "test_messages_are_received_one_after_another",
    ),
    "wait for a session": (f"{LISTENERS}/test_bus_listener.py", "test_a_stop_lets_go_of_waiting_for_sessions"),
    "`maxConcurrentCallsPerSession` above 1": (
        f"{LISTENERS}/test_differences.py",
        "test_a_session_runs_one_message_whatever_host_json_says",
    ),
    "prefetch with sessions": (
        f"{LISTENERS}/test_differences.py",
        "test_a_message_held_ahead_comes_before_an_abandoned_one",
    ),
    "`MessageReceiver`, `MessageActions`, `Client` and the like in metadata, `sys`": (
        f"{LISTENERS}/test_differences.py",
        "test_clients_are_no_metadata",
    ),
    "numbers in re-written JSON": (f"{LISTENERS}/test_differences.py", "test_large_numbers_are_written_as_python_does"),
    "seven digits of a second": (f"{LISTENERS}/test_differences.py", "test_a_time_has_six_digits_of_its_second"),
    "output to Service Bus": (f"{LISTENERS}/test_differences.py", "test_a_bus_output_sends_its_messages_one_by_one"),
}
#: Rows that no test holds, and why not.
UNHELD = {
    "connections of a listener": "a number of sockets that nothing depends on, and the SDK's to choose",
    "batch gap": "a time of the SDK's own, and a test of it would fail on a busy machine",
}
#: The header of each table whose rows are differences.
TABLES = (
    "| behaviour | Service Bus (Standard) |",
    "| matter | real host | this host |",
    "| matter | real host | here |",
)


def _page():
    return (ROOT / "docs" / "appendix" / "stand-ins.md").read_text()


def _rows(header):
    (table,) = re.findall(re.escape(header) + r".*?\n\n", _page(), re.DOTALL)
    return re.findall(r"^\| (.+?) \|", table, re.MULTILINE)[1:]


@pytest.mark.parametrize("header", TABLES)
def test_each_row_of_the_page_has_its_test_or_a_reason(header):
    """A row more needs a test more."""
    rows = _rows(header)
    assert len(rows) > 10
    assert not [row for row in rows if row not in HELD and row not in UNHELD]


def test_nothing_is_held_and_unheld():
    """A row that has a test needs no reason, and every reason has its row."""
    assert not set(HELD) & set(UNHELD)
    assert set(UNHELD) <= {row for header in TABLES for row in _rows(header)}


@pytest.mark.parametrize("row", HELD)
def test_a_difference_of_the_page_is_held(row):
    """The row is on the page, and its test is there. A difference that is gone leaves both."""
    assert row in {one for header in TABLES for one in _rows(header)}
    file, name = HELD[row]
    tests = [node.name for node in ast.walk(ast.parse((ROOT / file).read_text())) if hasattr(node, "name")]
    assert name in tests
