# SPDX-License-Identifier: Apache-2.0
"""
What a dishonest server tries against the workers of private_model.py. Each attack gives back the sum that it has found,
of fewer samples than workers allow, or None where it was refused; ATTACKS says what workers have to be naive about.
"""

from dataclasses import replace

from private_model import (AGAIN, ANY_BOUND, BATCHES, CHUNKS, CLAMPED_AT, COVER, FORGETS, FORGETS_HELD, GRID, GROUP, HELD,
                           HOLDERS, JOB_HELD, KEY_JOB, KEYS, LAST_LOCK, LISTED, OWN, PARAMETERS, PINNED_GRID, PLACES, PLAN,
                           REQUIRED, RULES, SAME_KEY, SAMPLES, SATURATES, SIGNER, SMALL_CHUNKS, STRIPES, TARGET, WORKERS,
                           Asked, Claim, Found, Job, mask, plan_of, secret_of, signed, sum_of, total)

ASKED, JOB = Asked(), Job()
NO_GRADIENT = 0  # parameters at which nothing has one
COLLUDER = WORKERS - 1  # who tells the server all that it knows
VICTIM = 0
FIRST_CHUNK = frozenset(JOB.plan.samples[0])
VICTIMS = frozenset(sample for chunk, holder in enumerate(ASKED.holders) if holder == VICTIM
                    for sample in JOB.plan.samples[chunk])
# Chunk 0, which is the victim's, is said to be taken from another one that holds it.
WITHOUT_FIRST = (1, *ASKED.holders[1:])


def difference(whole, other, samples):
    """Of two sums, or of two parts with the same masks."""
    found = total([whole, other], [1, -1])
    return None if found is None else Found(signed(found[0]), frozenset(samples))


# ---- attempts ----

def other_holders(world):
    """An honest attempt, and one in which one worker is told that another one has a chunk of its."""
    workers = world.begin()
    told = replace(ASKED, attempt=2)
    return difference(world.sum(workers, ASKED),
                      world.sum(workers, told, {VICTIM: replace(told, holders=WITHOUT_FIRST)}), FIRST_CHUNK)


def smaller_group(world):
    """An honest attempt, and one in which all but one are told that it sends nothing."""
    workers = world.begin()
    told = replace(ASKED, attempt=2, group=tuple(id for id in ASKED.group if id != VICTIM))
    return difference(world.sum(workers, ASKED),
                      world.sum([worker for worker in workers if worker.id != VICTIM], told), VICTIMS)


def other_parameters(world):
    """An honest attempt, and one in which one worker's parameters are such that it has nothing to say."""
    workers = world.begin()
    told = replace(ASKED, attempt=2)
    return difference(world.sum(workers, ASKED),
                      world.sum(workers, told, {VICTIM: replace(told, parameters=NO_GRADIENT)}), VICTIMS)


def asked_again(world):
    """The same attempt of one worker, with and without a chunk."""
    victim = world.begin()[VICTIM]
    return difference(world.ask(victim, ASKED), world.ask(victim, replace(ASKED, holders=WITHOUT_FIRST)), FIRST_CHUNK)


def replayed(world):
    """A round that is over, once more, with other parameters."""
    workers = world.begin()
    parts = [world.ask(worker, ASKED) for worker in workers]
    world.sum(workers, replace(ASKED, round=1))
    return difference(parts[VICTIM], world.ask(workers[VICTIM], replace(ASKED, parameters=NO_GRADIENT)), VICTIMS)


def second_life(world):
    """A worker dies and comes again, and its next life is told of the same attempt, with other parameters."""
    workers = world.begin()
    first = world.ask(workers[VICTIM], ASKED)
    second = world.live(VICTIM)
    if not second.agree(JOB) or not all([second.hear(one.id, one.claim()) for one in workers if one.id != VICTIM]):
        return None
    return difference(first, world.ask(second, replace(ASKED, parameters=NO_GRADIENT)), VICTIMS)


# ---- keys: the victim's part alone, whose masks are known to whoever has made the keys of all others ----

def unmasked(world, claim_of):
    victim = world.live(VICTIM)
    others = {id: claim_of(id) for id in range(WORKERS) if id != VICTIM}
    if not victim.agree(JOB) or not all([victim.hear(id, claim) for id, claim in others.items()]):
        return None
    part, kappa = world.ask(victim, ASKED), victim.kappa(ASKED)
    # The victim has the lowest id, and has subtracted all masks.
    words = [word + sum(mask(secret_of(victim.key, claim.key), kappa, place) for claim in others.values())
             for place, word in zip(victim.places(), part)]
    return Found(signed(words[0]), VICTIMS)


