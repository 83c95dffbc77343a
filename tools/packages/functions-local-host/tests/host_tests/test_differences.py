"""Where this host differs from Azure's, as docs/appendix/stand-ins.md lists it, and no other test holds it."""

import json
from datetime import datetime

import pytest
from azure.storage.blob import BlobServiceClient
from functions_local_host.host_json import HostJsonError
from functions_local_host.listeners import host_id
from functions_local_host.local_settings import load_settings
from host_tests.client import eventually, get, get_json
from host_tests.test_host_json import parsed

ANSWER = """import azure.functions as func
app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)
@app.route("said")
def said(req: func.HttpRequest) -> str:
    return "{}"
"""


def test_the_number_of_instances_is_the_option_s(start_host):
    """Azure has more workers by this setting, and more hosts by the depth of queues."""
    host = start_host({"FUNCTIONS_WORKER_PROCESS_COUNT": "4"}, instances=2)
    assert len({get_json(host, "/api/calls")["pid"] for _ in range(20)} | set(host.instance_pids().values())) == 2


def test_connection_strings_and_references_are_no_settings(tmp_path):
    """`func` has the first in the environment, and Azure replaces a reference by the secret."""
    reference = "@Microsoft.KeyVault(SecretUri=https://vault/secrets/x)"
    file = tmp_path / "local.settings.json"
    file.write_text(json.dumps({"Values": {"A": reference}, "ConnectionStrings": {"Bus": "Endpoint=sb://x"}}))
    assert load_settings(file, {}) == {"A": reference}


def test_only_the_route_prefix_of_http_is_read():
    """The real host throttles by the others."""
    said = {"routePrefix": "v1", "maxOutstandingRequests": 1, "hsts": {"isEnabled": True}}
    assert parsed({"http": said}) == parsed({"http": {"routePrefix": "v1"}})


def test_transactions_are_refused_at_the_start():
    """The real host has them."""
    with pytest.raises(HostJsonError, match="this host has no transactions"):
        parsed({"serviceBus": {"enableCrossEntityTransactions": True}})


def test_logs_go_by_log_level_alone():
    """The real host samples too."""
    sampling = {"applicationInsights": {"samplingSettings": {"isEnabled": True}}, "fileLoggingMode": "always"}
    assert parsed(logging=sampling) == parsed()


def test_changed_code_and_settings_wait_for_a_restart(start_host, tmp_path):
    """`func` starts again by itself."""
    script, host_json = tmp_path / "function_app.py", tmp_path / "host.json"
    script.write_text(ANSWER.format("before"))
    host_json.write_text('{"version": "2.0"}')
    host = start_host(app=tmp_path)
    pids = host.instance_pids()
    script.write_text(ANSWER.format("after"))
    host_json.write_text('{"version": "2.0", "extensions": {"http": {"routePrefix": "other"}}}')
    assert {get(host, "/api/said") for _ in range(20)} == {(200, b"before")}
    assert host.instance_pids() == pids
    host.stop()
    assert get(start_host(app=tmp_path), "/other/said") == (200, b"after")


def test_a_timer_knows_no_zone_but_utc(start_host, azurite, settings):
    """Outside of Flex the real host goes by this setting."""
    del settings["AzureWebJobs_hourly_Disabled"]
    name = settings["AzureFunctionsWebHost__hostid"]
    start_host({"HOURLY": "0 0 12 * * *", "WEBSITE_TIME_ZONE": "Asia/Kathmandu"})
    with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
        blob = service.get_blob_client("azure-webjobs-hosts", f"timers/{name}/Host.Functions.hourly/status")
        eventually(blob.exists)
        due = datetime.fromisoformat(json.loads(blob.download_blob().readall())["Next"])
    assert (due.utcoffset().total_seconds(), due.hour, due.minute) == (0, 12, 0)


def test_the_primary_lease_is_held_and_decides_nothing(start_host, azurite, settings):
    """Every instance answers and listens, whoever has it."""
    host = start_host(instances=2)
    name = settings["AzureFunctionsWebHost__hostid"]
    with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
        blob = service.get_blob_client("azure-webjobs-hosts", f"locks/{name}/host")
        eventually(lambda: blob.exists() and blob.get_blob_properties().lease.state == "leased")
    assert len(eventually(lambda: (pids := set(host.instance_pids().values())) and len(pids) == 2 and pids)) == 2


def test_a_host_is_called_by_its_setting_or_its_folder():
    """On Azure by its site."""
    site = {"WEBSITE_SITE_NAME": "app-in-azure"}
    assert host_id({"AzureFunctionsWebHost__hostid": "Mine", **site}, "/app") == "mine"
    assert host_id(site, "/app") == host_id({}, "/app") != host_id({}, "/other")


def test_the_status_is_that_of_all_instances(start_host):
    """The real host tells that of the one that is asked."""
    host = start_host(instances=2)
    assert host.status()["state"] == "Running"
    assert len(host.instance_pids()) == 2
