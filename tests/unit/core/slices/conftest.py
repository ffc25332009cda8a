"""The world of the slice-aggregator, whose log is decided again after each test."""

from collections.abc import Iterator

import pytest

from tests.support.slices_world import World


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.verify()
