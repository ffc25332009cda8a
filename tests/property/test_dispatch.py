"""The dispatcher through random histories: cells that are cut off, restarts, copies, answers in any order."""

import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.core.dispatch.orders import orders_of
from sluice.events import dispatch
from sluice.events.base import WorkloadKey
from sluice.protocol.cells import Order, RemoteReport
from tests.support.cells_world import CellsWorld, Worker
from tests.support.examples import examples

CELLS = ("near", "far", "spare")
LOST_AFTER_S = 60


class Weather:
    """Everything that may happen to a manager and its workers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = CellsWorld()
        more = {"stepSize": self.random.choice([1, 2])} if self.coin() else {}
        self.world.ladder(
            *CELLS,
            lostAfterSeconds=LOST_AFTER_S,
            standSeconds=30,
            preemptWithinSeconds=5,
            retryAfterSeconds=3,
            **more,
        )
        self.world.turn()
        self.old: list[tuple[str, RemoteReport]] = []
        self.copies: list[Order] = []

    def coin(self) -> bool:
        return self.random.random() < 0.5

    def worker(self) -> Worker:
        return self.random.choice(list(self.world.workers.values()))

    def some(self, keys: list[WorkloadKey]) -> WorkloadKey | None:
        return self.random.choice(sorted(keys)) if keys else None

    # What may happen

    def submit(self) -> None:
        if len(self.world.attempts) < 5:
            self.world.create(pods=self.random.choice([1, 1, 2]))

    def reserve(self) -> None:
        world = self.world
        key = self.some([k for k in world.attempts if k not in world.holding and k not in world.runs])
        base = world.grows.get(key) if key is not None else None
        if key is not None and (base is None or (base in world.holding and base not in world.suspended)):
            world.reserve(key)

    def scale(self) -> None:
        """Somebody wants another size of a job."""
        key = self.some([k for k in self.world.attempts if k not in self.world.grows])
        if key is not None and key not in self.world.suspended:
            self.world.scale(key, self.random.randint(1, 4))

    def edit(self) -> None:
        key = self.some(list(self.world.attempts))
        if key is not None:
            self.world.edit(key)

    def evict(self) -> None:
        key = self.some(list(self.world.holding))
        if key is not None:
            self.world.evict(key)

    def delete(self) -> None:
        key = self.some([k for k in self.world.attempts if k not in self.world.runs])
        if key is not None:
            self.world.forget(key)

    def hear(self) -> None:
        said = list(self.world.sayings())
        if said:
            self.world.hear(self.random.choice(said))

    def carry(self) -> None:
        worker = self.worker()
        self.world.carry(worker)
        self.copies += self.random.sample(list(worker.inbox), min(1, len(worker.inbox)))

    def obey(self) -> None:
        self.world.deliver(self.worker(), self.random.randint(1, 4))

    def late_copy(self) -> None:
        """An order that was carried once comes again, whatever has become of it."""
        if self.copies:
            order = self.random.choice(self.copies[-10:])
            worker = self.world.workers[order.cell]
            if worker.linked:
                worker.inbox.append(order)

    def report(self) -> None:
        worker = self.worker()
        most = self.random.randint(1, 5)
        after = self.world.state.cells[worker.name].upto
        facts = [fact for fact in worker.facts if fact.seq > after][:most]
        if worker.linked and facts:
            said = RemoteReport(after=after, upto=facts[-1].seq, facts=facts)
            self.old.append((worker.name, said))
            self.world.send(worker.name, said)

    def old_report(self) -> None:
        if self.old:
            self.world.send(*self.random.choice(self.old))

    def look(self) -> None:
        worker = self.worker()
        for name in worker.jobs:
            worker.look(name)

    def remote_evict(self) -> None:
        worker = self.worker()
        if worker.jobs:
            worker.evict(self.random.choice(list(worker.jobs)))

    def remote_finish(self) -> None:
        worker = self.worker()
        if worker.jobs:
            worker.finish(self.random.choice(list(worker.jobs)))

    def remote_delete(self) -> None:
        """Somebody in the worker deletes a job of the manager's."""
        worker = self.worker()
        if worker.jobs:
            name = self.random.choice(list(worker.jobs))
            worker.obey(Order(cell=worker.name, job=name, do="Withdraw"))

    def cut(self) -> None:
        worker = self.worker()
        if worker.linked:
            self.world.cut(worker, noticed=self.coin())

    def notice(self) -> None:
        worker = self.worker()
        if not worker.linked:
            self.world.cut(worker)

    def mend(self) -> None:
        worker = self.worker()
        if not worker.linked:
            self.world.mend(worker)

    def restart(self) -> None:
        """The dispatcher is killed, once with what it has folded, once with the whole log behind it."""
        self.world.turn()
        self.world.services["dispatch"].restart()

    def stranger(self) -> None:
        """A job of this manager's that it knows nothing of, left by whatever was before."""
        worker = self.worker()
        name = f"ns/stranger-{len(worker.facts)}"
        worker.obey(Order(cell=worker.name, job=name, do="Offer"))  # type: ignore[arg-type]

    def refuse(self) -> None:
        worker = self.worker()
        worker.refuses = not worker.refuses

    def drain(self) -> None:
        """A cell is to get no more jobs, or may again."""
        name = self.worker().name
        how = self.random.choice(["stay", "move", "", ""])
        self.world.drain(name, how)

    def room(self) -> None:
        self.worker().room = self.random.randint(0, 3)

    def flow(self) -> None:
        """Things go as they mostly do, for a while."""
        world = self.world
        for _ in range(self.random.randint(1, 6)):
            for worker in self.random.sample(
                list(world.workers.values()), self.random.randint(1, len(CELLS))
            ):
                world.carry(worker)
                world.deliver(worker)
                if worker.linked and any(f.seq > world.state.cells[worker.name].upto for f in worker.facts):
                    self.report()
                    world.hand_in(worker)
            world.turn()
            for said in list(world.sayings()):
                world.hear(said)
            world.turn()

    def turn(self) -> None:
        self.world.turn(float(self.random.choice([0, 0, 0, 0.5, 2, 10, LOST_AFTER_S])))

    # The end

    def calm(self) -> None:
        """All is mended and everybody heard; then every job is taken back, and nothing may be left of any."""
        world = self.world
        for worker in world.workers.values():
            worker.refuses, worker.room = False, 30
            world.drain(worker.name, "")
            if not worker.linked:
                world.mend(worker)
        world.turn()
        world.exchange()
        self.bounded()
        for _ in range(8):
            for key in list(world.attempts):
                base = world.grows.get(key)
                if key not in world.holding and key not in world.runs and (not base or base in world.runs):
                    world.reserve(key)
            world.exchange()
            for worker in world.workers.values():
                for name in list(worker.jobs):
                    worker.look(name)
            world.exchange()
            world.turn(40)
        assert set(world.running()) == set(world.attempts), "with room for all, all run"
        assert all(len(cells) == 1 for cells in world.running().values())
        for key, (cell,) in world.running().items():
            offer = world.state.placements[key].winner
            pods = world.workers[cell].jobs[offer].pods
            assert pods == world.pods[key] == world.reserved[key], "the cell runs what the manager has"
        for key in [k for k in world.attempts if k not in world.grows]:
            world.evict(key)
        world.exchange()
        for key in [k for k in world.attempts if k not in world.grows]:
            world.forget(key)
        world.exchange()
        assert not world.state.placements, "every offer ends"
        assert not world.state.orphans
        assert not world.state.by_offer
        for worker in world.workers.values():
            assert not worker.jobs, f"{worker.name} has orphans"

    def bounded(self) -> None:
        """A worker holds no more than one job of each workload."""
        for worker in self.world.workers.values():
            keys = [self.world.state.by_offer.get(name) for name in worker.jobs]
            assert len(keys) == len(set(keys))

    def answered(self) -> None:
        """Each message of a link is answered, once."""
        causes: dict[int, int] = {}
        for entry in self.world.log:
            if entry.suffix.startswith("cell."):
                causes[entry.seq] = 0
        kinds = (
            dispatch.CellHeard,
            dispatch.CellLost,
            dispatch.CellBack,
            dispatch.ReportIgnored,
            dispatch.ReportRejected,
        )
        for event in self.world.said:
            if isinstance(event, kinds):
                causes[event.cause] += 1
        assert set(causes.values()) <= {1}


