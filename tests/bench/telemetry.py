"""What metrics and traces cost: the same scenario without and with everything on, in turns, in one run.

On: services export spans and metrics by OTLP, to a sink in a process of its own; each message carries a trace
context; `/metrics` is scraped. What counts is CPU seconds of the services, as the scenario has its own pace.
"""

import contextlib
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import fmean
from typing import Any

from opentelemetry.trace import NonRecordingSpan, SpanContext, use_span

from sluice.local.processes import free_port

from . import end_to_end
from .cell import SERVICES
from .scenario import BASELINE, Scenario

Figures = dict[str, Any]

SCRAPE_S = 5.0
SPAN = SpanContext(0xA, 0xB, is_remote=False)


def run(scenario: Scenario = BASELINE, rounds: int = 2, timeout_s: float = 600) -> Figures:
    """Run the scenario *rounds* times each way, in alternating order; return CPU seconds and their ratio."""
    used: dict[str, list[dict[str, float]]] = {"off": [], "on": []}
    spans: dict[str, list[float]] = {"off": [], "on": []}
    scrapes = 0
    for number in range(rounds):
        for way in ("off", "on") if number % 2 == 0 else ("on", "off"):
            if way == "off":
                found: Figures = end_to_end.run(scenario, timeout_s)
            else:
                found, count = _with_everything(scenario, timeout_s)
                scrapes += count
            used[way].append({name: found["cpu_s"][name] for name in SERVICES})
            spans[way].append(found["makespan_s"])
    sums = {way: [sum(each.values()) for each in found] for way, found in used.items()}
    return {
        "bench": "telemetry",
        "scenario": scenario.name,
        "rounds": rounds,
        "cpu_s": {way: [round(one, 2) for one in found] for way, found in sums.items()},
        "makespan_s": spans,
        "scrapes": scrapes,
        "ratio_by_service": {
            name: _ratio([each[name] for each in used["on"]], [each[name] for each in used["off"]])
            for name in SERVICES
        },
        "ratio": _ratio(sums["on"], sums["off"]),
    }


def key(f: Figures) -> str:
    return f"{f['ratio']} of the CPU time without"


def _ratio(on: list[float], off: list[float]) -> float:
    # A scenario of a second may use none that can be measured.
    return round(fmean(on) / max(fmean(off), 0.001), 3)


def _with_everything(scenario: Scenario, timeout_s: float) -> tuple[Figures, int]:
    address = f"127.0.0.1:{free_port(0)}"
    with _sink() as url, _scraped(f"http://{address}/metrics") as scrapes, use_span(NonRecordingSpan(SPAN)):
        env = {"SLUICE_OTEL": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": url, "API_HTTP": address}
        return end_to_end.run(scenario, timeout_s, env), len(scrapes)


@contextlib.contextmanager
def _scraped(url: str) -> Iterator[list[int]]:
    """Ask for *url* every few seconds, as Prometheus does; yields the sizes of the answers."""
    sizes: list[int] = []
    over = threading.Event()

    def scrape() -> None:
        while not over.wait(SCRAPE_S):
            with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=30) as answer:
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
