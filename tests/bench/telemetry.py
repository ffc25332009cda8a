"""What metrics and traces cost: the same scenario without and with everything on, in turns, in one run.

On: services export spans and metrics by OTLP, to a sink in a process of its own; each message carries a trace
context; `/metrics` is scraped. What counts is CPU seconds of the services, as the scenario has its own pace.
`telemetry-parts` has each of these alone.
"""

import contextlib
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import fmean
from typing import Any, NamedTuple

from opentelemetry.trace import NonRecordingSpan, SpanContext, use_span

from sluice.local.processes import free_port

from . import end_to_end
from .cell import SERVICES
from .scenario import BASELINE, Scenario

Figures = dict[str, Any]

SCRAPE_S = 15.0
"""As the compose profile `observability` has it."""
ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
"""As Prometheus asks."""

SPAN = SpanContext(0xA, 0xB, is_remote=False)


class Way(NamedTuple):
    """What is on."""

    metrics: bool = False
    """Services export metrics by OTLP."""
    spans: bool = False
    """Services export spans by OTLP."""
    contexts: bool = False
    """Each submission carries a trace context."""
    scrapes: bool = False
    """`/metrics` is scraped."""

    def env(self, url: str, address: str) -> dict[str, str]:
        env = {"API_HTTP": address} if self.scrapes else {}
        if self.metrics or self.spans:
            env |= {"SLUICE_OTEL": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": url}
        if self.metrics and not self.spans:
            env["OTEL_TRACES_SAMPLER"] = "always_off"
        if self.spans and not self.metrics:
            env["OTEL_METRIC_EXPORT_INTERVAL"] = "86400000"
        return env


WAYS = {
    "off": Way(),
    "on": Way(metrics=True, spans=True, contexts=True, scrapes=True),
    "metrics": Way(metrics=True),
    "spans": Way(spans=True),
    "contexts": Way(contexts=True),
    "scrapes": Way(scrapes=True),
}


def run(
    scenario: Scenario = BASELINE,
    rounds: int = 2,
    timeout_s: float = 600,
    ways: Sequence[str] = ("off", "on"),
) -> Figures:
    """Run the scenario *rounds* times each way, in alternating order; return CPU seconds and their ratios."""
    used: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    spans: dict[str, list[float]] = {way: [] for way in ways}
    scrapes = 0
    for number in range(rounds):
        for way in ways if number % 2 == 0 else reversed(ways):
            found, count = _run(WAYS[way], scenario, timeout_s)
            scrapes += count
            used[way].append({name: found["cpu_s"][name] for name in SERVICES})
            spans[way].append(found["makespan_s"])
            print(f"  {way}: {used[way][-1]}", file=sys.stderr, flush=True)
    sums = {way: [sum(each.values()) for each in found] for way, found in used.items()}
    by_service = {
        way: {
            name: _ratio([each[name] for each in used[way]], [each[name] for each in used["off"]])
            for name in SERVICES
        }
        for way in ways[1:]
    }
    return {
        "bench": "telemetry",
        "scenario": scenario.name,
        "rounds": rounds,
        "cpu_s": {way: [round(one, 2) for one in found] for way, found in sums.items()},
        "makespan_s": spans,
        "scrapes": scrapes,
        "ratio_by_service": by_service,
        "ratio": {way: _ratio(sums[way], sums["off"]) for way in ways[1:]},
    }


def key(f: Figures) -> str:
    return ", ".join(f"{way}: {ratio}" for way, ratio in f["ratio"].items()) + " of the CPU time without"


def _ratio(on: list[float], off: list[float]) -> float:
    # A scenario of a second may use none that can be measured.
    return round(fmean(on) / max(fmean(off), 0.001), 3)


def _run(way: Way, scenario: Scenario, timeout_s: float) -> tuple[Figures, int]:
    """Return the figures, and how many scrapes were answered."""
    address = f"127.0.0.1:{free_port(0)}"
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(_sink())
        asked: list[int] = []
        if way.scrapes:
            asked = stack.enter_context(_scraped(f"http://{address}/metrics"))
        if way.contexts:
            stack.enter_context(use_span(NonRecordingSpan(SPAN)))
        return end_to_end.run(scenario, timeout_s, way.env(url, address)), len(asked)


@contextlib.contextmanager
def _scraped(url: str) -> Iterator[list[int]]:
    """Ask for *url* every few seconds, as Prometheus does; yields the sizes of the answers."""
    sizes: list[int] = []
    over = threading.Event()

    def scrape() -> None:
        while not over.wait(SCRAPE_S):
            asking = urllib.request.Request(url, headers={"Accept": ACCEPT})
            with contextlib.suppress(OSError), urllib.request.urlopen(asking, timeout=30) as answer:
                sizes.append(len(answer.read()))

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield sizes
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def _sink() -> Iterator[str]:
    """Run a collector that forgets what it is told."""
    with subprocess.Popen([sys.executable, "-m", __name__], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


class _Forgetful(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), _Forgetful) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()
