"""Faults that were mended, each with the few lines that take its mend out again (`mutants` plays them).

A number with a word is a part of the fault that has a mend of its own. GATE: the gate ConcurrentAdmission is
switched off under families that run. NEW: found by the simulator itself. The others are not faults of the
past, but what everything rests on.
"""

# ruff: noqa: E501 - lines of code as they stand

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """`changes`: (file, text, what stood there instead)."""

    name: str
    what: str
    changes: tuple[tuple[str, str, str], ...]
    theme: str = ""
    """Seeds with this theme (`swarm.THEMES`) are tried first."""
    scene: str = ""
    """Seeds that open with this scene (`scenes.SCENES`) are tried before those."""
    seed: int = 0
    """The one that has found it, which is tried before all others; 0: none yet."""


MENDED: tuple[Mutant, ...] = (
    Mutant(
        "B1",
        "a parent is admitted as a variant whose stop is not settled",
        (
            (
                "libs/sluice/core/variants/state.py",
                "return self.admitted_at is not None and not (self.evicted or self.stopped)",
                "return self.admitted_at is not None and not self.evicted",
            ),
            (
                "libs/sluice/core/variants/state.py",
                "return self.admitted_at is not None and (self.evicted or self.stopped)",
                "return self.admitted_at is not None and self.evicted",
            ),
        ),
        theme="racing",
        seed=118,
    ),
    Mutant(
        "B2",
        "what has quota becomes a parent, or stops being one, without being stopped",
        (
            (
                "libs/sluice/core/world/variants.py",
                "record = workload.record\n    if record.parent is not None:\n        return None\n    local",
                "record = workload.record\n    if True:\n        return None\n    local",
            ),
            (
                "libs/sluice/core/world/variants.py",
                "    return parent is not None and parent.assignment is not None",
                "    return False",
            ),
            (
                "libs/sluice/core/variants/decide.py",
                "    if family.holds and not family.marked:",
                "    if False:",
            ),
        ),
        theme="racing",
        scene="repointed",
        seed=1205,
    ),
    Mutant(
        "B3",
        "flavors that the job allows are dropped in a racing queue",
        (
            (
                "libs/sluice/core/variants/membership.py",
                "wanted = restricted(policy, family.record.allowed_flavors)",
                "wanted = restricted(policy, ())",
            ),
        ),
        theme="racing",
        seed=31,
    ),
    Mutant(
        "B4",
        "variants of which one is still on its way out count as what the queue asks for",
        (
            (
                "libs/sluice/core/variants/membership.py",
                "is_whole = is_whole and place is not None and not found and _agrees(variant, place[1])",
                "is_whole = is_whole or (place is not None and not found and _agrees(variant, place[1]))",
            ),
        ),
        theme="racing",
        seed=695,
    ),
    Mutant(
        "B4-stop",
        "whoever runs within its new flavors is stopped for them",
        (
            (
                "libs/sluice/core/variants/membership.py",
                "if variant.assignment is None or not within(variant.assignment, wanted.flavors):\n            return",
                "if True:\n            return",
            ),
        ),
        theme="racing",
        scene="explicit",
        seed=89,
    ),
    Mutant(
        "B4-why",
        "what has stopped because its queue was edited is said to have lost its executor",
        (
            (
                "libs/sluice/core/variants/decide.py",
                "reason=family.stopped_reason or family.leaving_reason,",
                "reason=family.stopped_reason,",
            ),
        ),
        theme="racing",
        seed=31,
    ),
    Mutant(
        "B5",
        "what siblings share is asked for twice",
        (
            (
                "libs/sluice/core/flavors/search.py",
                "self.shared = family_usage(world, workload, cq.name) if record.parent is not None else {}",
                "self.shared: dict[FlavorResource, int] = {}",
            ),
        ),
        theme="racing",
        seed=224,
    ),
    Mutant(
        "B5-wake",
        "a variant is woken only by as much as if its siblings held nothing",
        (
            (
                "libs/sluice/core/cycle/requeue_filter.py",
                "    if held:\n        sums = _beyond(sums, held)\n",
                "",
            ),
        ),
        theme="racing",
        scene="shared",
        seed=541,
    ),
    Mutant(
        "B5-charge",
        "what siblings share is charged twice",
        (
            (
                "libs/sluice/core/world/charging.py",
                "        return next(usage for each, usage in family if each is workload)\n",
                "        return needs(world, workload)\n",
            ),
            (
                "libs/sluice/core/world/charging.py",
                "    if workload.record.parent is not None:\n        return _recharge_family(world, workload, workload.record.parent)\n",
                "",
            ),
        ),
        theme="racing",
        scene="shared",
        seed=1325,
    ),
    Mutant(
        "SC5-keeper",
        "what was kept for a StrictFIFO blocker that has gone is offered to nobody",
        (
            (
                "libs/sluice/core/queueing/manager.py",
                "            if before is not None:\n                self.wake(queue)",
                "            if False:\n                self.wake(queue)",
            ),
        ),
        theme="preemption",
        scene="blocker",
        seed=121,
    ),
    Mutant(
        "B5-preempt",
        "one variant is preempted for what its sibling goes on to hold",
        (
            (
                "libs/sluice/core/preemption/targets.py",
                "    if any(target.workload.record.parent is not None for target in targets):\n        return _with_siblings",
                "    if False:\n        return _with_siblings",
            ),
        ),
        theme="racing",
        scene="heirs",
        seed=1109,
    ),
    Mutant(
        "B6",
        "a preemptor that waits holds up its whole queue",
        (
            (
                "libs/sluice/core/cycle/cycle.py",
                "if name in self._taken or self._is_mixed(queue):",
                "if queue.waiting or name in self._taken or self._is_mixed(queue):",
            ),
            (
                "libs/sluice/core/cycle/woken.py",
                "if queue is not None and name not in taken:",
                "if queue is not None and not queue.waiting and name not in taken:",
            ),
            (
                "libs/sluice/core/cycle/cycle.py",
                "if queue.name not in self._taken and not queue.stopped:",
                "if not queue.waiting and queue.name not in self._taken and not queue.stopped:",
            ),
        ),
        theme="preemption",
        scene="preemptor-waits",
        seed=813,
    ),
    Mutant(
        "B6-theft",
        "what a preemptor waits for goes to others",
        (
            (
                "libs/sluice/core/queueing/overcommit.py",
                "    family = []\n    for name in sorted(tree.waiting):",
                "    family = []\n    for name in ():",
            ),
        ),
        theme="preemption",
        scene="preemptor-waits",
        seed=813,
    ),
    Mutant(
        "B7",
        "a variant starts before a better one has had its turn to preempt",
        (
            (
                "libs/sluice/core/world/variants.py",
                "    parent = workload.record.parent\n    if parent is not None and not workload.in_turn:\n        for other in world.families.get(parent, {}).values():\n            if (other.tries",
                "    parent = None\n    if parent is not None:\n        for other in world.families.get(parent, {}).values():\n            if (other.tries",
            ),
        ),
        theme="racing",
        seed=168,
    ),
    Mutant(
        "B8",
        "the gate of a variant that runs stays open",
        (
            (
                "libs/sluice/core/variants/fold.py",
                "if variant.gate_at is not None or family.admitted_at is not None:",
                "if family.admitted_at is not None:",
            ),
        ),
        theme="racing",
        seed=168,
    ),
    Mutant(
        "B9",
        "a pod that the system ends counts as one that has ended by itself",
        (
            (
                "services/agent/pods.py",
                "COUNTED = frozenset({Pod.STARTING, Pod.RUNNING})",
                "COUNTED = frozenset(Pod)",
            ),
        ),
        seed=4,
    ),
    Mutant(
        "B10",
        "a slice of the same size makes pods that are ready unready",
        (
            (
                "libs/sluice/core/slices/fold_inputs.py",
                "if grows(before, counts(job.placement)):",
                "if True:",
            ),
        ),
        theme="elastic",
        scene="as-it-grows",
        seed=1293,
    ),
    Mutant(
        "B10-withdraw",
        "growth that was taken back takes the place of what runs",
        (
            (
                "libs/sluice/core/world/workload_slices.py",
                "    old = replaced_slice(world, workload)\n    if old is None or workload.admitted_at is not None or old.evicted_at",
                "    old = None\n    if old is None or workload.admitted_at is not None or old.evicted_at",
            ),
        ),
        theme="elastic",
        seed=4,
    ),
    Mutant(
        "B11",
        "growth that was rejected stays so whatever is asked for",
        (
            (
                "libs/sluice/core/slices/resize.py",
                "return job.pending is not None and job.record.active and not job.pending.active",
                "return False",
            ),
        ),
        theme="elastic",
        scene="rejected",
        seed=625,
    ),
    Mutant(
        "B12",
        "a complete set of verdicts is taken back because a controller is away",
        (
            (
                "libs/sluice/core/lifecycle/transitions.py",
                "    if not admits_what_is_ready(world, queue):",
                "    if not queue.active:",
            ),
        ),
        scene="two-retries",
        seed=45,
    ),
    Mutant(
        "B14",
        "nobody listens to who deactivates a job or activates it",
        (
            (
                "libs/sluice/core/slices/decide.py",
                "        case JobActivated() | JobDeactivated():\n            return switched(state, key, inbound, data)\n",
                "        case JobActivated() | JobDeactivated():\n            return ignored(inbound, DUPLICATE)\n",
            ),
        ),
        seed=4,
    ),
    Mutant(
        "B15",
        "the Retry that is heard of first counts, not the longest",
        (
            (
                "libs/sluice/core/checks/decide.py",
                "        if late is not None:\n            return late, outcome\n",
                "",
            ),
        ),
        theme="checks",
        scene="two-retries",
        seed=269,
    ),
    Mutant(
        "B16",
        "plain preemptions may go round",
        (
            (
                "libs/sluice/core/world/preemption_history.py",
                "        return any(victim in before for victim in victims)\n\n    def plan",
                "        return False\n\n    def plan",
            ),
            (
                "libs/sluice/core/world/preemption_history.py",
                "        return times if inputs == self._inputs else 0",
                "        return 0",
            ),
            # Of families only one takes part in a cycle, whose plans can go round for others hardly ever.
            (
                "libs/sluice/core/cycle/admission.py",
                "            self._note(victim.record.parent or victim.key, Part.LEAVES)\n",
                "",
            ),
            # Nor is anybody preempted for what a sibling has just got.
            (
                "libs/sluice/core/cycle/admission.py",
                "self._parts.get(victim.record.parent or victim.key) is Part.GETS",
                "self._parts.get(victim.key) is Part.GETS",
            ),
        ),
        theme="preemption",
        scene="swapped",
        seed=585,
    ),
    Mutant(
        "B16-memory",
        "nobody remembers who was preempted by whom",
        (
            (
                "libs/sluice/core/world/preemption_history.py",
                "        self._put(key, other, times, preemptor.cluster_queue, victim.cluster_queue)",
                "        pass",
            ),
        ),
        theme="preemption",
        scene="at-odds",
        seed=689,
    ),
    Mutant(
        "B16-through",
        "who was preempted through others is not known",
        (
            (
                "libs/sluice/core/world/preemption_history.py",
                "        found: dict[WorkloadKey, None] = {}\n        todo = [victim]",
                "        found: dict[WorkloadKey, None] = {}\n        todo = []",
            ),
        ),
        theme="preemption",
        scene="at-odds",
        seed=689,
    ),
    Mutant(
        "B16-vain",
        "what is preempted in vain is preempted again and again",
        (
            (
                "libs/sluice/core/world/preemption_history.py",
                "            return 0\n        return edge.times",
                "            return 0\n        return 0",
            ),
            # While what it waits for is kept for it, and it comes first when that is free, no preemption is in
            # vain: this memory is a second line of defence.
            (
                "libs/sluice/core/cycle/serving.py",
                "        return entry.proposal.mode is Mode.FIT or (not one.victims and self._gets_promised(entry, one))",
                "        return False",
            ),
            (
                "libs/sluice/core/queueing/overcommit.py",
                "    family = []\n    for name in sorted(tree.waiting):",
                "    family = []\n    for name in ():",
            ),
        ),
        theme="preemption",
        scene="in-vain",
        seed=917,
    ),
    Mutant(
        "B17",
        "a constraint leads to partial admission",
        (
            (
                "libs/sluice/core/cycle/nomination.py",
                "    if not (record.cannot_borrow or record.cannot_preempt):",
                "    if True:",
            ),
        ),
        theme="partial",
        scene="constrained",
        seed=33,
    ),
    Mutant(
        "GATE-move",
        "variants migrate where nobody races",
        (
            (
                "libs/sluice/core/world/variants.py",
                "    if spec is None or policy is None:\n        return RACE_OVER\n",
                '    if spec is None or policy is None:\n        return ""\n',
            ),
        ),
        theme="racing",
        scene="gate",
        seed=193,
    ),
    Mutant(
        "GATE-off",
        "variants may use any flavor while the gate is off",
        (
            (
                "libs/sluice/core/world/variants.py",
                "if not allowed or (record.parent is None and not enabled(config.feature_gates, CONCURRENT_ADMISSION)):",
                "if not allowed or not enabled(config.feature_gates, CONCURRENT_ADMISSION):",
            ),
        ),
        theme="racing",
        scene="gate",
        seed=417,
    ),
    Mutant(
        "NEW-1",
        "pod sets that come to the last flavor at different times begin anew by turns",
        (
            (
                "libs/sluice/core/flavors/search.py",
                "ended = came == -1 or not self._fungible",
                "ended = not self._fungible",
            ),
        ),
        scene="several-sets",
        seed=113,
    ),
    Mutant(
        "NEW-2",
        "an attempt whose claim has expired is run again",
        (
            (
                "libs/sluice/sdk/execution/_attempts.py",
                "elif owner is not None and owner.over:",
                "elif False:",
            ),
            (
                "libs/sluice/sdk/execution/_attempts.py",
                "        elif owner is not None:\n            self._give_back(attempt, owner)\n",
                "",
            ),
        ),
        seed=27,
    ),
    Mutant(
        "NEW-3",
        "a verdict on the last flavors, or on pod sets together, is not looked at again",
        (
            (
                "libs/sluice/core/cycle/requeue_filter.py",
                "if resumed or reason not in _HOPELESS:",
                "if reason not in _HOPELESS:",
            ),
            (
                "libs/sluice/core/cycle/requeue_filter.py",
                "if len(pod_sets) > 1 and reason == EXCEEDS_MAX_QUOTA:",
                "if False:",
            ),
        ),
        scene="several-sets",
        seed=113,
    ),
    Mutant(
        "NEW-4",
        "a search that is over is begun anew while its queue is open",
        (("libs/sluice/core/queueing/manager.py", "peers.searched = tree.epoch", "peers.searched = 0"),),
        scene="siblings-wait",
        seed=5,
    ),
    Mutant(
        "NEW-5",
        "who cannot borrow gives up when others borrow",
        (
            (
                "libs/sluice/core/queueing/overcommit.py",
                "    later = {other.key for other in came_later(workload, queue)}",
                "    later = set()",
            ),
        ),
        theme="checks",
        scene="borrowers",
        seed=261,
    ),
    Mutant(
        "NEW-6",
        "who only reserves keeps others waiting for its pods",
        (
            (
                "libs/sluice/core/cycle/admission.py",
                "self.blocked = not entry.beside and not checks_for(entry.cq.spec, planned.pod_sets)",
                "self.blocked = True",
            ),
        ),
        scene="reserves",
        seed=41,
    ),
    Mutant(
        "NEW-7",
        "a blocker that reserves searches for flavors in every cycle",
        (
            (
                "libs/sluice/core/cycle/admission.py",
                "    over = tree is not None and not tree.dirty and tree.is_searched(entry.peers)",
                "    over = False",
            ),
            (
                "libs/sluice/core/queueing/manager.py",
                "        if not (reserves and peers.searched):\n            peers.scan = None\n",
                "        peers.scan = None\n",
            ),
        ),
        theme="preemption",
        scene="blocker",
        seed=9,
    ),
    Mutant(
        "NEW-8",
        "a queued growth that its running slice has come up to goes on",
        (
            (
                "libs/sluice/core/scheduler/fold_inputs.py",
                "        what |= Mark.SLICE\n",
                "",
            ),
            (
                "libs/sluice/core/scheduler/settle.py",
                "    # Queued, too: it may ask for no more than the other one has now, and then it ends (`withdrawal`).\n    reindex(",
                "    else:\n        reindex(",
            ),
        ),
        theme="elastic",
        scene="taken-back",
        seed=277,
    ),
    Mutant(
        "NEW-9",
        "preemptions that are pending are issued although the gate is closed by now",
        (
            (
                "libs/sluice/core/lifecycle/transitions.py",
                "    if ended is None and workload.preemptions == PENDING and is_gated(workload):",
                "    if False:",
            ),
            (
                "libs/sluice/core/scheduler/fold_own.py",
                "if workload.preemptions == PENDING and workload.evicted_at is None and not is_gated(workload):",
                "if workload.preemptions == PENDING and workload.evicted_at is None:",
            ),
        ),
        theme="racing",
        scene="promised",
        seed=433,
    ),
    Mutant(
        "NEW-10",
        "variants count as equal whatever their siblings hold",
        (
            (
                "libs/sluice/core/scheduler/state.py",
                "        shared = [item for item in sorted(held.items()) if not allowed or item[0][0] in allowed]",
                "        shared: list[object] = []",
            ),
        ),
        theme="racing",
        scene="shared",
        seed=1325,
    ),
    Mutant(
        "NEW-11",
        "a size that comes as the quota goes is that of the slice that ends",
        (
            (
                "libs/sluice/core/slices/decider.py",
                "job.todo in _COMES_FIRST or job.pending_todo is Todo.WITHDRAW",
                "job.todo in (Todo.RESIZE, Todo.GROW)",
            ),
        ),
        theme="elastic",
        scene="as-quota-goes",
        seed=617,
    ),
    Mutant(
        "NEW-12",
        "a pending preemption goes on when quota is freed, though it needs nobody to go",
        (
            (
                "libs/sluice/core/scheduler/settle.py",
                "            quota_freed(state, queue.tree, cause)",
                "            pass",
            ),
        ),
        theme="checks",
        seed=90,
    ),
    Mutant(
        "G9",
        "quota is released before the executor has stopped",
        (
            (
                "libs/sluice/core/lifecycle/transitions.py",
                "        if workload.admitted_at is not None:\n            return []\n",
                "",
            ),
        ),
        seed=4,
    ),
    Mutant(
        "HELD",
        "a stand-by folds inputs at once instead of holding them back",
        (
            (
                "libs/sluice/log/fold.py",
                "                    self.held.append(entry)",
                "                    self.fold(entry)",
            ),
        ),
        seed=31,
    ),
    Mutant(
        "CLAIM",
        "an attempt is begun without a look at the log",
        (
            (
                "libs/sluice/sdk/execution/_attempts.py",
                "attempt.owner = answer.last, owner_of(answer.told, entry.uid, entry.attempt)",
                "attempt.owner = answer.last, None",
            ),
        ),
        scene="claims",
        seed=105,
    ),
    Mutant(
        "REFUSE-slices",
        "the slice-aggregator refuses all jobs",
        (
            (
                "libs/sluice/core/slices/decide.py",
                "    if not isinstance(request, JobRequest):\n        return rejected(inbound, request)\n    if job is not None:",
                "    if True:\n        return rejected(inbound, ())\n    if job is not None:",
            ),
        ),
        seed=2,
    ),
    Mutant(
        "REFUSE-variants",
        "the variant-controller does nothing",
        (
            (
                "libs/sluice/core/variants/decide.py",
                "    policy = state.policy_of(family)\n    if policy is None:\n        if not family.marked:",
                "    policy = state.policy_of(family)\n    if True:\n        return []\n    if policy is None:\n        if not family.marked:",
            ),
        ),
        theme="racing",
        seed=106,
    ),
    Mutant(
        "REFUSE-scheduler",
        "the scheduler finds room for nobody",
        (
            (
                "libs/sluice/core/cycle/admission.py",
                "        found = planned.deferred\n        if found:",
                "        entry.finish(Outcome.PARKED, texts.WAITING_FOR_QUOTA, texts.BEHIND)\n        return\n        found = planned.deferred\n        if found:",
            ),
        ),
        seed=2,
    ),
    Mutant(
        "REFUSE-checks",
        "the check service ignores all verdicts",
        (
            (
                "libs/sluice/core/checks/decide.py",
                "    if live is None or data.attempt != live.attempt:\n        late",
                "    if True:\n        late",
            ),
        ),
        theme="checks",
        seed=30,
    ),
    Mutant(
        "GROWTH",
        "a growth taken back and asked for again keeps what little is left of its reservation",
        (
            (
                "libs/sluice/core/slices/resize.py",
                "    return resizes(state, job)\n\n\ndef same_but_for_size(",
                "    return False\n\n\ndef same_but_for_size(",
            ),
            (
                "libs/sluice/core/lifecycle/transitions.py",
                "if running is not None and not grants_more(workload, running):",
                "if False and running is not None and not grants_more(workload, running):",
            ),
        ),
        theme="elastic",
        scene="asked-again",
        seed=741,
    ),
    Mutant(
        "GROWTH-sets",
        "a growth of other pods than were reserved replaces a slice of as many",
        (
            (
                "libs/sluice/core/lifecycle/transitions.py",
                "if running is not None and not grants_more(workload, running):",
                "if False and running is not None and not grants_more(workload, running):",
            ),
        ),
        theme="elastic",
        scene="asked-again",
        seed=965,
    ),
    Mutant(
        "APPROVAL",
        "any edit of a job that waits for its checks makes its workload anew",
        (
            (
                "libs/sluice/core/slices/decide.py",
                "moved = job.keeps_quota and not (alike and template_digest(submission) == job.template)",
                "moved = job.reserved",
            ),
        ),
        theme="checks",
        scene="edited",
        seed=521,
    ),
    Mutant(
        "COMPLETIONS",
        "a size is not bound by what must complete",
        (
            (
                "libs/sluice/core/slices/records.py",
                "    if count is not None and most is not None:\n        count = min(count, most)\n",
                "",
            ),
        ),
        theme="elastic",
        scene="completions",
        seed=525,
    ),
    Mutant(
        "COMPLETIONS-left",
        "a size is not bound by what is left to complete",
        (
            (
                "libs/sluice/core/slices/completions.py",
                "    if not ended:\n        return (created,)\n",
                "    if True:\n        return (created,)\n",
            ),
        ),
        theme="elastic",
        scene="completions",
        seed=189,
    ),
    Mutant(
        "GROWTH-deleted",
        "the growth of a job that is deleted is not taken back",
        (
            (
                "libs/sluice/core/slices/decide.py",
                "    return (*overtaken, stops, *without_growth(job, inbound.seq))\n",
                "    return (*overtaken, stops)\n",
            ),
        ),
        theme="elastic",
        seed=208,
    ),
    Mutant(
        "ADD-late",
        "a check takes back what it added to pods that were admitted with it",
        (
            (
                "libs/sluice/core/slices/fold_inputs.py",
                "    elif not job.admitted:\n        answered(job.updates, event)",
                "    else:\n        answered(job.updates, event)",
            ),
        ),
        theme="checks",
        scene="second-thoughts",
        seed=4849,
    ),
    Mutant(
        "ADD-other",
        "a check that does not count any more adds to the pods",
        (
            (
                "libs/sluice/core/workload/additions.py",
                "for name, updates in before.by_check.items() if name in event.checks}",
                "for name, updates in before.by_check.items()}",
            ),
        ),
        theme="checks",
        scene="second-thoughts",
        seed=497,
    ),
    Mutant(
        "LARGE-report",
        "a report is published that is too large to be taken",
        (
            (
                "libs/sluice/sdk/execution/_outcome.py",
                "    if len(message) > MESSAGE_MOST:",
                "    if False:",
            ),
        ),
        seed=14,
    ),
    Mutant(
        "LARGE-verdict",
        "a verdict is published that is too large to be taken",
        (
            (
                "libs/sluice/sdk/checks/_verdict_messages.py",
                "    if found.errors:",
                "    if False:",
            ),
        ),
        scene="second-thoughts",
        seed=385,
    ),
    Mutant(
        "PLACE",
        "tolerations and affinity of pods are not looked at",
        (
            (
                "libs/sluice/core/flavors/eligibility.py",
                "            if not _tolerated(taint, pod_set.tolerations):",
                "            if False:",
            ),
        ),
        seed=23,
    ),
    Mutant(
        "SPARE",
        "more are preempted than is necessary",
        (
            (
                "libs/sluice/core/preemption/candidates.py",
                "    for i in range(len(targets) - 2, -1, -1):",
                "    for i in ():",
            ),
        ),
        theme="preemption",
        seed=124,
    ),
    Mutant(
        "LATE-part",
        "a late write of a replaced leader is taken in part by a cell of several servers",
        (
            (
                "libs/sluice/log/runtime/projection_entries.py",
                """            headers["Nats-Batch-Id"] = mark
            headers["Nats-Batch-Sequence"] = str(n)
            if n == count:
                headers["Nats-Batch-Commit"] = "1"
""",
                """            headers["Nats-Expected-Last-Sequence"] = str(after + n - 1)
""",
            ),
        ),
        scene="written-late",
        seed=109,
    ),
    Mutant(
        "LATE-ids",
        "a late write of a replaced leader is taken in part by one server",
        (
            (
                "libs/sluice/log/runtime/projection_entries.py",
                """                headers["Nats-Expected-Last-Msg-Id"] = f"{mark}-{n - 1}"
""",
                """                headers["Nats-Expected-Last-Sequence"] = str(after + n - 1)
""",
            ),
        ),
        scene="written-late",
        seed=445,
    ),
    Mutant(
        "BUDGET-crossed",
        "budgets count pods that were scaled away before their reservation was told",
        (
            (
                "libs/sluice/core/budgets/consumption.py",
                "shrunk(event.pod_sets, held.pods)",
                "tuple(event.pod_sets)",
            ),
        ),
        theme="elastic",
        seed=914681596253,
    ),
    Mutant(
        "NEW-never-seen",
        "an executor that takes a job and never puts a heartbeat is never lost",
        (
            (
                "services/slice_aggregator/presence.py",
                """if present and name not in state.claimed)
        return [*there, *state.claimed]""",
                """if present or name in state.claimed)
        return list(there)""",
            ),
        ),
        seed=67,
    ),
    Mutant(
        "NEW-own-turn",
        "whose turn it is to preempt leaves what its victims gave up to a sibling whose gate is shut",
        (
            (
                "libs/sluice/core/world/variants.py",
                "    if parent is not None and not workload.in_turn:",
                "    if parent is not None:",
            ),
        ),
        scene="own-turn",
        seed=477,
    ),
    Mutant(
        "NEW-one-target",
        "a job that stops keeps quota in every better flavor that comes free meanwhile",
        (
            (
                "libs/sluice/core/world/variants.py",
                "    if not why and leaves is not None and _is_preceded(world, workload):",
                "    if not why and leaves is not None and _is_preceded(world, workload) is None:",
            ),
        ),
        theme="racing",
        seed=528,
    ),
    Mutant(
        "NEW-waits-on",
        "when a variant's turn is over, nothing is kept of what its victims leave",
        (
            (
                "libs/sluice/core/scheduler/fold_inputs.py",
                "    workload.waits_on = waits and ",
                "    workload.waits_on = False and ",
            ),
        ),
        theme="racing",
        seed=838,
    ),
    Mutant(
        "NEW-grown-back",
        "a job that got smaller and as large as it was is taken for admitted as the smaller one",
        (("libs/sluice/core/slices/resize.py", "    if observed:", "    if observed < 0:"),),
        seed=10,
    ),
    Mutant(
        "NEW-while-stopping",
        "a job that is changed while its quota is not free yet gets another workload",
        (
            (
                "libs/sluice/core/slices/state.py",
                "return self.reserved and not self.evicting",
                "return self.reserved",
            ),
        ),
        seed=6,
    ),
    Mutant(
        "NEW-ended-before",
        "pods that ended in the attempt before give quota back when the next one begins",
        (
            (
                "libs/sluice/core/slices/fold_own.py",
                "job.placement, job.reclaimable, job.remaining = (), {}, {}",
                "job.placement, job.remaining = (), {}",
            ),
        ),
        theme="elastic",
    ),
    Mutant(
        "NEW-off-and-on",
        "who is switched off as a check asks for a retry, and on again, is not held back",
        (
            (
                "libs/sluice/core/lifecycle/transitions.py",
                "    if backing_off and (workload.requeue_at or 0) > at:",
                "    if backing_off and held_for in _BACKING_OFF and (workload.requeue_at or 0) > at:",
            ),
        ),
        theme="checks",
    ),
    Mutant(
        "NEW-reserved-before",
        "a variant keeps quota that it has from before an edit of its job, and the job runs with it",
        (
            (
                "libs/sluice/core/slices/fold_inputs.py",
                "made_before = job.edited or isinstance(event, ParentAdmitted)",
                "made_before = job.edited",
            ),
            (
                "libs/sluice/core/variants/decide.py",
                "    events = _outdated(state, family)\n    if events:\n        return events\n",
                "",
            ),
        ),
        scene="reserved-before",
        seed=113,
    ),
    Mutant(
        "NEW-moves-to-its-end",
        "a job that only has to stop keeps what it was moving to",
        (
            (
                "libs/sluice/core/variants/decide.py",
                "_ended(family) if family.ending else membership",
                "membership",
            ),
        ),
        theme="racing",
        seed=168,
    ),
)

ELSEWHERE: tuple[tuple[str, str, str], ...] = (
    (
        "NEW-remembered",
        "a submission ends the memory of preemptions in a racing queue, too: no seed comes to it",
        "tests/unit/core/variants/test_sharing.py",
    ),
    (
        "B8",
        "errors, and what variants look like: texts of one manifest",
        "tests/unit/core/variants/test_families.py",
    ),
    (
        "B13",
        "parameters of a team's own kind: a function of two manifests",
        "tests/unit/config/test_custom_kinds.py",
    ),
    ("B14", "what submit and job scale report: texts", "tests/e2e/test_job_manifests.py"),
    (
        "B15",
        "how several Retries are named, and other messages: texts",
        "tests/unit/core/checks/test_retry.py",
    ),
    (
        "B17",
        "the field form of constraints, and refusals: texts of one manifest",
        "tests/unit/api/test_constraints.py",
    ),
    ("B18", "events, messages and conditions as Kueue's: texts", "tests/unit/core/views/test_notices.py"),
)
"""(fault, the part of it in which no history plays a role, the tests that hold it)."""

__all__ = ["ELSEWHERE", "MENDED", "Mutant"]
