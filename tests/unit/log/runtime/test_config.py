"""Settings come from the environment; a wrong one is named as the person wrote it."""

import msgspec
import pytest

from sluice.log.runtime.config import SettingError, load_cell, load_prefixed
from sluice.services.agent.config import load as load_agent
from sluice.services.common.decider import Watching as Aggregator


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"SLICE_AGGREGATOR_POLL_S": "x"}, r"SLICE_AGGREGATOR_POLL_S='x': Expected `float`, got `str`"),
        ({"SLICE_AGGREGATOR_POLL_S": "-1"}, r"SLICE_AGGREGATOR_POLL_S='-1': Expected `float` > 0.0"),
        (
            {"SLICE_AGGREGATOR_POL": "1"},
            r"SLICE_AGGREGATOR_POL is unknown; there are: .*SLICE_AGGREGATOR_POLL_S",
        ),
    ],
)
def test_the_variable_is_named(env, message):
    with pytest.raises(SettingError, match=message):
        load_prefixed(env, "SLICE_AGGREGATOR_", Aggregator)


def test_all_kinds_of_processes_name_it():
    with pytest.raises(SettingError, match="SLUICE_REPLICAS='7': Expected `int` <= 5"):
        load_cell({"SLUICE_REPLICAS": "7"})
    with pytest.raises(SettingError, match="AGENT_CAPACITY='-1'"):
        load_agent({"AGENT_CAPACITY": "-1"}, "data")


def test_values_arrive():
    assert load_prefixed({"SLICE_AGGREGATOR_POLL_S": "2"}, "SLICE_AGGREGATOR_", Aggregator).poll_s == 2
    assert (
        msgspec.structs.asdict(load_cell({"SLUICE_CELL": "b", "NATS_URL": "nats://h"}))["nats_url"]
        == "nats://h"
    )
