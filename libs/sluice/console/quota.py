"""The tree of cohorts and queues with quota: nominal, own, borrowed, lent, promised, free."""

from collections.abc import Iterable, Iterator, Mapping

from sluice.api import kueue
from sluice.api.quantity import format_value
from sluice.core.quota.tree import WEIGHT_SCALE, FlavorResource, Node, Quota, borrowed
from sluice.core.views import ClusterQueueView, cluster_queue_status
from sluice.core.views.quota_totals import QuotaTotals, queue_totals
from sluice.readmodel.quota_tree import tree_of
from sluice.readmodel.world import World

from .answers import Amount, FlavorRow, FlavorTotal, Loan, NodeRow, QuotaRow


def amount(resource: str, value: int) -> Amount:
    return Amount(text=format_value(resource, value), value=value)


class QuotaTree:
    """All nodes of a world, and what each has."""

    def __init__(self, world: World) -> None:
        self.view = world.view
        self.tree = tree_of(self.view)
        self._totals = {
            name: queue_totals(self.view, queue) for name, queue in self.view.cluster_queues.items()
        }
        self.lent: dict[tuple[str, FlavorResource], int] = {}
        """(queue or cohort, of which flavor and resource) -> what others use of its quota."""
        self.loans: list[tuple[str, str, FlavorResource, int]] = []
        """(lender, borrower, flavor and resource, how much)."""
        for root in self.roots():
            self._lend(root)

    def roots(self) -> list[Node]:
        """Return the nodes without a parent, cohorts first."""
        cohorts = [node for _, node in sorted(self.tree.cohorts.items()) if node.parent is None]
        queues = [node for _, node in sorted(self.tree.cluster_queues.items()) if node.parent is None]
        return [*cohorts, *queues]

    def walk(self) -> Iterator[tuple[Node, int]]:
        """Yield all nodes, parents first, with their depth."""

        def below(node: Node, depth: int) -> Iterator[tuple[Node, int]]:
            yield node, depth
            for child in node.children:
                yield from below(child, depth + 1)

        for root in self.roots():
            yield from below(root, 0)

    def _lend(self, root: Node) -> None:
        """Say who lends what is borrowed in a tree: in proportion to what each could lend."""
        members = list(root.subtree_nodes())
        for fr in sorted({fr for node in members for fr in node.cells}):
            spare: dict[str, int] = {}
            taken: dict[str, int] = {}
            for node in members:
                quota: Quota | None = node.quotas.get(fr)
                nominal = 0 if quota is None else quota.nominal
                used = self._totals[node.name].used(fr) if node.is_cluster_queue else 0
                if used > nominal:
                    taken[node.name] = borrowed(used, nominal)
                elif nominal > used:
                    limit = None if quota is None else quota.lending_limit
                    could = nominal - used if limit is None else min(limit, nominal - used)
                    spare[_unique(node)] = could
            total = min(sum(taken.values()), sum(spare.values()))
            for borrower, part in _shared(total, taken).items():
                for lender, lot in _shared(part, spare).items():
                    if lot:
                        self.loans.append((lender, borrower, fr, lot))
                        self.lent[lender, fr] = self.lent.get((lender, fr), 0) + lot

    def rows(self, node: Node) -> list[QuotaRow]:
        """Return a row for each flavor and resource that the node has quota or usage of."""
        totals = QuotaTotals()
        for each in node.subtree_nodes():
            if each.is_cluster_queue:
                totals.add(self._totals[each.name])
            else:
                totals.add(QuotaTotals({fr: quota.nominal for fr, quota in each.quotas.items()}))
        return [self._row(node, fr, totals) for fr in totals.rows()]

    def _row(self, node: Node, fr: FlavorResource, totals: QuotaTotals) -> QuotaRow:
        flavor, resource = fr
        quota = node.quotas.get(fr)
        used = totals.used(fr)

        def of(value: int) -> Amount:
            return amount(resource, value)

        def limit(value: int | None) -> Amount | None:
            return None if value is None else of(value)

        return QuotaRow(
            flavor=flavor,
            resource=resource,
            nominal=of(totals.nominal.get(fr, 0)),
            used=of(used),
            own=of(used - totals.borrowed(fr)),
            borrowed=of(totals.borrowed(fr)),
            lent=of(self.lent.get((_unique(node), fr), 0)),
            promised=of(totals.promised.get(fr, 0)),
            reserved=of(used - totals.usage.get(fr, 0)),
            free=of(node.available(fr)),
            borrowing_limit=limit(quota.borrowing_limit if quota is not None else None),
            lending_limit=limit(quota.lending_limit if quota is not None else None),
        )

    def node_row(self, node: Node, depth: int) -> NodeRow:
        """Return a node as a row of the tree."""
        queues = [node] if node.is_cluster_queue else [n for n in node.subtree_nodes() if n.is_cluster_queue]
        statuses = [cluster_queue_status(self.view, self.view.cluster_queues[q.name]) for q in queues]
        spec = self.view.cluster_queues[node.name].spec if node.is_cluster_queue else None
        active, why = active_of(statuses[0]) if node.is_cluster_queue else (True, "")
        return NodeRow(
            name=node.name,
            kind="ClusterQueue" if node.is_cluster_queue else "Cohort",
            parent="" if node.parent is None else node.parent.name,
            path=node.path(),
            depth=depth,
            weight=node.weight / WEIGHT_SCALE,
            pending=sum(status["pendingWorkloads"] for status in statuses),
            reserving=sum(status["reservingWorkloads"] for status in statuses),
            admitted=sum(status["admittedWorkloads"] for status in statuses),
            active=active,
            inactive=why,
            stop_policy=stop_policy(spec),
            quota=self.rows(node),
        )

    def nodes(self) -> list[NodeRow]:
        return [self.node_row(node, depth) for node, depth in self.walk()]

    def loans_of(self, names: Iterable[str]) -> list[Loan]:
        """Return the loans in which one of *names* has a part."""
        wanted = frozenset(names)
        return [
            Loan(from_=lender, to=borrower, flavor=fr[0], resource=fr[1], amount=amount(fr[1], lot))
            for lender, borrower, fr, lot in self.loans
            if lender in wanted or borrower in wanted
        ]

    def flavors(self, world: World) -> list[FlavorRow]:
        """Return each flavor with what all queues and cohorts have and use of it."""
        found = []
        agents = {name: presence.flavors for name, presence in world.agents().items() if presence.present}
        for name, stored in world.objects.by_kind["ResourceFlavor"].items():
            nominal: dict[str, int] = {}
            used: dict[str, int] = {}
            queues: list[str] = []
            for node, _ in self.walk():
                for (flavor, resource), quota in node.quotas.items():
                    if flavor == name:
                        nominal[resource] = nominal.get(resource, 0) + quota.nominal
                        if node.is_cluster_queue and node.name not in queues:
                            queues.append(node.name)
                if node.is_cluster_queue:
                    totals = self._totals[node.name]
                    for flavor, resource in totals.reservation:
                        if flavor == name:
                            used[resource] = used.get(resource, 0) + totals.used((flavor, resource))
            spec = stored.object.spec if isinstance(stored.object, kueue.ResourceFlavor) else None
            found.append(
                FlavorRow(
                    name=name,
                    node_labels=dict(spec.node_labels) if spec is not None else {},
                    quota=[
                        FlavorTotal(resource=r, nominal=amount(r, n), used=amount(r, used.get(r, 0)))
                        for r, n in nominal.items()
                    ],
                    queues=queues,
                    agents=sorted(agent for agent, flavors in agents.items() if name in flavors),
                )
            )
        return found


