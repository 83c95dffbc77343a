"""What the worker and the host accept of an app, and why they refuse the rest."""

import typing

import azure.functions as func
import pytest
from functions_local_host.indexing import index_app, load_app
from functions_local_host.signature import AppRefusedError

SETTINGS = {"AzureWebJobsStorage": "UseDevelopmentStorage=true", "Bus": "Endpoint=sb://localhost", "QUEUE": "work"}


def app_of(*decorators, code):
    """Return an app with one function of this code."""
    app = func.FunctionApp()
    if code.__name__ == "<lambda>":
        code.__name__ = "unnamed"
    for decorate in decorators:
        code = decorate(app)(code)
    return app


def queue_app(code, arg_name="msg", queue_name="%QUEUE%", **extra):
    """Return an app with one queue function."""
    return app_of(lambda a: a.queue_trigger(arg_name, queue_name, "", **extra), code=code)


def bus_app(code, **extra):
    """Return an app with one Service Bus function."""
    return app_of(lambda a: a.service_bus_queue_trigger("msg", "Bus", "q", **extra), code=code)


def on_queue(msg: func.QueueMessage) -> None:
    """Take a message."""


def test_a_function_is_found_with_its_settings_replaced():
    """Name, trigger type, binding settings with every %SETTING% in place."""
    (function,) = index_app(queue_app(on_queue), SETTINGS).functions.values()
    assert function.name == "on_queue"
    assert function.indexed.trigger.type == "queueTrigger"
    assert function.indexed.trigger.settings["queueName"] == "work"
    assert not function.is_async


def refusal(app, settings=None):
    """Return why the only function of an app is refused."""
    indexed = index_app(app, SETTINGS | (settings or {}))
    assert not indexed.functions
    (reason,) = indexed.refused.values()
    return reason


def test_an_unresolved_setting_refuses_one_function_only():
    """The reason is the real host's; the other functions run."""
    app = queue_app(on_queue, queue_name="%NOWHERE%")

    @app.route("ok")
    def fine(req: func.HttpRequest) -> str:
        return ""

    indexed = index_app(app, SETTINGS)
    assert set(indexed.functions) == {"fine"}
    assert "'%NOWHERE%' does not resolve to a value" in indexed.refused["on_queue"]


@pytest.mark.parametrize("name", ["my_message", "1st", "über"])
def test_a_binding_name_with_other_than_letters_and_digits_is_refused(name):
    """No underscore: the trap that the worker alone does not show."""
    namespace = {}
    exec(f"def takes({name if name.isidentifier() else 'msg'}): pass", namespace)
    assert f"the binding name {name} is invalid" in refusal(queue_app(namespace["takes"], arg_name=name))


@pytest.mark.parametrize("name", ["host", "Host", "_mine", "1st", "a.b"])
def test_a_function_name_the_host_does_not_take_is_refused(name):
    """Letters first, and never "host"."""
    app = func.FunctionApp()
    app.function_name(name)(app.queue_trigger("msg", "q", "")(on_queue))
    assert "is not a valid function name" in refusal(app)


def test_a_binding_of_a_type_this_host_has_not_is_refused_by_name():
    """A blob input is beyond this host, and says so."""
    app = app_of(
        lambda a: a.blob_input("blob", "c/b", ""),
        lambda a: a.queue_trigger("msg", "q", ""),
        code=lambda msg, blob: None,
    )
    assert "is of type 'blob'" in refusal(app)


def test_a_missing_connection_refuses_the_function_unless_it_is_disabled():
    """A disabled trigger needs no connection: its listener is never made."""
    app = app_of(lambda a: a.queue_trigger("msg", "q", "Nowhere"), code=on_queue)
    assert "connection 'Nowhere' is missing or empty" in refusal(app)
    app = app_of(lambda a: a.queue_trigger("msg", "q", "Nowhere"), code=on_queue)
    indexed = index_app(app, SETTINGS | {"AzureWebJobs.on_queue.Disabled": "1"})
    assert indexed.functions["on_queue"].is_disabled


def test_a_schedule_that_is_none_is_refused():
    """The function is in error, with its expression."""
    app = app_of(lambda a: a.timer_trigger("t", schedule="sometimes"), code=lambda t: None)
    assert "the schedule 'sometimes'" in refusal(app)


def test_a_route_beyond_this_host_is_refused():
    """An unknown constraint is named."""
    app = app_of(lambda a: a.route("x/{id:regex}"), code=lambda req: None)
    assert "constraint 'regex'" in refusal(app)


def plain_list(msg: list[func.ServiceBusMessage]) -> None:
    """Take a batch, annotated as the library refuses."""


def typing_list(msg: typing.List[func.ServiceBusMessage]) -> None:  # noqa: UP006  # the form that works
    """Take a batch."""


def as_dict(msg: dict) -> None:
    """Take what no converter gives."""


def no_parameter() -> None:
    """Take nothing."""


def extra_parameter(msg: func.QueueMessage, other: str) -> None:
    """Take too much."""


def wrong_context(msg: func.QueueMessage, context: str) -> None:
    """Take a context of the wrong type."""


def out_trigger(msg: func.Out[str]) -> None:
    """Take the trigger as an output."""


