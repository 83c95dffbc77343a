"""Spans as `make up ARGS=--spans` shows them."""

from tools.local.span_lines import SpanLines

LINE = (
    '2026-11-21T05:00:00.000Z http-0/1 INFO [process_chunk 1] sluice.span.ended {"span":"sluice.process",'
    '"trace":"0af7651916cd43dd8448eb211c80319c","id":"b7ad6b7169203331","parent":null,"ms":12.5,"links":0,'
    '"failed":null,"about":{"sluice.job":"nightly","sluice.chunk":3}}\n'
)


def test_each_span_is_shown_once_and_only_whole_lines(tmp_path):
    """A log grows in any portions; what is not a span is passed over."""
    log = tmp_path / "log"
    log.write_text("something else\n" + LINE + LINE[:40])
    lines = SpanLines(log)
    assert lines.new() == ["0af76519 sluice.process        12.5 ms  job=nightly chunk=3"]
    log.write_text("something else\n" + LINE + LINE)
    assert len(lines.new()) == 1
    assert lines.new() == []
