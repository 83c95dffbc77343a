"""The `context` argument of a function."""

import threading
from typing import Any

import azure.functions as func

from functions_local_host.trace import Trace


class _TraceContext:
    """A trace as the worker shows it: by the names of today, and by those of before."""

    def __init__(self, trace: Trace) -> None:
        self.trace_parent = self.Traceparent = trace.parent
        self.trace_state = self.Tracestate = trace.state
        self.attributes = self.Attributes = trace.attributes


class _NoRetry:
    """This host applies no retry policies, so every run is the first."""

    retry_count = 0
    max_retry_count = 0
    exception = None


class InvocationContext(func.Context):
    """The invocation as its function sees it."""

    def __init__(self, function: str, invocation: str, folder: str, trace: Trace) -> None:
        self._function, self._invocation, self._folder = function, invocation, folder
        self._trace = _TraceContext(trace)
        self._local = threading.local()

    @property
    def invocation_id(self) -> str:
        """One id per run."""
        return self._invocation

    @property
    def thread_local_storage(self) -> Any:
        """Where user threads put the invocation id to have their lines attributed. Here they inherit it."""
        return self._local

    @property
    def function_name(self) -> str:
        """The function's name."""
        return self._function

    @property
    def function_directory(self) -> str:
        """The app's folder."""
        return self._folder

    @property
    def trace_context(self) -> Any:
        """The caller's trace where there is one, else a new one."""
        return self._trace

    @property
    def retry_context(self) -> Any:
        """The first try."""
        return _NoRetry()