def unresolved(msg: "Nowhere") -> None:  # noqa: F821  # the point of the test
    """Take what cannot be found at run time."""


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (as_dict, "does not take dict"),
        (no_parameter, "bindings without a parameter: msg"),
        (extra_parameter, "parameters without a binding: other"),
        (wrong_context, "'context' is annotated str"),
        (out_trigger, "is an input, its annotation is func.Out"),
        (unresolved, "an annotation does not resolve at run time"),
    ],
)
def test_a_signature_that_does_not_match_fails_the_whole_app(code, reason):
    """The real worker then has no function at all, so this host does not start."""
    with pytest.raises(AppRefusedError, match=f"cannot load the function {code.__name__}: .*{reason}"):
        index_app(queue_app(code), SETTINGS)


def test_a_batch_annotated_with_plain_list_is_refused_with_the_fix():
    """The library's own converter decides: typing.List passes, list does not."""
    with pytest.raises(AppRefusedError, match=r"write typing\.List"):
        index_app(bus_app(plain_list, cardinality="many"), SETTINGS)
    assert "typing_list" in index_app(bus_app(typing_list, cardinality="many"), SETTINGS).functions


@pytest.mark.parametrize("annotation", [str, bytes])
def test_text_and_bytes_bypass_the_trigger_type(annotation):
    """The raw body is delivered then."""

    def raw(msg):
        pass

    raw.__annotations__ = {"msg": annotation}
    assert index_app(queue_app(raw), SETTINGS).functions["raw"].signature.trigger_kind == "generic"


def test_a_return_annotation_is_checked_too():
    """An HTTP function that declares bytes[] or None as its answer is refused as the worker does."""

    def answers(req: func.HttpRequest) -> int:
        return 1

    with pytest.raises(AppRefusedError, match="return annotation int does not match the http binding"):
        index_app(app_of(lambda a: a.route("r"), code=answers), SETTINGS)


def test_a_return_of_text_keeps_the_converter_of_its_binding():
    """The worker's test for str and bytes never holds there, so a queue message or a response may be returned too."""

    def answer(req: func.HttpRequest) -> str:
        return "x"

    (function,) = index_app(app_of(lambda a: a.route("r"), code=answer), SETTINGS).functions.values()
    assert function.signature.returns == "http"


def test_an_output_must_be_annotated_as_one():
    """Without func.Out the value could not be set."""

    def writes(msg: func.QueueMessage, out: str) -> None:
        pass

    app = app_of(lambda a: a.queue_output("out", "q", ""), lambda a: a.queue_trigger("msg", "q", ""), code=writes)
    with pytest.raises(AppRefusedError, match=r"'out' is an output, its annotation is not func\.Out"):
        index_app(app, SETTINGS)


def test_two_functions_of_one_name_fail_the_whole_app():
    """The library's own reason."""
    app = queue_app(on_queue)
    app.queue_trigger("msg", "other", "")(on_queue)
    with pytest.raises(AppRefusedError, match="unique"):
        index_app(app, SETTINGS)


def folder_of(tmp_path, monkeypatch, source, name):
    """Write an app whose module has a name of its own, because imports are kept."""
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    return {"PYTHON_SCRIPT_FILE_NAME": f"{name}.py"} | SETTINGS


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("x = 1", "has no top-level FunctionApp"),
        (
            "import azure.functions as f\na = f.FunctionApp()\nb = f.FunctionApp()",
            "has 2 top-level FunctionApp objects",
        ),
        ("import nowhere_at_all", "cannot be imported: ModuleNotFoundError.*, line 1"),
        ("def (", "cannot be imported: SyntaxError"),
    ],
)
def test_a_script_without_exactly_one_app_is_refused(tmp_path, monkeypatch, source, reason, request):
    """Import errors name file and line; blueprints do not count as apps."""
    settings = folder_of(tmp_path, monkeypatch, source, f"app_{abs(hash(source))}")
    with pytest.raises(AppRefusedError, match=reason):
        load_app(tmp_path, settings)


def test_the_allow_list_of_host_json_leaves_the_others_out(tmp_path, monkeypatch):
    """`functions` in host.json is for local use: only what it names is indexed."""
    source = (
        "import azure.functions as f\napp = f.FunctionApp()\n"
        "@app.route('a')\ndef a(req): pass\n@app.route('b')\ndef b(req): pass\n"
    )
    settings = folder_of(tmp_path, monkeypatch, source, "allow_listed")
    assert set(load_app(tmp_path, settings, frozenset({"a"})).functions) == {"a"}


def test_a_folder_without_a_script_says_what_to_name(tmp_path):
    """The way out is in the error."""
    with pytest.raises(AppRefusedError, match=r"no function_app\.py in .*--app"):
        load_app(tmp_path, {})


def test_a_retry_policy_is_a_warning():
    """It is not applied here, and that is said once per function."""
    app = app_of(
        lambda a: a.retry(strategy="fixed_delay", max_retry_count="3", delay_interval="00:00:01"),
        lambda a: a.queue_trigger("msg", "q", ""),
        code=on_queue,
    )
    assert index_app(app, SETTINGS).functions["on_queue"].warnings