def active_of(status: Mapping[str, object]) -> tuple[bool, str]:
    """Return whether a queue is active by its status, and why not."""
    condition = status["conditions"][0]  # type: ignore[index]
    if condition["status"] == "True":
        return True, ""
    return False, f"{condition['reason']}: {condition['message']}"


def stop_policy(spec: kueue.ClusterQueueSpec | None) -> str:
    """Return the stop policy where it says something."""
    policy = "" if spec is None else str(spec.stop_policy or "")
    return "" if policy == "None" else policy


def queue_node(tree: QuotaTree, queue: ClusterQueueView) -> Node | None:
    return tree.tree.cluster_queues.get(queue.name)


def _unique(node: Node) -> str:
    """A cohort may be called as a queue is."""
    return node.name if node.is_cluster_queue else f"cohort/{node.name}"


def _shared(total: int, among: Mapping[str, int]) -> dict[str, int]:
    """Return *total* in parts in proportion to *among*, whole units, the largest remainders first."""
    whole = sum(among.values())
    if not whole or not total:
        return {}
    parts = {name: total * one // whole for name, one in among.items()}
    left = total - sum(parts.values())
    for name in sorted(among, key=lambda n: (-(total * among[n] % whole), n))[:left]:
        parts[name] += 1
    return parts
