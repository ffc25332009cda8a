"""Traces over OTLP, to a collector."""

import pytest

from sluice.replay.history.causes import happenings
from sluice.replay.traces import export as exporting
from sluice.replay.traces.export import ExportError, export
from sluice.replay.traces.fold import traces
from tests.support.otlp import collector

from .story import a_full_life


def test_a_collector_gets_every_span_with_parents_and_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """In requests of a bounded size, none of which parts a trace."""
    monkeypatch.setattr(exporting, "BATCH", 20)
    made = list(traces(happenings(a_full_life().log), "main"))
    with collector() as found:
        sent = export(made, found.url)
    assert found.paths == ["/v1/traces"] * 2
    assert sent == (len(made), sum(map(len, made))) == (2, len(found.spans()))
    ids = {(span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()) for span in found.spans()}
    assert ids == {
        (
            f"{span.context.trace_id:032x}",
            f"{span.context.span_id:016x}",
            f"{span.parent.span_id:016x}" if span.parent else "",
        )
        for trace in made
        for span in trace
    }
    linked = {span.name for span in found.spans() if span.links}
    assert linked == {"attempt", "migration"}
    assert found.resources()[0] == {"service.name": "sluice", "sluice.cell": "main"}


def test_a_collector_that_refuses_is_told_of() -> None:
    made = traces(happenings(a_full_life().log), "main")
    with collector(status=400) as found, pytest.raises(ExportError, match="has not taken"):
        export(made, found.url)