def forged_keys(world):
    """Keys of the server's own."""
    return unmasked(world, lambda id: Claim(("forged", id), None, JOB.name))


def swapped_keys(world):
    """The key of a worker that colludes, in the place of all others."""
    return unmasked(world, lambda _: Claim(("key", COLLUDER, 1), COLLUDER, JOB.name))


def stale_keys(world):
    """Keys of an earlier job, whose secrets have come out since."""
    return unmasked(world, lambda id: Claim(("old", id), id, "an earlier job"))


def unlisted_keys(world):
    """Keys of workers that the authority has certified, and that are not on the list."""
    return unmasked(world, lambda id: Claim(("unlisted", id), id, JOB.name, listed=False))


# ---- jobs, grids and plans ----

def no_rules(world):
    """The server says nothing of secure sums."""
    victim = world.live(VICTIM)
    if not victim.agree(replace(JOB, secure=False)):
        return None
    return Found(signed(world.ask(victim, ASKED)[0]), VICTIMS)


def weaker_rules(world):
    """One sample is enough, the server says; and the plan lets a colluder hold three copies of four."""
    plan = plan_of(copies=3)
    everything = world.sum(world.begin(replace(JOB, plan=plan, least=1)), ASKED)
    return without_what_is_held(everything, plan.held_by(COLLUDER))


def without_what_is_held(everything, held):
    if everything is None:
        return None
    return Found(signed(everything[0]) - sum_of(ASKED.parameters, held), frozenset(range(SAMPLES)) - held)


def second_job(world):
    """One with a sample less."""
    first = world.sum(world.begin(), ASKED)
    fewer = replace(JOB, name="second", plan=plan_of(tuple(range(SAMPLES - 1))))
    return difference(first, world.sum(world.begin(fewer), ASKED), {SAMPLES - 1})


def batches(world):
    """Rounds over some samples, in a job that says so: two that differ in one sample."""
    workers = world.begin(replace(JOB, batch=True))
    return difference(world.sum(workers, replace(ASKED, batch=tuple(range(10)))),
                      world.sum(workers, replace(ASKED, round=1, batch=tuple(range(9)))), {9})


def other_grid(world):
    """Jobs with a smaller and smaller bound, until the number of clamped ones says that only one chunk is beyond."""
    whole = world.sum(world.begin(), ASKED)
    for bound in range(1000, 0, -1):
        clamped = world.sum(world.begin(replace(JOB, name=f"bound {bound}", bound=bound)), ASKED)
        if clamped is None:
            return None
        if clamped[CLAMPED_AT] == 1:
            at = 0 if whole[0] != clamped[0] else 1
            beyond = signed(whole[at] - clamped[at])
            largest = max(range(CHUNKS), key=lambda chunk: abs(sum_of(ASKED.parameters, JOB.plan.samples[chunk], at)))
            return Found(beyond + (bound if beyond > 0 else -bound), frozenset(JOB.plan.samples[largest]), coordinate=at)
    return None


def isolated_sample(world):
    """The first sample alone in a chunk, and the rest of that chunk in another chunk of the same holders. Parameters and
    bound are such that the sample's number is below the bound, and the numbers of the other chunks are beyond it. The sum
    is that number and an odd multiple of the bound."""
    samples = JOB.plan.samples
    plan = replace(JOB.plan, samples=(samples[0][:1], *samples[1:4], samples[0][1:] + samples[4], *samples[5:]))
    for parameters in range(1, 10000):
        first, *others = [abs(sum_of(parameters, chunk)) for chunk in plan.samples]
        if 0 < first and first + 1 < min(others):
            break
    bound, asked = first + 1, replace(ASKED, parameters=parameters)
    whole = world.sum(world.begin(replace(JOB, plan=plan, bound=bound)), asked)
    return None if whole is None else Found(signed(whole[0]) % (2 * bound) - bound, frozenset(plan.samples[0]), parameters)


def one_other_grid(world):
    """One worker is told of a bound that leaves nothing of its numbers."""
    workers = world.begin()
    whole = world.sum(workers, ASKED)
    if not workers[VICTIM].agree(replace(JOB, bound=0)):
        return None
    return difference(whole, world.sum(workers, replace(ASKED, attempt=2)), VICTIMS)


