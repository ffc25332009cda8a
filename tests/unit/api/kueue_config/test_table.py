"""The table of Kueue's Configuration holds together."""

from sluice.api import kueue
from sluice.api.features import DEFAULTS
from sluice.api.kueue_config.gates import FOREIGN
from sluice.api.kueue_config.table import FIELDS, How
from tests.unit.docs.from_kueue_page import fields


def test_a_field_stands_there_once_and_holds_no_other() -> None:
    paths = [field.path for field in FIELDS]
    assert len(set(paths)) == len(paths)
    assert not [path for path in paths if any(other.startswith(f"{path}.") for other in paths)]


def test_values_go_where_there_is_a_field() -> None:
    known = {path.removeprefix("spec.") for path in fields(kueue.Configuration)}
    assert [field.to for field in FIELDS if field.to and field.to not in known] == []


def test_whatever_does_not_simply_work_says_how_it_is() -> None:
    assert [field.path for field in FIELDS if field.how is not How.WORKS and not field.said] == []


def test_a_gate_is_ours_or_foreign() -> None:
    assert not FOREIGN & set(DEFAULTS)
