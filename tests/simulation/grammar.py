"""A grammar of small worlds: queues, cohorts, flavors and settings, and edits of any of it.

Everything competes: quotas from 0 to 6, few flavors, few queues. What makes no sense is refused by the api's
own validation (`core.config.plan`), as it would be for people.
"""

from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from .choices import Choices
from .swarm import Features

Manifest = dict[str, Any]

KUEUE = "kueue.x-k8s.io/v1beta2"
OWN = "sluice.dev/v1alpha1"
CONTROLLERS = ("ctl-a", "ctl-b")
CHECKS = ("check-a", "check-b", "check-c")
PRIORITIES = ("low", "middle", "high")
STOPS = ("None", "None", "None", "Hold", "HoldAndDrain")
GATES = (
    "ConcurrentAdmission",
    "ElasticJobsViaWorkloadSlices",
    "PartialAdmission",
    "WorkloadAdmissionConstraints",
    "ReclaimablePods",
    "FlavorFungibility",
    "PrioritySortingWithinCohort",
    "FairSharingPreemptWithinNominal",
    "FairSharingPrioritizeNonBorrowing",
    "AdmissionGatedBy",
    "SchedulingEquivalenceHashing",
    "FlavorFungibilityPreserveScanProgress",
    "RecomputeAssignmentUponPreemptionTargetsOverlap",
    "PrioritizePreemptorWorkloads",
    "UnadmittedWorkloadsExplicitStatus",
)


def copied(found: Manifest) -> Manifest:
    """Return a deep copy: through JSON, which is several times faster than `copy.deepcopy`."""
    return cast(Manifest, msgspec.json.decode(msgspec.json.encode(found)))


def manifest(kind: str, name: str, spec: Manifest, api_version: str = KUEUE, **meta: Any) -> Manifest:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, **meta},
        "spec": spec,
    }


