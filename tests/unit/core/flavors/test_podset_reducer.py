"""The largest counts that fit (SC7)."""

from hypothesis import given
from hypothesis import strategies as st

from sluice.core.flavors.podset_reducer import reduce_counts
from tests.support.flavor_builders import pod_set


def up_to(limit):
    """Return an attempt that takes *limit* pods in all."""
    return lambda counts: counts if sum(counts) <= limit else None


def test_smallest_reduction_that_fits():
    assert reduce_counts([pod_set(count=50, min_count=10)], up_to(37)) == (37,)


def test_never_below_the_minimum():
    assert reduce_counts([pod_set(count=50, min_count=10)], up_to(9)) is None


def test_only_what_may_shrink_shrinks():
    pod_sets = [pod_set("driver", count=5), pod_set("workers", count=50, min_count=10)]

    assert reduce_counts(pod_sets, up_to(20)) == (5, 15)


def test_nothing_to_give_up():
    """Then nothing is attempted: the full counts did not fit already."""

    def attempt(counts):
        raise AssertionError(counts)

    assert reduce_counts([pod_set(count=5), pod_set("x", count=3, min_count=3)], attempt) is None


def test_few_attempts():
    """Logarithmic: a hundred thousand pods are found in less than twenty steps."""
    seen = []

    def attempt(counts):
        seen.append(counts)
        return up_to(777)(counts)

    assert reduce_counts([pod_set(count=100_000, min_count=1)], attempt) == (777,)
    assert len(seen) < 20


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=4), st.integers(0, 130)
)
def test_counts_stay_within_their_bounds(sizes, limit):
    """And one pod fewer given up would not fit, or would be the full counts."""
    pod_sets = [
        pod_set(f"p{i}", count=minimum + extra, min_count=minimum) for i, (minimum, extra) in enumerate(sizes)
    ]

    counts = reduce_counts(pod_sets, up_to(limit))

    if counts is None:
        assert sum(ps.min_count for ps in pod_sets) > limit or all(extra == 0 for _, extra in sizes)
    else:
        assert all(ps.min_count <= count <= ps.count for ps, count in zip(pod_sets, counts, strict=True))
        assert sum(counts) <= limit