ACTS = (
    *["submit"] * 3,
    *["reserve"] * 8,
    *["hear"] * 14,
    *["carry"] * 16,
    *["obey"] * 16,
    *["report"] * 18,
    *["turn"] * 12,
    *["flow"] * 20,
    *["look"] * 6,
    *["scale"] * 6,
    "edit",
    *["cut", "notice", "mend", "mend"] * 2,
    *["evict", "delete", "late_copy", "late_copy", "old_report", "restart", "room", "refuse", "drain"],
    *["remote_evict", "remote_finish", "remote_finish", "remote_delete", "stranger"],
)


def play(seed: int, steps: int) -> Weather:
    weather = Weather(seed)
    for _ in range(steps):
        getattr(weather, weather.random.choice(ACTS))()
    weather.calm()
    weather.answered()
    weather.world.verify()
    return weather


@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(0, 250))
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_never_two_cells_and_nothing_left(seed: int, steps: int) -> None:
    """No attempt runs in two cells, no offer or orphan is left in the end, and the log decides the same."""
    play(seed, steps)


def test_a_slice_waits_for_what_is_left_of_the_one_before() -> None:
    """Its job has stopped as a whole; a cell comes back that still has an offer of that one's."""
    play(20159, 220)


def test_histories_reach_what_they_are_for() -> None:
    """The acts lead to every event of the dispatcher's but the refusal of broken messages."""
    said = {type(event) for seed in range(40) for event in play(seed, 250).world.said}
    missing = {kind.__name__ for kind in _kinds() if kind not in said}
    assert missing == {"ReportRejected"}


def _kinds() -> list[type]:
    return [
        value
        for value in vars(dispatch).values()
        if isinstance(value, type) and value.__module__ == dispatch.__name__
    ]


def test_orders_come_from_the_log_alone() -> None:
    """A dispatcher that begins anew from its snapshot has the same orders."""
    weather = Weather(7)
    for _ in range(200):
        getattr(weather, weather.random.choice(ACTS))()
    weather.world.turn()
    service = weather.world.services["dispatch"]
    again = service.decider.load(service.decider.dump(service.state))
    for key in service.state.placements:
        assert list(orders_of(again, key)) == list(orders_of(service.state, key))
