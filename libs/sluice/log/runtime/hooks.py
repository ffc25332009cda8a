"""Hooks of a service beside deciding: it is told what was decided, what is in the log, and its role."""

from collections.abc import Sequence

from sluice.events.commit import Step


class Hooks[S]:
    """Does nothing; override what is needed. All methods are called in the event loop: be brief.

    What shows outside (projections, answers) may rest only on what is in the log: build it in `decided`
    and `replayed`, where the state is exactly as of the step, and let it out in `committed`.
    """

    def decided(self, state: S, step: Step) -> object:  # noqa: ARG002
        """A step was decided and applied, not committed yet. The result is handed to `committed`."""
        return None

    def committed(self, state: S, steps: Sequence[Step], seq: int, effects: Sequence[object]) -> None:
        """The log has *steps* at *seq*. *state* may be ahead of them; *effects* are those of `decided`."""

    def replayed(self, state: S, step: Step, seq: int) -> None:
        """A step was read back from the log: while rebuilding, or as a stand-by."""

    def settled(self, state: S, upto: int) -> None:
        """The leader has nothing more to decide; *state* may hold steps not committed yet."""

    def rebuilding(self, upto: int, own: int) -> None:
        """What was known is void: a state begins anew at input *upto* and own commit *own* (0: empty)."""

    def leading(self, state: S, own: int) -> None:
        """This replica has become the leader; *own* is the chain's last commit."""

    def following(self) -> None:
        """This replica is a stand-by (again): let nothing out any more."""

    async def drain(self) -> None:
        """Finish what is under way; called before a stop in order."""
