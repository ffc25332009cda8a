"""A collector in this process: it takes traces and metrics by OTLP over HTTP, as Jaeger and Tempo do."""

import contextlib
import gzip
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class Collector:
    url: str = ""
    status: int = 200
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    measured: list[ExportMetricsServiceRequest] = field(default_factory=list)

    def metrics(self) -> set[tuple[str, str]]:
        """Return (service, metric) of all that was measured."""
        return {
            (attribute.value.string_value, metric.name)
            for request in self.measured
            for resource in request.resource_metrics
            for attribute in resource.resource.attributes
            if attribute.key == "service.name"
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def spans(self) -> list[Span]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def resources(self) -> list[dict[str, str]]:
        found = [resource.resource for request in self.requests for resource in request.resource_spans]
        return [{a.key: a.value.string_value for a in resource.attributes} for resource in found]


@contextlib.contextmanager
def collector(status: int = 200) -> Iterator[Collector]:
    """Run one; *status*: what it answers."""
    found = Collector(status=status)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/metrics":
                found.measured.append(ExportMetricsServiceRequest.FromString(body))
            else:
                found.requests.append(ExportTraceServiceRequest.FromString(body))
            found.paths.append(self.path)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(found.status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        found.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
