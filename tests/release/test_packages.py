"""The two stand-ins as packages of their own: what somebody installs who wants a host or a broker and nothing else."""

import re
import shutil
import zipfile

from tests.release.wheel import Bare, build
from tools.local.paths import ROOT

PACKAGES = ROOT / "tools" / "packages"
#: The app of the README's example.
APP = """
import azure.functions as func

app = func.FunctionApp()


@app.route(route="hello", auth_level=func.AuthLevel.ANONYMOUS)
def hello(req: func.HttpRequest) -> str:
    return f"hello {req.params['name']}"


@app.queue_trigger(arg_name="message", queue_name="inbox", connection="AzureWebJobsStorage")
@app.queue_output(arg_name="out", queue_name="sent", connection="AzureWebJobsStorage")
def copy(message: func.QueueMessage, out: func.Out[str]) -> None:
    out.set(message.get_body().decode().upper())
"""
ASK = """
    import os, time, urllib.request
    from azure.storage.queue import QueueServiceClient
    print(urllib.request.urlopen(f"{host.base_url}/api/hello?name=ann").read().decode())
    service = QueueServiceClient.from_connection_string(os.environ["STORAGE"])
    service.get_queue_client("inbox").send_message("hello")
    found, out, end = None, service.get_queue_client("sent"), time.monotonic() + 300
    while found is None and time.monotonic() < end:
        time.sleep(0.1)
        found = out.receive_message()
    print(found and found.content)
"""


def bare(name, tmp_path, *beside):
    """Return an environment with the wheel of this package, built from its folder alone."""
    sources = shutil.copytree(PACKAGES / name, tmp_path / "sources", ignore=shutil.ignore_patterns("__pycache__"))
    wheel = build(sources, tmp_path / "wheel")
    package = name.replace("-", "_")
    with zipfile.ZipFile(wheel) as content:
        inside = {part for part in content.namelist() if not part.partition("/")[0].endswith(".dist-info")}
    own = PACKAGES / name / "src" / package
    files = (file for file in own.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    assert inside == {f"{package}/{file.relative_to(own).as_posix()}" for file in files}
    return Bare(tmp_path / "environment", wheel, beside=beside)


def example_of(name):
    """Return the Python of its README."""
    return re.search(r"```python\n(.*?)```", (PACKAGES / name / "README.md").read_text(), re.DOTALL)[1]


def test_the_broker_is_a_package_of_its_own(tmp_path):
    """Its README's example runs beside Microsoft's client, which a user of it has."""
    environment = bare("servicebus-local", tmp_path, "azure-servicebus")
    said = environment.check(environment.python, "-c", example_of("servicebus-local"), folder=tmp_path)
    assert said == "hello\n"
    assert "--entities" in environment.check(environment.python, "-m", "servicebus_local", "--help", folder=tmp_path)


def test_the_host_is_a_package_of_its_own(tmp_path, azurite):
    """Its README's example runs an app with a route, a queue to read and one to write; an instance is killed at the end."""
    environment = bare("functions-local-host", tmp_path)
    (tmp_path / "my_app").mkdir()
    (tmp_path / "my_app" / "function_app.py").write_text(APP)
    (tmp_path / "my_app" / "host.json").write_text(
        '{"version": "2.0", "extensions": {"queues": {"messageEncoding": "none"}}}'
    )
    storage = azurite.connection_string
    example = example_of("functions-local-host").replace("UseDevelopmentStorage=true", storage)
    example = example.replace("    host.kill_instance()", ASK + "    host.kill_instance()")
    queues = "import os; from azure.storage.queue import QueueServiceClient as S\n"
    queues += "[S.from_connection_string(os.environ['STORAGE']).create_queue(name) for name in ('inbox', 'sent')]\n"
    said = environment.check(environment.python, "-c", queues + example, folder=tmp_path, STORAGE=storage)
    assert said.splitlines()[1:] == ["hello ann", "HELLO"], said
