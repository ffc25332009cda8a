"""Manifests of jobs: every kind and shape, small enough that everything competes."""

from dataclasses import dataclass
from typing import Any

from .choices import Choices
from .grammar import OWN, PRIORITIES, Grammar, Manifest, copied
from .pods import LARGE
from .swarm import Features

ZONES = ("za", "zb")
PREFIX = "kueue.x-k8s.io/"


@dataclass
class JobGrammar:
    choices: Choices
    on: Features
    grammar: Grammar

    def job(self, name: str, kind: str = "", *, elastic: bool | None = None) -> Manifest:
        """Return a new job, of any kind unless one is given."""
        choices = self.choices
        kind = kind or choices.pick(("Job", "Own", "Job", "Own", "RayCluster", "JobSet", "RayJob"))
        labels: dict[str, str] = {}
        annotations: dict[str, str] = {}
        queue = choices.pick(self.grammar.locals)
        labels[f"{PREFIX}queue-name"] = queue
        if self.on.priorities and choices.chance(0.75):
            labels[f"{PREFIX}priority-class"] = choices.pick(PRIORITIES)
        if self.on.max_execution and choices.chance(0.08):
            labels[f"{PREFIX}max-exec-time-seconds"] = choices.pick(("20", "200"))
        theme = self.on.theme
        if self.on.constraints and choices.chance(0.6 if theme == "partial" else 0.15):
            annotations[f"{PREFIX}{choices.pick(('cannot-preempt', 'cannot-borrow'))}"] = "true"
        if self.on.gated and choices.chance(0.08):
            annotations[f"{PREFIX}admission-gated-by"] = "example.com/gate"
        if self.on.inactive and choices.chance(0.05):
            annotations[f"{PREFIX}priority-boost"] = choices.pick(("10", "-10"))
        if self.on.allowed_flavors and choices.chance(0.12):
            allowed = choices.pick(self.grammar.flavors)
            annotations[f"{PREFIX}workload-allowed-resource-flavors"] = allowed
        if elastic is None:
            elastic = self.on.elastic and choices.chance({"elastic": 0.8, "partial": 0.1}.get(theme, 0.4))
        if elastic:
            annotations[f"{PREFIX}elastic-job"] = "true"
        meta = {"name": name, "namespace": "default", "labels": labels, "annotations": annotations}
        count = choices.pick((1, 1, 2, 1, 2, 3, 4))
        match kind:
            case "Own":
                return self._own(meta, count, elastic=elastic)
            case "RayCluster":
                return self._ray(meta, count)
            case "RayJob":
                return self._ray_job(meta, count)
            case "JobSet" if self.on.several_pod_sets and not elastic:
                return self._job_set(meta, count)
            case _:
                return self._batch(meta, count, elastic=elastic)

    def resources(self) -> dict[str, str]:
        choices = self.choices
        found = {"cpu": str(choices.pick((1, 1, 1, 1, 2, 3)))}
        if len(self.grammar.resources) > 1 and choices.chance(0.5):
            found["gpu"] = str(choices.between(0, 2))
        if self.on.undeclared and choices.chance(0.3):
            found["memory"] = choices.pick(("1Gi", "0"))
        return found

    def _pod(self) -> Manifest:
        choices = self.choices
        requests = self.resources()
        container: Manifest = {"name": "main", "image": "busybox", "command": ["true"]}
        container["resources"] = {"requests": requests}
        if "gpu" in requests:
            container["resources"]["limits"] = {"gpu": requests["gpu"]}
        if self.on.limit_ranges and choices.chance(0.4):
            # Limits say what requests do not, or the namespace does.
            container["resources"] = {"limits": requests} if choices.chance(0.5) else {}
        spec: Manifest = {"restartPolicy": "Never", "containers": [container]}
        if self.on.large and choices.chance(0.01):
            container["env"] = [{"name": "DATA", "value": LARGE[: 900 << 10]}]
        selector, terms, tolerations = self._place()
        if selector:
            spec["nodeSelector"] = selector
        if terms:
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            spec["affinity"] = {"nodeAffinity": required}
        if tolerations:
            spec["tolerations"] = tolerations
        return {"spec": spec}

    def _place(self) -> tuple[dict[str, str], list[Manifest], list[Manifest]]:
        """Return where pods may run: node selector, terms of the required node affinity, and tolerations."""
        choices, flavors = self.choices, self.grammar.flavors
        selector: dict[str, str] = {}
        terms: list[Manifest] = []
        tolerations: list[Manifest] = []
        if choices.chance(0.06):
            selector["pool"] = choices.pick(flavors)
        if choices.chance(0.1):
            tolerations.append({"key": "spot", "operator": "Exists"})
        if not self.on.placement:
            return selector, terms, tolerations
        if choices.chance(0.12):
            selector["zone"] = choices.pick(ZONES)
        for _ in range(choices.between(1, 2) if choices.chance(0.15) else 0):
            key, values = choices.pick((("pool", flavors), ("zone", ZONES), ("size", ("4", "8"))))
            operator = choices.pick(("In", "NotIn", "In", "Exists", "DoesNotExist"))
            if key == "size":
                operator = choices.pick(("Gt", "Lt"))
            requirement: Manifest = {"key": key, "operator": operator}
            if "Exist" not in operator:
                requirement["values"] = [choices.pick(values)]
            terms.append({"matchExpressions": [requirement]})
        if choices.chance(0.2):
            tolerations.append(
                choices.pick(
                    (
                        {"key": "tier", "operator": "Equal", "value": "gold"},
                        {"operator": "Exists"},
                        {"key": "spot", "operator": "Equal", "value": "false"},
                        {"key": "tier", "operator": "Exists", "effect": "NoExecute"},
                    )
                )
            )
        return selector, terms, tolerations

    def _batch(self, meta: Manifest, count: int, *, elastic: bool) -> Manifest:
        choices = self.choices
        spec: Manifest = {"parallelism": count, "suspend": True, "template": self._pod()}
        if choices.chance(0.4):
            spec["completions"] = count + choices.below(3)
            if choices.chance(0.4):
                spec["completionMode"] = "Indexed"
        if self._in_part(count, elastic=elastic):
            meta["annotations"][f"{PREFIX}job-min-parallelism"] = str(choices.between(1, count))
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}

    def _in_part(self, count: int, *, elastic: bool) -> bool:
        """Would the job do with fewer pods?"""
        often = 0.7 if self.on.theme == "partial" else 0.3
        return self.on.partial and not elastic and count > 1 and self.choices.chance(often)

    def _own(self, meta: Manifest, count: int, *, elastic: bool) -> Manifest:
        choices = self.choices
        spec: Manifest = {}
        if self.on.several_pod_sets and choices.chance(0.3):
            groups = []
            for n in range(choices.between(2, 3)):
                group = {"name": f"s{n}", "command": ["true"], "replicas": choices.between(1, 2)}
                groups.append({**group, "resources": self.resources(), **self._group_place()})
            spec["podSets"] = groups
        else:
            spec |= {"command": ["true"], "replicas": count, "resources": self.resources()}
            if self._in_part(count, elastic=elastic):
                spec["minReplicas"] = choices.between(1, count)
        if self.on.allowed_flavors and choices.chance(0.1):
            spec["admissionConstraints"] = {"allowedResourceFlavors": [choices.pick(self.grammar.flavors)]}
        return {"apiVersion": OWN, "kind": "Job", "metadata": meta, "spec": spec}

    def _group_place(self) -> Manifest:
        """Return where pods of our own kind may run, which names it without a template."""
        if not self.on.placement:
            return {}
        selector, terms, tolerations = self._place()
        found = {"nodeSelector": selector, "nodeAffinity": terms, "tolerations": tolerations}
        return {key: value for key, value in found.items() if value}

    def _cluster(self, count: int) -> Manifest:
        workers = {
            "groupName": "workers",
            "replicas": count,
            "minReplicas": 0,
            "maxReplicas": 8,
            "rayStartParams": {},
            "template": self._pod(),
        }
        groups = [workers]
        if self.on.several_pod_sets and self.choices.chance(0.2):
            groups.append({**workers, "groupName": "more", "replicas": 1, "template": self._pod()})
        head = {"rayStartParams": {}, "template": self._pod()}
        return {"headGroupSpec": head, "workerGroupSpecs": groups}

    def _ray(self, meta: Manifest, count: int) -> Manifest:
        spec = self._cluster(count)
        return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": meta, "spec": spec}

    def _ray_job(self, meta: Manifest, count: int) -> Manifest:
        """Return a job on a cluster of its own, submitted by a pod of its own or not."""
        spec: Manifest = {"entrypoint": "true", "rayClusterSpec": self._cluster(count)}
        spec |= {"shutdownAfterJobFinishes": True, "suspend": True}
        if self.choices.chance(0.5):
            spec["submissionMode"] = "HTTPMode"
        elif self.choices.chance(0.5):
            spec["submitterPodTemplate"] = self._pod()
        return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": meta, "spec": spec}

    def _job_set(self, meta: Manifest, count: int) -> Manifest:
        parts = [
            {
                "name": f"r{n}",
                "replicas": 1 if n else self.choices.between(1, 2),
                "template": {
                    "spec": {
                        "parallelism": min(count, 2),
                        "completions": min(count, 2),
                        "template": self._pod(),
                    }
                },
            }
            for n in range(self.choices.between(1, 2))
        ]
        spec = {"suspend": True, "replicatedJobs": parts}
        return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta, "spec": spec}

    # Changes

    def edited(self, before: Manifest) -> Manifest:
        """Return the job with one thing changed."""
        choices = self.choices
        found = copied(before)
        meta, spec = found["metadata"], found["spec"]
        gate = f"{PREFIX}admission-gated-by"
        if gate in meta["annotations"] and choices.chance(0.5):
            del meta["annotations"][gate]
            return found
        match choices.below(9):
            case 0 | 1 | 2 | 3:
                self._resize(found, choices.pick((1, 2, 3, 4, 5, 0)))
            case 4:
                meta["labels"][f"{PREFIX}queue-name"] = choices.pick(self.grammar.locals)
            case 5:
                if self.on.priorities:
                    meta["labels"][f"{PREFIX}priority-class"] = choices.pick(PRIORITIES)
            case 6:
                self._pods(found, self._pod())
            case 7:
                if found["kind"] == "Job" and found["apiVersion"] == OWN and "podSets" not in spec:
                    spec["resources"] = self.resources()
                elif self.on.constraints:
                    key = f"{PREFIX}{choices.pick(('cannot-preempt', 'cannot-borrow'))}"
                    meta["annotations"][key] = choices.pick(("true", "false"))
            case _:
                kind = "Own" if found["apiVersion"] == OWN else found["kind"]
                elastic = f"{PREFIX}elastic-job" in meta["annotations"]
                return self.job(meta["name"], kind, elastic=elastic)
        return found

    def _resize(self, found: Manifest, count: int) -> None:
        spec = found["spec"]
        if found["apiVersion"] == "ray.io/v1":
            _cluster_of(spec)["workerGroupSpecs"][0]["replicas"] = count
        elif found["kind"] == "JobSet":
            spec["replicatedJobs"][0]["template"]["spec"]["parallelism"] = max(1, count)
        elif found["apiVersion"] == "batch/v1":
            spec["parallelism"] = count
            if found["metadata"]["annotations"].get(f"{PREFIX}job-completions-equal-parallelism") == "true":
                spec["completions"] = count
        elif "podSets" in spec:
            self.choices.pick(spec["podSets"])["replicas"] = count
        else:
            spec["replicas"] = count

    @staticmethod
    def _pods(found: Manifest, template: Any) -> None:
        if found["apiVersion"] == "batch/v1":
            found["spec"]["template"] = template

    def pod_sets(self, found: Manifest) -> dict[str, int]:
        """Return new counts for some of a job's pod sets, as JobScaled has them."""
        choices, spec = self.choices, found["spec"]
        if found["apiVersion"] == "ray.io/v1":
            return {"workers": choices.pick((1, 2, 3, 4, 0))}
        if "podSets" in spec:
            return {choices.pick(spec["podSets"])["name"]: choices.pick((1, 2, 3, 4, 0))}
        if found["kind"] == "JobSet":
            return {"r0": choices.between(1, 3)}
        return {"main": choices.pick((1, 2, 3, 4, 5, 0))}


def _cluster_of(spec: Manifest) -> Manifest:
    """Return the cluster in the spec of a RayCluster or RayJob."""
    found: Manifest = spec.get("rayClusterSpec", spec)
    return found


__all__ = ["JobGrammar"]
