"""One trace a job, over every stage, on the real stages and storage; and nothing at all while it is off."""

import json
import subprocess
import sys
import timeit

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from shared.telemetry import metrics
from shared.telemetry.choice import TelemetryChoice, telemetry
from shared.telemetry.log import PIECES, SILENT, Piece, context_of
from shared.telemetry.metrics import METRICS, Instrument
from shared.telemetry.otel import OtelTelemetry
from shared.topology import topology
from tests.pipeline.whole_app import WholeApp
from tools.local.azurite.launcher import Azurite
from tools.local.provision import provision

CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Seen:
    """Telemetry with OpenTelemetry's own SDK behind it, in memory."""

    def __init__(self):
        self._spans, self._values = InMemorySpanExporter(), InMemoryMetricReader()
        traces, meters = TracerProvider(), MeterProvider([self._values])
        traces.add_span_processor(SimpleSpanProcessor(self._spans))
        self.telemetry = OtelTelemetry(traces, meters)

    def spans(self, piece=None):
        """Return the spans that ended, in order."""
        return [span for span in self._spans.get_finished_spans() if piece in {None, span.name}]

    def values(self):
        """Return each metric's points by the name of the metric."""
        found = self._values.get_metrics_data()
        every = [
            one for resource in found.resource_metrics for scope in resource.scope_metrics for one in scope.metrics
        ]
        return {one.name: list(one.data.data_points) for one in every}


@pytest.fixture
def seen():
    """What was traced and counted."""
    return Seen()


@pytest.fixture(scope="module")
def traced():
    """One job of six chunks, from its publisher to its end, on the real stages and an Azurite of its own."""
    seen = Seen()
    with Azurite.start() as own:
        provision(own.connection_string, topology())
        app = WholeApp(own.connection_string, seen.telemetry)
        with app.metered, app.others:
            job, _ = app.run("traced", 6)
    return seen, job


def test_every_stage_of_a_job_is_in_one_trace(traced):
    """From its publisher to its outputs, over every message in between."""
    seen, job = traced
    assert {span.name for span in seen.spans()} == set(Piece)
    assert len({span.context.trace_id for span in seen.spans()}) == 1
    assert len(seen.spans(Piece.PROCESS)) == job.chunks == 6


def test_each_span_stands_under_the_one_that_the_catalogue_says(traced):
    """Publish, accept, dispatch, process; settle and finish stand under the acceptance, which the job's row keeps."""
    seen, job = traced
    ids = {span.name: span.context.span_id for span in seen.spans()}
    parents = {span.name: span.parent and span.parent.span_id for span in seen.spans()}
    assert parents == {
        Piece.PUBLISH: None,
        Piece.ACCEPT: ids[Piece.PUBLISH],
        Piece.DISPATCH: ids[Piece.ACCEPT],
        Piece.PROCESS: ids[Piece.DISPATCH],
        Piece.SETTLE: ids[Piece.ACCEPT],
        Piece.FINISH: ids[Piece.ACCEPT],
    }
    assert job.trace.split("-")[2] == f"{ids[Piece.ACCEPT]:016x}"


def test_a_settlement_is_linked_to_the_chunks_that_it_credits(traced):
    """Six chunks, each in the links of one settlement."""
    seen, _ = traced
    linked = [link.context.span_id for span in seen.spans(Piece.SETTLE) for link in span.links]
    assert sorted(linked) == sorted(span.context.span_id for span in seen.spans(Piece.PROCESS))


def test_the_metrics_of_a_job_add_up(traced):
    """What the stages counted is what the ledger says of a job whose every message came once."""
    seen, job = traced
    values = seen.values()
    accepted = [one.value for one in values["sluice.transactions"] if one.attributes["sluice.outcome"] == "accepted"]
    assert accepted == [job.totals.accepted.items]
    assert [one.value for one in values["sluice.chunks"]] == [job.chunks]
    assert sum(one.sum for one in values["sluice.settle.results"]) == job.chunks
    assert [one.value for one in values["sluice.jobs"]] == [1]


def test_an_error_is_in_a_span_without_its_words(seen):
    """A library keeps an exception's message and stack; it may quote a payload."""
    with pytest.raises(ValueError, match="canary"), seen.telemetry.span(Piece.PROCESS, job="j"):
        raise ValueError("canary")
    (span,) = seen.spans()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "ValueError")
    assert "canary" not in span.to_json()


@pytest.mark.parametrize(
    "text", [None, "", "canary", CONTEXT.upper(), "00-" + "0" * 32 + "-b7ad6b7169203331-01", f"{CONTEXT}-x"]
)
def test_what_is_no_context_is_none_and_harms_nobody(text):
    """A publisher's mistake in a field that only telemetry reads is no reason to refuse its job."""
    assert context_of(text) is None


def test_a_context_that_a_publisher_sends_is_continued(seen):
    """Its own trace goes on in the app."""
    with seen.telemetry.span(Piece.ACCEPT, CONTEXT):
        assert seen.telemetry.current().split("-")[1] == CONTEXT.split("-")[1]
    assert seen.telemetry.current() is None


def test_every_metric_of_the_catalogue_can_be_recorded(seen):
    """Names, units and kinds are such as OpenTelemetry takes."""
    for metric in METRICS:
        seen.telemetry.add(metric, 1, **dict.fromkeys(metric.attributes, "x"))
    values = seen.values()
    assert set(values) == {metric.name for metric in METRICS}
    assert all(hasattr(values[one.name][0], "count") == (one.kind is Instrument.HISTOGRAM) for one in METRICS)


def test_every_span_is_described():
    """The documentation's table names all of them."""
    assert set(PIECES) == set(Piece)


def test_off_costs_nothing_that_a_chunk_would_notice():
    """All that process_chunk asks of telemetry takes less than a thousandth of what a chunk takes, which is 20 ms."""

    def one_chunk():
        with SILENT.span(Piece.PROCESS, None, job="j", chunk=1, revision=1):
            SILENT.current()
        for _ in range(4):
            SILENT.add(metrics.CHUNKS, workload="billing", outcome="done")

    # The fastest of many: whatever else the machine does makes the others slower.
    assert min(timeit.repeat(one_chunk, number=100, repeat=50)) / 100 < 20e-3 / 1000


def test_off_loads_no_library():
    """The deployed set has none, and needs none."""
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from shared.telemetry.choice import TelemetryChoice, telemetry, TelemetryMissingError\n"
        "telemetry(TelemetryChoice.OFF)\n"
        "import shared.app\n"
        "try: telemetry(TelemetryChoice.OTEL)\n"
        "except TelemetryMissingError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("SLUICE_TELEMETRY is otel, but opentelemetry is not installed")


def test_printed_spans_are_lines_of_the_log(caplog):
    """What `make up ARGS=--spans` shows."""
    with (
        caplog.at_level("INFO", "sluice"),
        telemetry(TelemetryChoice.PRINT).span(Piece.DISPATCH, CONTEXT, job="nightly"),
    ):
        pass
    name, _, fields = caplog.messages[0].partition(" ")
    line = json.loads(fields)
    assert (name, line["span"], line["parent"]) == ("sluice.span.ended", "sluice.dispatch", CONTEXT.split("-")[2])
    assert line["about"] == {"sluice.job": "nightly"}
