"""Runs the tests that come with azure-servicebus against the broker: `python -m tests.others.live`, for about half an hour.

They come from the registry, for the version that is installed, and nothing of them stays. What follows goes to pytest.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

from tools.local.paths import ROOT

PACKAGE = "azure-servicebus"
#: Tests that do not pass, by the reason. They are left out.
KNOWN = {
    "the test's own stand-in for a method does not fit this version of the library": (
        "test_queue_operation_negative",
        "test_async_queue_operation_negative",
    ),
    "requests at once on one client race inside the library": (
        "test_queue_receive_handler_peek_check_uniq_corr_id",
        "test_async_queue_receive_handler_peek_check_uniq_corr_id",
        "test_queue_by_queue_client_conn_str_receive_handler_with_autolockrenew",
        "test_queue_receive_handler_with_autolockrenew_many_msgs",
    ),
    "the library ends its wait for a session before the broker does": (
        "test_next_available_session_timeout_value",
        "test_async_next_available_session_timeout_value",
    ),
    "wants the package websocket-client, and port 443": (
        "test_queue_message_amqp_over_websocket",
        "test_queue_send_timeout",
        "test_queue_send_large_message_receive",
        "test_queue_send_twice",
        "test_sb_client_with_ssl_context",
        "test_custom_endpoint_connection_verify_exception",
    ),
    "the library cannot read the decimal that it wrote itself": ("test_message_property",),
    "a delivery that is settled already has a tag here, as proton writes one always": (
        "test_message_backcompat_receive_and_delete_databody",
    ),
    "idles for longer than this command waits": (
        "test_queue_receive_keep_conn_alive",
        "test_queue_receive_keep_conn_alive_async",
    ),
}
#: Those of the administration make entities, which the broker refuses. The others ask nothing of a namespace.
LEFT_OUT = ("mgmt_tests", "perf_tests", "unittests", "servicebus_preparer.py")


def main(arguments: list[str]) -> int:
    """Fetch the tests, run them, and return the status of pytest."""
    with tempfile.TemporaryDirectory(prefix="sluice-live-") as folder:
        tests = _fetch(Path(folder))
        names = [name for reason in KNOWN.values() for name in reason]
        reasons = "".join(f"\n  {len(those)} {reason}" for reason, those in KNOWN.items())
        sys.stdout.write(f"{len(names)} tests are left out:{reasons}\n")
        sys.stdout.flush()
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.others.live.plugin", "-c", os.devnull]
        command += ["--rootdir", str(tests), "-o", "asyncio_mode=auto", "-n", "4", "--timeout", "900"]
        command += ["-m", "live_test_only", "--show-capture=no", "--tb=short", *(arguments or ["."])]
        path = os.pathsep.join((str(ROOT), str(tests)))
        env = {**os.environ, "PYTHONPATH": path, "LIVE_LEFT_OUT": " ".join(names)}
        return subprocess.run(command, cwd=tests, env=env, check=False).returncode


def _fetch(folder: Path) -> Path:
    wanted = f"{PACKAGE}=={version(PACKAGE)}"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*pip, "--dest", str(folder), wanted], check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as whole:
        whole.extractall(folder, filter="data")
    (tests,) = folder.glob("*/tests")
    for name in LEFT_OUT:
        found = tests / name
        found.rename(folder / name)
    return tests


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
