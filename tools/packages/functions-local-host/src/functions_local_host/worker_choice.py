"""Which worker runs user code."""

from collections.abc import Mapping

from functions_local_host.indexing import AppFunction
from functions_local_host.microsoft_worker import MicrosoftWorker
from functions_local_host.plan import HostArguments
from functions_local_host.process_worker import PROCESS, ProcessWorker
from functions_local_host.worker import Worker, thread_count


def choose_worker(host: HostArguments, functions: Mapping[str, AppFunction], settings: Mapping[str, str]) -> Worker:
    """Return the worker that the host's options name, ready to run calls."""
    if host.worker == "microsoft":
        return MicrosoftWorker(host.app, functions)
    if host.worker == "grpc":
        return ProcessWorker(host.app, functions, [host.worker_process] if host.worker_process else PROCESS)
    return Worker(host.app, thread_count(settings))