def other_stripes(world):
    """One worker gets stripes of one number. It has a count, which the server knows, at the place where the others have
    their second number."""
    whole = world.sum(world.begin(), ASKED)
    workers = world.begin(others={VICTIM: replace(JOB, stripe=1)})
    mixed = world.sum(workers, replace(ASKED, attempt=2))
    if whole is None or mixed is None:
        return None
    others = mixed[1] - ASKED.holders.count(VICTIM)
    return Found(signed(whole[1] - others), VICTIMS, coordinate=1)


SHORT = replace(JOB.plan, samples=(JOB.plan.samples[0][1:], *JOB.plan.samples[1:]))
LEFT_OUT = {JOB.plan.samples[0][0]}


def a_plan_that_leaves_a_sample_out(world):
    """All workers are told of it, after a round with all samples."""
    workers = world.begin()
    whole = world.sum(workers, ASKED)
    if not all([worker.take(SHORT) for worker in workers]):
        return None
    return difference(whole, world.sum(workers, replace(ASKED, round=1)), LEFT_OUT)


def one_other_plan(world):
    """One worker is told of a plan that leaves a sample out."""
    workers = world.begin()
    whole = world.sum(workers, ASKED)
    if not workers[VICTIM].take(SHORT):
        return None
    return difference(whole, world.sum(workers, replace(ASKED, attempt=2)), LEFT_OUT)


def collected_chunks(world):
    """Plans, each good by itself, under which a colluder gets to hold all but some."""
    workers, held = world.begin(), set(JOB.plan.held_by(COLLUDER))
    everything = world.sum(workers, ASKED)
    plan = plan_of(turn=1)
    if not all([worker.take(plan) for worker in workers]):
        return None
    return without_what_is_held(everything, held | plan.held_by(COLLUDER))


def collected_over_lives(world):
    """The same, where all workers are killed in between."""
    held, plan = set(JOB.plan.held_by(COLLUDER)), plan_of(turn=1)
    everything = world.sum(world.begin(), ASKED)
    if world.begin(replace(JOB, plan=plan)) is None:
        return None
    return without_what_is_held(everything, held | plan.held_by(COLLUDER))


def collected_over_jobs(world):
    """The same, where each plan is of a job of its own."""
    held, plan = set(JOB.plan.held_by(COLLUDER)), plan_of(turn=1)
    everything = world.sum(world.begin(), ASKED)
    if world.begin(replace(JOB, name="second", plan=plan)) is None:
        return None
    return without_what_is_held(everything, held | plan.held_by(COLLUDER))


def asked_again_after_another_job(world):
    """An attempt of one worker's, with and without a chunk; in between it takes part in another job."""
    victim = world.begin()[VICTIM]
    first = world.ask(victim, ASKED)
    world.sum(world.begin(replace(JOB, name="second")), ASKED)
    return difference(first, world.ask(victim, replace(ASKED, holders=WITHOUT_FIRST)), FIRST_CHUNK)


ATTACKS = {
    other_holders: [HOLDERS, OWN],
    smaller_group: [GROUP],
    other_parameters: [PARAMETERS],
    asked_again: [HOLDERS, OWN, AGAIN],
    asked_again_after_another_job: [HOLDERS, OWN, LAST_LOCK],
    replayed: [PARAMETERS, AGAIN],
    second_life: [PARAMETERS, FORGETS, SAME_KEY],
    forged_keys: [KEYS],
    swapped_keys: [SIGNER],
    stale_keys: [KEY_JOB],
    unlisted_keys: [LISTED],
    no_rules: [REQUIRED],
    weaker_rules: [RULES],
    second_job: [TARGET],
    batches: [BATCHES],
    other_grid: [PINNED_GRID, ANY_BOUND, SATURATES],
    one_other_grid: [PINNED_GRID, GRID, ANY_BOUND, SATURATES],
    isolated_sample: [ANY_BOUND, SMALL_CHUNKS, SATURATES],
    other_stripes: [STRIPES, PLACES],
    a_plan_that_leaves_a_sample_out: [COVER],
    one_other_plan: [COVER, PLAN],
    collected_chunks: [HELD],
    collected_over_lives: [FORGETS_HELD],
    collected_over_jobs: [JOB_HELD],
}
