"""Tests wait for conditions, not for time."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]

APART = ("bench", "fault", "pictures")
"""Folders of programs that make load over time; no tests of the suite."""

PACED = {
    "support/check_controllers.py::_beat": "a heartbeat has a pace",
    "support/check_controllers.py::_follow": "tries again while the server is away, as a controller does",
    "support/tcp_proxy.py::_carry": "a slow connection",
    "support/waiting.py::eventually": "the one place to wait",
    "support/waiting.py::wait_until": "the one place to wait",
    "support/waiting.py::stays": "the one place to look on",
    "support/waiting.py::stays_so": "the one place to look on",
    "e2e/test_own_kinds.py::_followed": "an executor that polls its objects, as a controller does",
    "integration/agent/test_on_loss.py::test_leased_agent_that_is_cut_off_has_ended_its_pods": "looks on",
    "integration/api/test_crashes.py::apply": "tries again while services are killed",
    "integration/checks/app.py::act": "in a process of its own, until a file is there",
    "integration/checks_shipped/test_webhook.py::_drip": "a server that answers slowly",
    "integration/console/test_live.py::follow": "connects again while the console is away, as a browser does",
    "integration/deploy/test_teams.py::test_nothing_is_lost_when_the_gate_dies": "in the midst of publishing",
    "integration/jobs/test_unseen_executors.py::beats": "a heartbeat has a pace",
    "integration/jobs/test_malformed_buckets.py::test_purged": "nothing is lost later either",
    "integration/jobs/test_restored_log.py::test_older_log": "a snapshot is stored, and its bucket",
    "integration/log/conftest.py::ask": "an answer of a process, for a second at most",
    "integration/log/test_clocks.py::test_two_hours_ahead_for_two_seconds": "messages with a pace",
    "integration/log/test_server_deaths.py::test_readers_go_on": "a pull is under way, and its heartbeats",
    "integration/log/test_lease.py::test_silent_holder_is_replaced_and_told": "the other has looked once",
    "integration/log/test_lease.py::test_restart_of_the_server_does_not_move_it": "the other has looked once",
    "integration/log/test_replicas.py::_send": "a load of so many messages a second",
    "integration/sdk/test_executor.py::run": "work that takes a moment, a server that is away for one",
    "unit/log/runtime/test_runner.py::dump": "in a child process, until a file is there",
}
"""file::function -> why it sleeps all the same."""


def sleepers() -> Iterator[str]:
    """file::function of each sleep that is not `sleep(0)`, which only lets others have their turn."""
    for file in sorted(TESTS.rglob("*.py")):
        place = file.relative_to(TESTS)
        if place.parts[0] not in APART:
            yield from (f"{place}::{function}" for function in _sleeping(ast.parse(file.read_text()), ""))


def _sleeping(node: ast.AST, function: str) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function = node.name
    if isinstance(node, ast.Call) and _called(node.func) == "sleep":
        argument = node.args[0]
        if not (isinstance(argument, ast.Constant) and argument.value == 0):
            yield function
    for child in ast.iter_child_nodes(node):
        yield from _sleeping(child, function)


def _called(function: ast.expr) -> str:
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def test_nothing_sleeps_that_could_wait_for_a_condition() -> None:
    """`tests/support/waiting.py` waits; who sleeps all the same stands above, with the reason."""
    assert set(sleepers()) == set(PACED)
