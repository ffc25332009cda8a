"""The benchmark of replay: a command that fails or hangs costs only its own figures."""

from tests.bench.replay import ask


def test_a_command_that_fails_says_so():
    found = ask("nonsense")
    assert found.failed == "exit code 2"
    assert found.figures()["failed"] == found.failed


def test_a_command_that_takes_too_long_is_ended():
    found = ask("version", limit_s=0.0)
    assert found.failed == "no answer within 0 s"


def test_an_answer_has_no_failure():
    found = ask("version")
    assert "failed" not in found.figures()
    assert found.output
