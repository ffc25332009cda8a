"""A team's own kind through the command line: registered, applied, refused, listed, described, deleted."""

import pytest
import yaml

from tests.unit.core.config.whole.test_custom_kinds import budget, definition, gate

pytestmark = pytest.mark.nats


def test_a_kind_of_our_own(run):
    """As every other kind; the command learns its names from the cell."""
    text = yaml.safe_dump_all([gate(), budget(hours=4), definition()])
    said = run("apply", "-f", "-", stdin=text).ok()
    assert [line.split()[-1] for line in said.lines] == ["created"] * 3
    assert "pattern in its schema is not enforced" in said.err
    wrong = run("apply", "-f", "-", stdin=yaml.safe_dump(budget(huors=4)))
    assert wrong.code == 1
    assert "* spec.huors: " in wrong.err
    for word in ("teambudgets", "teambudget", "tb"):
        assert run("get", word).ok().lines[1].split()[0] == "research"
    shown = yaml.safe_load(run("get", "tb", "research", "-o", "yaml").ok().out)
    assert shown["spec"] == {"team": "ml", "hours": 4}
    assert shown["apiVersion"] == "finance.example.com/v1"
    assert "hours: 4" in run("describe", "teambudget", "research").ok().out
    assert "TeamBudget" in run("get", "crd").ok().out
    assert run("get", "teambugdets").code == 2
    listed = [line.split() for line in run("api-resources").ok().lines]
    verbs = "get,list,watch,apply,delete"
    assert ["teambudgets", "tb", "finance.example.com/v1", "false", "TeamBudget", verbs] in listed
    assert "terminating" in run("delete", "tb", "research").ok().out
    run("delete", "ac", "gate").ok()
    run("delete", "-f", "-", "--ignore-not-found", stdin=yaml.safe_dump(budget())).ok()
    run("delete", "crd", "teambudgets.finance.example.com").ok()
    assert run("get", "crd").ok().lines == []
