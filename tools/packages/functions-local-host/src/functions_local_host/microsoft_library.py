"""Microsoft's worker library, from its start on: both workers that run user code in it begin here."""

import contextvars
import importlib
from collections.abc import Callable
from typing import Any, Final

LIBRARY: Final = "azure_functions_runtime"


def load_library() -> Any:
    """Import the library, and start its pool. Code in the pool knows its invocation, which log lines name."""
    library = importlib.import_module(LIBRARY)
    library.start_threadpool_executor()
    pool = library.get_threadpool_executor()
    submit = pool.submit

    def carrying(code: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        return submit(contextvars.copy_context().run, code, *arguments, **named)

    pool.submit = carrying
    return library
