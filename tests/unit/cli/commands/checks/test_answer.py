"""Whom an answer to a check is for: NAME or TYPE/NAME of a workload or a job, as with the other commands."""

from types import SimpleNamespace
from typing import Any

import pytest

from sluice.cli.commands.checks.answer import asked_of, kinds_and_name
from sluice.cli.kit.errors import EXIT_USAGE, CliError
from tests.simulation.queries import LocalApi, Queries, now
from tests.support.checked_cell import checked_cell


@pytest.fixture(scope="module")
def api() -> Any:
    """Job `a` waits for its check."""
    cell = checked_cell("gpu")
    cell.submit("a").settle()
    queries = Queries(SimpleNamespace(log=SimpleNamespace(entries=cell.log)))  # type: ignore[arg-type]
    queries.follow()
    return LocalApi(queries.world)


def asked(api: Any, named: str) -> str:
    found = now(asked_of(api, *kinds_and_name(named), "gpu", "default"))
    return str(found["metadata"]["name"])


@pytest.mark.parametrize("word", ["", "job/", "jobs.batch/", "wl/", "workload/"])
def test_a_name_may_say_of_what(api: Any, word: str) -> None:
    own = asked(api, "a")
    assert own.startswith("job-a-")
    assert asked(api, word + (own if word.startswith("w") else "a")) == own


@pytest.mark.parametrize(("named", "said"), [("wl/a", "workloads"), ("job/b", "jobs")])
def test_what_is_not_of_the_type_is_not_found(api: Any, named: str, said: str) -> None:
    with pytest.raises(CliError, match=f"NotFound.*{said}.*not found"):
        asked(api, named)


@pytest.mark.parametrize("named", ["cq/main", "nonsense/a", "wl/"])
def test_checks_are_asked_for_workloads_and_jobs_only(named: str) -> None:
    with pytest.raises(CliError) as told:
        kinds_and_name(named)
    assert told.value.code == EXIT_USAGE