@dataclass
class Grammar:
    """Draws manifests; `objects` are the latest of each name, as people have them in their files."""

    choices: Choices
    on: Features
    objects: dict[tuple[str, str], Manifest] = field(default_factory=dict)
    flavors: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    cohorts: tuple[str, ...] = ()
    locals: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    budgets: tuple[str, ...] = ()
    resources: tuple[str, ...] = ("cpu",)

    # The beginning

    def world(self) -> list[Manifest]:
        """Return what a cell begins with, in the order of applying."""
        choices, on = self.choices, self.on
        fewest = 2 if on.theme == "racing" else 1
        crowded = on.theme == "preemption"
        self.flavors = tuple(f"f{n}" for n in range(choices.between(fewest, 2 if crowded else 4)))
        self.queues = tuple(f"q{n}" for n in range(choices.between(1, 6 if on.cohorts else 3)))
        most = 2 if crowded else 4
        self.cohorts = tuple(f"c{n}" for n in range(choices.between(1, most))) if on.cohorts else ()
        self.locals = tuple(f"lq{n}" for n in range(len(self.queues) + choices.below(2)))
        self.checks = CHECKS[: choices.between(1, 3)] if on.checks else ()
        if on.second_resource and choices.chance(0.8 if on.theme == "racing" else 0.5):
            self.resources = ("cpu", "gpu")
        found = [self.configuration()]
        found += [self.flavor(name) for name in self.flavors]
        if on.priorities:
            found += [self.priority(name, 100 * n) for n, name in enumerate(PRIORITIES)]
        found += [self.check(name) for name in self.checks]
        if on.budgets and self.checks:
            self.budgets = ("b0", "b1")[: choices.between(1, 2)]
            found += [self.budget(name) for name in self.budgets]
        found += [self.cohort(name) for name in self.cohorts if choices.chance(0.8)]
        found += [self.queue(name) for name in self.queues]
        found += [self.local(name, n) for n, name in enumerate(self.locals)]
        if on.limit_ranges:
            found.append(self.limit_range())
        for each in found:
            self.note(each)
        return found

    def take(self, found: list[Manifest]) -> list[Manifest]:
        """Go on from a world that somebody else has made."""
        named: dict[str, list[str]] = {}
        for each in found:
            named.setdefault(each["kind"], []).append(each["metadata"]["name"])
            self.note(each)
        self.flavors, self.queues = tuple(named["ResourceFlavor"]), tuple(named["ClusterQueue"])
        self.cohorts, self.locals = tuple(named.get("Cohort", ())), tuple(named["LocalQueue"])
        self.checks = tuple(named.get("AdmissionCheck", ()))
        groups = (each["spec"].get("resourceGroups", ()) for each in found if each["kind"] == "ClusterQueue")
        self.resources = tuple(
            dict.fromkeys(r for each in groups for one in each for r in one["coveredResources"])
        )
        return found

    def note(self, found: Manifest) -> None:
        self.objects[found["kind"], found["metadata"]["name"]] = found

    # Objects

    def flavor(self, name: str) -> Manifest:
        choices = self.choices
        spec: Manifest = {"nodeLabels": {"pool": name}}
        if choices.chance(0.05):
            spec["nodeTaints"] = [{"key": "spot", "value": "true", "effect": "NoSchedule"}]
        if self.on.placement:
            if choices.chance(0.5):
                spec["nodeLabels"]["zone"] = choices.pick(("za", "zb"))
            if choices.chance(0.2):
                spec["nodeLabels"]["size"] = choices.pick(("6", "2", "many"))
            if choices.chance(0.12):
                effect = choices.pick(("NoExecute", "NoSchedule", "PreferNoSchedule"))
                taint = {"key": "tier", "value": "gold", "effect": effect}
                spec.setdefault("nodeTaints", []).append(taint)
                if choices.chance(0.3):
                    spec["tolerations"] = [{"key": "tier", "operator": "Exists"}]
        return manifest("ResourceFlavor", name, spec)

    def priority(self, name: str, value: int) -> Manifest:
        return {
            "apiVersion": KUEUE,
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": name},
            "value": value,
        }

    def check(self, name: str) -> Manifest:
        choices = self.choices
        spec: Manifest = {"controllerName": choices.pick(CONTROLLERS)}
        if self.on.check_policies and choices.chance(0.4):
            spec["preemptionPolicy"] = "AfterCheckPassedOrOnDemand"
        return manifest("AdmissionCheck", name, spec)

    def budget(self, name: str) -> Manifest:
        """Return a budget that some jobs use up; what had to go for it is tried again before long."""
        choices = self.choices
        hours = {"resource": "cpu", "hours": choices.pick(("0.5", "0.05", "5"))}
        if choices.chance(0.3):
            hours["flavor"] = choices.pick(self.flavors)
        spec: Manifest = {
            "scope": choices.pick(({"namespace": "default"}, {"clusterQueue": choices.pick(self.queues)})),
            "period": {"unit": choices.pick(("Monthly", "Weekly"))},
            "limits": {"resourceHours": [hours]},
            "onExceeded": choices.pick(("Hold", "Evict")),
            "retryAfterSeconds": choices.pick((5, 60)),
        }
        if choices.chance(0.5):
            spec["assumedSeconds"] = choices.pick((60, 600))
        if choices.chance(0.4):
            spec["releaseQuotaAfterSeconds"] = 30
        return manifest("Budget", name, spec, OWN)

    def cohort(self, name: str) -> Manifest:
        choices = self.choices
        spec: Manifest = {}
        number = int(name[1:])
        if number and choices.chance(0.7):
            spec["parentName"] = f"c{choices.below(number)}"
        if choices.chance(0.4):
            spec["resourceGroups"] = self.groups(self.some_flavors(), limits="parentName" in spec)
        if self.on.fair_sharing and choices.chance(0.3):
            spec["fairSharing"] = {"weight": choices.pick(("1", "2", "0.5", "0"))}
        return manifest("Cohort", name, spec)

    def local(self, name: str, number: int) -> Manifest:
        choices = self.choices
        target = self.queues[number] if number < len(self.queues) else choices.pick(self.queues)
        spec: Manifest = {"clusterQueue": target}
        if self.on.stop_policies and choices.chance(0.05):
            spec["stopPolicy"] = choices.pick(STOPS)
        return manifest("LocalQueue", name, spec, namespace="default")

    def limit_range(self) -> Manifest:
        """Return limits that some jobs are within, whatever they ask for."""
        choices = self.choices
        item: Manifest = {"type": choices.pick(("Container", "Container", "Pod"))}
        for word in ("default", "defaultRequest") if item["type"] == "Container" else ():
            if choices.chance(0.5):
                item[word] = {"cpu": choices.between(1, 2 if word == "defaultRequest" else 3)}
        if choices.chance(0.5):
            item["max"] = {"cpu": choices.between(2, 3)}
        if choices.chance(0.2):
            item["min"] = {"cpu": choices.between(1, 2)}
        return manifest("LimitRange", "limits", {"limits": [item]}, "v1", namespace="default")

    def some_flavors(self) -> list[str]:
        choices = self.choices
        found = [name for name in self.flavors if choices.chance(0.7)] or [self.flavors[0]]
        if choices.chance(0.3):
            found.reverse()
        return found

    def groups(self, flavors: list[str], *, limits: bool) -> list[Manifest]:
        """Return resource groups; with a second group the second resource has flavors of its own."""
        choices = self.choices
        split = self.on.second_group and len(self.resources) > 1 and len(flavors) > 1
        split = split and choices.chance(0.7 if self.on.theme == "racing" else 0.4)
        if not split:
            return [self.group(self.resources, flavors, limits=limits)]
        cut = choices.between(1, len(flavors) - 1)
        return [
            self.group(self.resources[:1], flavors[:cut], limits=limits),
            self.group(self.resources[1:], flavors[cut:], limits=limits),
        ]

    def group(self, resources: tuple[str, ...], flavors: list[str], *, limits: bool) -> Manifest:
        return {
            "coveredResources": list(resources),
            "flavors": [
                {"name": name, "resources": [self.quota(each, limits=limits) for each in resources]}
                for name in flavors
            ],
        }

    def quota(self, resource: str, *, limits: bool) -> Manifest:
        choices = self.choices
        nominal = choices.pick((3, 2, 4, 1, 5, 3, 2, 6, 0))
        found: Manifest = {"name": resource, "nominalQuota": nominal}
        if limits and self.on.limits:
            if choices.chance(0.25):
                found["borrowingLimit"] = choices.between(0, 4)
            if choices.chance(0.25):
                found["lendingLimit"] = choices.between(0, nominal)
        return found

    def queue(self, name: str) -> Manifest:
        choices, on = self.choices, self.on
        spec: Manifest = {"namespaceSelector": {}}
        if choices.chance(0.03):
            spec["namespaceSelector"] = {"matchLabels": {"team": "a"}}
        if self.cohorts and choices.chance(0.95 if on.theme == "preemption" else 0.75):
            spec["cohortName"] = choices.pick(self.cohorts)
        spec["resourceGroups"] = self.groups(self.some_flavors(), limits="cohortName" in spec)
        racing = on.racing and choices.chance(
            {"racing": 0.9, "elastic": 0.1, "preemption": 0.1}.get(on.theme, 0.4)
        )
        if racing:
            spec["concurrentAdmissionPolicy"] = self.policy(spec)
        elif on.strict and choices.chance(0.3):
            spec["queueingStrategy"] = "StrictFIFO"
        if on.preemption and choices.chance(0.9):
            spec["preemption"] = self.preemption()
        if choices.chance(0.4):
            spec["flavorFungibility"] = self.fungibility()
        if on.fair_sharing and choices.chance(0.3):
            spec["fairSharing"] = {"weight": choices.pick(("1", "2", "0.5", "0"))}
        self.choose_checks(spec, {"checks": 0.9, "racing": 0.2, "preemption": 0.1}.get(on.theme, 0.5))
        return manifest("ClusterQueue", name, spec)

    def choose_checks(self, spec: Manifest, probability: float) -> None:
        choices = self.choices
        spec.pop("admissionChecksStrategy", None)
        if not self.checks or not choices.chance(probability):
            return
        known = [f["name"] for group in spec["resourceGroups"] for f in group["flavors"]]
        rules = []
        for name in self.checks:
            if choices.chance(0.6):
                rule: Manifest = {"name": name}
                if choices.chance(0.4):
                    rule["onFlavors"] = [choices.pick(known)]
                rules.append(rule)
        if rules:
            spec["admissionChecksStrategy"] = {"admissionChecks": rules}

    def policy(self, spec: Manifest) -> Manifest:
        choices, on = self.choices, self.on
        mode = choices.pick(("TryPreferredFlavors", "TryPreferredFlavors", "RetainFirstAdmission"))
        found: Manifest = {"migration": {"mode": mode}}
        groups = spec["resourceGroups"]
        names = [f["name"] for group in groups for f in group["flavors"]]
        if on.explicit_variants and (len(groups) > 1 or choices.chance(0.4)):
            variants = self.variants(groups)
            found["explicitVariants"] = variants
            if mode == "TryPreferredFlavors" and choices.chance(0.2):
                last = choices.pick(variants)["name"]
                found["migration"]["constraints"] = {"lastAcceptableVariantName": last}
        elif mode == "TryPreferredFlavors" and choices.chance(0.25):
            found["migration"]["constraints"] = {"lastAcceptableFlavorName": choices.pick(names)}
        return found

    def variants(self, groups: list[Manifest]) -> list[Manifest]:
        """Return explicit variants, each with a flavor of every group."""
        choices = self.choices
        found = []
        for number in range(choices.between(1, 3)):
            allowed: list[str] = []
            for group in groups:
                names = [f["name"] for f in group["flavors"]]
                allowed += [name for name in names if choices.chance(0.4)] or [choices.pick(names)]
            variant: Manifest = {"name": f"v{number}", "allowedResourceFlavors": allowed}
            if self.on.delays and choices.chance(0.3):
                variant["createDelaySeconds"] = choices.pick((5, 60))
            if self.on.delays and choices.chance(0.3):
                variant["deleteDelaySeconds"] = choices.pick((5, 60))
            found.append(variant)
        return found

    def preemption(self) -> Manifest:
        choices = self.choices
        found: Manifest = {
            "withinClusterQueue": choices.pick(
                ("LowerPriority", "LowerOrNewerEqualPriority", "LowerPriority", "Never")
            ),
            "reclaimWithinCohort": choices.pick(("Any", "LowerPriority", "Any", "Never")),
        }
        if found["reclaimWithinCohort"] != "Never" and choices.chance(0.4):
            found["borrowWithinCohort"] = {"policy": "LowerPriority"}
            if choices.chance(0.4):
                found["borrowWithinCohort"]["maxPriorityThreshold"] = choices.pick((0, 100))
        return found

    def fungibility(self) -> Manifest:
        choices = self.choices
        found = {
            "whenCanBorrow": choices.pick(("MayStopSearch", "TryNextFlavor")),
            "whenCanPreempt": choices.pick(("TryNextFlavor", "MayStopSearch")),
        }
        if set(found.values()) == {"TryNextFlavor"} and choices.chance(0.4):
            found["preference"] = choices.pick(("BorrowingOverPreemption", "PreemptionOverBorrowing"))
        return found

    def configuration(self) -> Manifest:
        choices, on = self.choices, self.on
        spec: Manifest = {}
        if on.fair_sharing and choices.chance(0.6):
            spec["fairSharing"] = {"enable": True}
            if choices.chance(0.4):
                spec["fairSharing"]["preemptionStrategies"] = [
                    choices.pick(("LessThanOrEqualToFinalShare", "LessThanInitialShare"))
                ]
        if on.pods_ready and choices.chance(0.6):
            spec["waitForPodsReady"] = self.pods_ready()
        if on.feature_gates and choices.chance(0.5):
            gates = {choices.pick(GATES): choices.chance(0.5) for _ in range(choices.between(1, 3))}
            spec["featureGates"] = gates
        if choices.chance(0.3):
            spec["workloadSliceHistoryLimit"] = choices.between(0, 2)
        if choices.chance(0.2):
            spec["workloadSliceRetentionSeconds"] = 30
        if choices.chance(0.3):
            spec["retainFinishedJobsCount"] = choices.between(0, 4)
        if choices.chance(0.2):
            spec["retainFinishedJobsSeconds"] = choices.pick((10, 300))
        if choices.chance(0.3):
            spec["preemptionGateTimeoutSeconds"] = choices.pick((10, 60))
        if on.checks and choices.chance(0.3):
            spec["admissionChecks"] = {
                "backoffBaseSeconds": choices.pick((1, 30)),
                "controllerGraceSeconds": choices.pick((0, 30)),
            }
            if choices.chance(0.4):
                spec["admissionChecks"]["answerTimeoutSeconds"] = 40
        if on.undeclared:
            strategy = "BlockUndeclared" if choices.chance(0.2) else "IgnoreUndeclared"
            spec["quotaCheckStrategy"] = strategy
        return manifest("Configuration", "default", spec, OWN)

    def pods_ready(self) -> Manifest:
        choices = self.choices
        found: Manifest = {"enable": True, "timeoutSeconds": choices.pick((30, 300))}
        if choices.chance(0.3):
            found["recoveryTimeoutSeconds"] = 20
        if choices.chance(0.3):
            found["blockAdmission"] = True
        strategy: Manifest = {"backoffBaseSeconds": choices.pick((1, 60))}
        if choices.chance(0.3):
            strategy["backoffLimitCount"] = choices.between(0, 2)
        if choices.chance(0.3):
            strategy["timestamp"] = "Creation"
        found["requeuingStrategy"] = strategy
        return found

    # Edits

    def edit(self) -> Manifest | None:
        """Return an object with one thing changed, or one made again."""
        choices = self.choices
        if self.on.limit_ranges and choices.chance(0.25):
            return self.limit_range()
        if self.budgets and choices.chance(0.1):
            return self.budget(choices.pick(self.budgets))
        kind = choices.pick(
            ("ClusterQueue", "ClusterQueue", "ClusterQueue", "LocalQueue", "Configuration", "Cohort",
             "AdmissionCheck", "ResourceFlavor")
        )  # fmt: skip
        match kind:
            case "ClusterQueue":
                return self.edited_queue(choices.pick(self.queues))
            case "LocalQueue":
                return self.edited_local(choices.pick(self.locals))
            case "Configuration":
                return self.edited_configuration()
            case "Cohort" if self.cohorts:
                return self.cohort(choices.pick(self.cohorts))
            case "AdmissionCheck" if self.checks:
                return self.check(choices.pick(self.checks))
            case "ResourceFlavor":
                return self.flavor(choices.pick(self.flavors))
        return None

    def edited_queue(self, name: str) -> Manifest:
        choices, on = self.choices, self.on
        before = self.objects.get(("ClusterQueue", name))
        if before is None:
            return self.queue(name)
        found = copied(before)
        spec = found["spec"]
        match 9 if on.theme == "racing" and choices.chance(0.3) else choices.below(10):
            case 0 | 1 | 2:
                group = choices.pick(choices.pick(spec["resourceGroups"])["flavors"])
                choices.pick(group["resources"])["nominalQuota"] = choices.between(0, 6)
                for quota in group["resources"]:
                    quota.pop("lendingLimit", None)
            case 3:
                spec["resourceGroups"] = self.groups(self.some_flavors(), limits="cohortName" in spec)
                self._fit(spec)
            case 4:
                choices.pick(spec["resourceGroups"])["flavors"].reverse()
            case 5:
                spec["stopPolicy"] = choices.pick(STOPS) if on.stop_policies else "None"
            case 6:
                if on.preemption:
                    spec["preemption"] = self.preemption()
            case 7:
                self.choose_checks(spec, 0.7)
            case 8:
                if self.cohorts:
                    spec["cohortName"] = choices.pick(self.cohorts)
            case _:
                policy = spec.get("concurrentAdmissionPolicy")
                if policy is not None and policy.get("explicitVariants"):
                    policy["explicitVariants"] = self.variants(spec["resourceGroups"])
                else:
                    spec["flavorFungibility"] = self.fungibility()
        return found

    def _fit(self, spec: Manifest) -> None:
        """Keep what refers to flavors in step with them, as people do; mostly."""
        if self.choices.chance(0.1):
            return
        self.choose_checks(spec, 0.4)
        policy = spec.get("concurrentAdmissionPolicy")
        if policy is not None and policy.get("explicitVariants"):
            policy["explicitVariants"] = self.variants(spec["resourceGroups"])

    def edited_local(self, name: str) -> Manifest:
        choices = self.choices
        found = self.local(name, self.locals.index(name))
        if self.on.repoint and choices.chance(0.7):
            found["spec"]["clusterQueue"] = choices.pick(self.queues)
        return found

    def edited_configuration(self) -> Manifest:
        """Switch one thing, and leave the rest as it is."""
        choices = self.choices
        found = copied(self.objects.get(("Configuration", "default")) or self.configuration())
        if self.on.feature_gates and choices.chance(0.6):
            gate = choices.pick(GATES)
            gates = found["spec"].setdefault("featureGates", {})
            gates[gate] = not gates.get(gate, True)
            return found
        other = self.configuration()["spec"]
        if other:
            name = choices.pick(sorted(other))
            found["spec"][name] = other[name]
        return found

    def deletion(self) -> tuple[str, str]:
        """Return (kind, name) of what somebody deletes."""
        choices = self.choices
        if self.on.limit_ranges and choices.chance(0.25):
            return "LimitRange", "limits"
        if self.budgets and choices.chance(0.1):
            return "Budget", choices.pick(self.budgets)
        kind = choices.pick(("LocalQueue", "ClusterQueue", "Cohort", "ResourceFlavor", "AdmissionCheck"))
        names = {
            "LocalQueue": self.locals,
            "ClusterQueue": self.queues,
            "Cohort": self.cohorts,
            "ResourceFlavor": self.flavors,
            "AdmissionCheck": self.checks,
        }[kind]
        return kind, choices.pick(names) if names else ""

    def again(self, kind: str, name: str) -> Manifest | None:
        """Return what was deleted, as it was or made anew."""
        match kind:
            case "ClusterQueue":
                fresh = self.choices.chance(0.5)
                return self.queue(name) if fresh else self.objects.get((kind, name))
            case "LocalQueue":
                return self.edited_local(name)
            case _:
                return self.objects.get((kind, name))


__all__ = ["CHECKS", "CONTROLLERS", "PRIORITIES", "Grammar", "Manifest"]
