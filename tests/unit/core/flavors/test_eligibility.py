"""Which pods may run on a flavor's nodes (SC4)."""

import pytest

from sluice.api.core_v1 import NodeSelectorTerm, Taint, Toleration
from sluice.api.meta import LabelSelectorRequirement
from sluice.core.flavors.eligibility import FlavorRule
from tests.support.flavor_builders import flavor, pod_set

SPOT = Taint(key="spot", value="yes", effect="NoSchedule")
MISMATCH = "flavor f doesn't match node affinity"


def term(key, operator, *values):
    return NodeSelectorTerm(
        match_expressions=[LabelSelectorRequirement(key=key, operator=operator, values=list(values))]
    )


TOLERATIONS = [
    (Toleration(key="spot", operator="Equal", value="yes", effect="NoSchedule"), True),
    (Toleration(key="spot", value="yes"), True),
    (Toleration(key="spot", operator="Exists"), True),
    (Toleration(operator="Exists"), True),
    (Toleration(key="spot", value="no"), False),
    (Toleration(key="spot", operator="Exists", effect="NoExecute"), False),
    (Toleration(key="other", operator="Exists"), False),
    (Toleration(key="spot", operator="Sometimes"), False),
]


@pytest.mark.parametrize(("toleration", "tolerated"), TOLERATIONS)
def test_toleration(toleration, tolerated):
    rule = FlavorRule(flavor("f", taints=[SPOT]))
    wanted = "" if tolerated else "untolerated taint {spot yes NoSchedule <nil>} in flavor f"

    assert rule.obstacle(pod_set(tolerations=(toleration,))) == wanted


def test_flavor_tolerations_count():
    """They are added to its pods."""
    rule = FlavorRule(flavor("f", taints=[SPOT], tolerations=[Toleration(key="spot", operator="Exists")]))

    assert rule.open


def test_preferred_effect_keeps_nobody_out():
    assert FlavorRule(flavor("f", taints=[Taint(key="x", effect="PreferNoSchedule")])).open


SELECTORS = [
    ({"type": "two"}, "", ""),
    ({"type": "one"}, "", MISMATCH),
    ({"zone": "x"}, "", ""),
    ({"type": "two", "zone": "x"}, "", ""),
]


@pytest.mark.parametrize(("selector", "_", "obstacle"), SELECTORS)
def test_node_selector(selector, _, obstacle):
    """Labels that the flavor does not set are not its business."""
    rule = FlavorRule(flavor("f", labels={"type": "two"}))

    assert rule.obstacle(pod_set(node_selector=selector)) == obstacle


AFFINITIES = [
    ((term("type", "In", "one", "two"),), True),
    ((term("type", "In", "one"),), False),
    ((term("type", "NotIn", "one"),), True),
    ((term("type", "NotIn", "two"),), False),
    ((term("type", "Exists"),), True),
    ((term("type", "DoesNotExist"),), False),
    ((term("gen", "Gt", "3"),), True),
    ((term("gen", "Gt", "4"),), False),
    ((term("gen", "Lt", "5"),), True),
    ((term("type", "Gt", "3"),), False),
    ((term("gen", "Gt", "three"),), False),
    ((term("type", "Almost", "two"),), False),
    ((term("type", "In", "one"), term("type", "In", "two")), True),
    ((term("type", "In", "one"), term("zone", "In", "x")), True),
    ((term("zone", "In", "x"),), True),
    ((), True),
]


@pytest.mark.parametrize(("terms", "matches"), AFFINITIES)
def test_required_affinity(terms, matches):
    """Terms are alternatives; one that is about other labels only is met by any flavor."""
    rule = FlavorRule(flavor("f", labels={"type": "two", "gen": "4"}))

    assert rule.obstacle(pod_set(node_affinity=terms)) == ("" if matches else MISMATCH)
