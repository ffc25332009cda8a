"""A manager and two workers for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.real_cells import Cells, running_cells


@pytest.fixture
async def cells(tmp_path: Path) -> AsyncIterator[Cells]:
    async with running_cells(tmp_path) as found:
        yield found
