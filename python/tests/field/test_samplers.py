# SPDX-License-Identifier: Apache-2.0
"""Orders that are not Tarry's own: samplers, weights and functions, by a DataLoader, by join and through Accelerate.

What comes out is held to what PyTorch's DataLoader gives for the same sampler: the same samples, as often."""

import itertools
import pathlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "training"))
import runs
from conftest import SEED

torch: Any = pytest.importorskip("torch")

import tarry.torch as tt  # noqa: E402
from tarry import ArgumentError, DifferError  # noqa: E402
from tarry.hub import Agreement, Client, Hub, blob  # noqa: E402
from tarry.hub.settings import HubSettings, default_listen  # noqa: E402
from tarry.torch.source import source_of  # noqa: E402

kinds = torch.utils.data
DataLoader, BatchSampler = kinds.DataLoader, kinds.BatchSampler
SAMPLES = 64
X = torch.arange(float(SAMPLES))[:, None]
DATA = kinds.TensorDataset(X, X)
WEIGHTS = torch.zeros(SAMPLES)
WEIGHTS[:4] = 1
SCRIPTS = pathlib.Path(__file__).parent / "scripts"


def order_of(data: Any, batch: int | None, piece: int, *, seed: int = SEED, **options: Any) -> Any:
    return source_of(data, **options).order(SAMPLES, batch, piece, seed=seed)


def steps_of(order: Any, steps: int) -> list[list[int]]:
    """Of each step the samples, piece by piece."""
    return [[one for unit in range(order.units) for one in order.samples_of(step, unit)] for step in range(steps)]


def epoch_of(order: Any, epoch: int) -> list[int]:
    """All that it gives, asked step by step."""
    found: list[int] = []
    for step in itertools.count():
        if order.epoch_of(step) > epoch:
            return found
        if order.epoch_of(step) == epoch:
            found += steps_of_one(order, step)
    raise AssertionError


def steps_of_one(order: Any, step: int) -> list[int]:
    return [one for unit in range(order.units) for one in order.samples_of(step, unit)]


class Halves(kinds.Sampler):  # type: ignore[misc]
    """The even numbers, then the odd ones, shuffled by a generator of its own kind."""

    def __init__(self, own: Any = None) -> None:
        self.own = own

    def __len__(self) -> int:
        return SAMPLES

    def __iter__(self) -> Iterator[int]:
        for begin in (0, 1):
            numbers: Any = list(range(begin, SAMPLES, 2))
            if isinstance(self.own, np.random.Generator | np.random.RandomState):
                self.own.shuffle(numbers)
            elif self.own is None:
                numbers = [numbers[one] for one in torch.randperm(len(numbers)).tolist()]
            else:
                numbers = [numbers[one] for one in torch.randperm(len(numbers), generator=self.own).tolist()]
            yield from numbers


class Buckets(kinds.Sampler):  # type: ignore[misc]
    """Batches of different sizes, and of different ones in each epoch."""

    def __init__(self) -> None:
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        draws = np.random.default_rng(self.epoch)
        left = list(range(SAMPLES))
        while left:
            size = int(draws.integers(1, 9))
            yield left[:size]
            left = left[size:]


def in_order(numbers: list[int]) -> bool:
    return numbers == sorted(numbers)


LOADERS: dict[str, tuple[Callable[[], Any], Callable[[list[int]], bool]]] = {
    "weighted": (
        lambda: DataLoader(DATA, batch_size=8, sampler=kinds.WeightedRandomSampler(WEIGHTS, 40)),
        lambda found: len(found) == 40 and set(found) == {0, 1, 2, 3},
    ),
    "weighted without replacement": (
        lambda: DataLoader(DATA, batch_size=8, sampler=kinds.WeightedRandomSampler(WEIGHTS + 1, 20, False)),
        lambda found: len(set(found)) == 20,
    ),
    "subset": (
        lambda: DataLoader(DATA, batch_size=8, sampler=kinds.SubsetRandomSampler(range(10))),
        lambda found: sorted(found) == list(range(10)) != found,
    ),
    "batches": (
        lambda: DataLoader(DATA, batch_sampler=BatchSampler(kinds.SequentialSampler(DATA), 8, False)),
        lambda found: found == list(range(SAMPLES)),
    ),
    "shuffled batches": (
        lambda: DataLoader(DATA, batch_sampler=BatchSampler(kinds.SubsetRandomSampler(range(30)), 8, True)),
        lambda found: len(set(found)) == 16 and max(found) < 30 and not in_order(found),
    ),
    "no shuffle": (lambda: DataLoader(DATA, batch_size=8), lambda found: found == list(range(SAMPLES))),
    "shuffle": (
        lambda: DataLoader(DATA, batch_size=8, shuffle=True),
        lambda found: sorted(found) == list(range(SAMPLES)) != found,
    ),
    "drop_last": (lambda: DataLoader(DATA, batch_size=8, drop_last=True), lambda found: found == list(range(48))),
    "with replacement": (
        lambda: DataLoader(DATA, batch_size=8, sampler=kinds.RandomSampler(DATA, True, 100)),
        lambda found: len(found) == 100 and max(Counter(found).values()) > 1,
    ),
    "more than there are": (
        lambda: DataLoader(DATA, batch_size=8, sampler=list(range(SAMPLES)) + [5] * 10),
        lambda found: found == [*range(SAMPLES), *[5] * 10],
    ),
    "a generator": (
        lambda: DataLoader(DATA, batch_size=8, sampler=Halves(torch.Generator())),
        lambda found: sorted(found) == list(range(SAMPLES)) and not any(one % 2 for one in found[:32]),
    ),
    "buckets": (lambda: DataLoader(DATA, batch_sampler=Buckets()), lambda found: found == list(range(SAMPLES))),
    "distributed": (
        lambda: DataLoader(DATA, batch_size=8, sampler=kinds.distributed.DistributedSampler(DATA, 4, 1)),
        lambda found: sorted(found) == list(range(SAMPLES)) != found,
    ),
}  # fmt: skip
BATCH = {"drop_last": 48, "shuffled batches": 16}


@pytest.mark.parametrize("kind", LOADERS)
def test_a_data_loader_is_taken_as_it_is(kind: str) -> None:
    make, is_right = LOADERS[kind]
    state = torch.get_rng_state(), repr(np.random.get_state())
    order = order_of(make(), BATCH.get(kind, 32), 8)
    found = [epoch_of(order, epoch) for epoch in range(3)]
    assert torch.equal(state[0], torch.get_rng_state()) and repr(np.random.get_state()) == state[1]
    assert all(map(is_right, found)), found
    assert (found[0] == found[1]) == in_order(found[0]) or kind == "more than there are", found
    again = order_of(make(), BATCH.get(kind, 32), 8)  # as after a resume: the last epoch is asked for first
    assert epoch_of(again, 2) == found[2]
    _ = torch.rand(7), np.random.rand(7)  # whatever a worker has drawn before
    assert epoch_of(order_of(make(), BATCH.get(kind, 32), 8), 1) == found[1]
    assert all(len(order.samples_of(step, unit)) <= 8 for step in range(2) for unit in range(order.units))
    if not in_order(found[0]) and kind != "more than there are":
        assert epoch_of(order_of(make(), BATCH.get(kind, 32), 8, seed=SEED + 1), 0) != found[0]


def test_the_batch_is_the_loaders_unless_it_is_given() -> None:
    order = order_of(DataLoader(DATA, batch_size=24), None, 8)
    assert (order.batch, order.units, [len(one) for one in steps_of(order, 3)]) == (24, 3, [24, 24, 16])
    lists = order_of(DataLoader(DATA, batch_sampler=Buckets()), None, 4)
    wanted = [list(one) for one in Buckets()]
    assert steps_of(lists, len(wanted)) == wanted and lists.batch == max(map(len, wanted))
    grouped = steps_of(order_of(DataLoader(DATA, batch_sampler=Buckets()), 20, 4), 4)
    assert list(itertools.chain(*grouped)) == list(range(sum(map(len, grouped)))) and all(
        8 < len(one) <= 20 for one in grouped
    )
    bounds = set(itertools.accumulate(map(len, wanted)))
    assert all(end in bounds for end in itertools.accumulate(map(len, grouped)))
    with pytest.raises(ArgumentError, match="batch: how many samples a step has"):
        order_of(DATA, None, 8)


@pytest.mark.parametrize("own", [None, np.random.default_rng(5), np.random.RandomState(5), torch.Generator()])
def test_what_a_sampler_draws_from_is_seeded_and_put_back(own: Any) -> None:
    before = repr(own.bit_generator.state) if isinstance(own, np.random.Generator) else None
    first = epoch_of(order_of(DATA, 16, 8, sampler=Halves(own)), 1)
    if own is not None:
        _ = own.random(3) if hasattr(own, "random") else torch.rand(3, generator=own)
        assert before is None or repr(own.bit_generator.state) != before
    assert epoch_of(order_of(DATA, 16, 8, sampler=Halves(own)), 1) == first


def test_weights_draw_by_their_shares() -> None:
    weights = torch.arange(float(SAMPLES))
    order = order_of(DATA, 32, 8, sampler=weights)
    counts = Counter(one for epoch in range(300) for one in epoch_of_even(order, epoch))
    total = 300 * SAMPLES
    assert counts[0] == 0
    for sample in range(SAMPLES):
        wanted = total * float(weights[sample]) / float(weights.sum())
        assert abs(counts[sample] - wanted) <= 6 * wanted**0.5 + 1, (sample, counts[sample], wanted, SEED)


def epoch_of_even(order: Any, epoch: int) -> list[int]:
    first = epoch * order.steps_per_epoch
    return [one for step in range(first, first + order.steps_per_epoch) for one in steps_of_one(order, step)]


def test_a_function_gives_a_steps_indices() -> None:
    def curriculum(seed: int, step: int) -> Any:
        return np.random.default_rng([seed, step]).choice(4 + step, size=10)

    order = order_of(DATA, 12, 5, sampler=curriculum)
    assert order.units == 3
    for step in (7, 0, 3):
        assert steps_of_one(order, step) == curriculum(SEED, step).tolist()

    def drawing(_seed: int, _step: int) -> Any:
        return torch.randint(SAMPLES, (4,))  # by the seeded state

    drawn = order_of(DATA, 4, 2, sampler=drawing)
    assert steps_of(drawn, 3) == steps_of(order_of(DATA, 4, 2, sampler=drawing), 3)
    assert len({tuple(one) for one in steps_of(drawn, 3)}) == 3


class Counting:
    """Has a state of its own."""

    def __init__(self) -> None:
        self.passes = 0

    def __iter__(self) -> Iterator[int]:
        self.passes += 1
        return iter([(self.passes + one) % SAMPLES for one in range(SAMPLES)])


class Sharing:
    num_replicas = 4

    def __iter__(self) -> Iterator[int]:
        return iter(range(16))


COUNT = itertools.count()


def gives(make: Callable[[], Any]) -> Callable[[int, int], Any]:
    return lambda _seed, _step: make()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"sampler": Counting()}, "the Counting gives other indices when it is asked again for the same epoch"),
    ({"sampler": iter([1, 2])}, "which gives its indices once"),
    ({"sampler": [0, 1]}, "the sampler is a list: one of PyTorch's Samplers is wanted, a function"),
    ({"sampler": 3}, "the sampler is a int: one of PyTorch's Samplers"),
    ({"sampler": torch.arange(4)}, "numbers of torch.int64: weights are floating-point"),
    ({"sampler": torch.ones(5)}, r"weights of shape \[5\], and there are 64 samples"),
    ({"sampler": -torch.ones(64)}, "finite, not below 0, and not all 0"),
    ({"sampler": torch.full((64,), float("nan"))}, "finite, not below 0, and not all 0"),
    ({"sampler": kinds.SubsetRandomSampler([])}, "the sampler gave 0 indices in epoch 0"),
    ({"sampler": kinds.SubsetRandomSampler([3, 64])}, "gave the index 64, and the data have 64 samples, 0 to 63"),
    ({"sampler": kinds.SubsetRandomSampler([-1])}, "gave the index -1"),
    ({"sampler": kinds.SubsetRandomSampler(["a"])}, "something that is not the index of a sample"),
    ({"sampler": kinds.SubsetRandomSampler([0.5])}, "something that is not the index of a sample"),
    (
        {"sampler": kinds.SubsetRandomSampler([1]), "drop_last": True},
        "1 indices in epoch 0, fewer than the batch of 32",
    ),
    ({"sampler": kinds.SubsetRandomSampler([1]), "shuffle": True}, "shuffle=True does not go with a sampler"),
    ({"sampler": Buckets(), "drop_last": True}, "drop_last does not go with a sampler of batches"),
    ({"sampler": Sharing()}, r"the Sharing gives each process a share of its own \(4 of them\)"),
    ({"sampler": gives(lambda: range(33))}, "for step 0 gave 33 indices: a step has 1 to 32"),
    ({"sampler": gives(lambda: ())}, "for step 0 gave 0 indices"),
    ({"sampler": gives(lambda: [70])}, "gave the index 70"),
    ({"sampler": gives(lambda: [next(COUNT)])}, "other indices when it is called again"),
    ({"data": DataLoader(DATA, batch_size=None)}, "the DataLoader has batch_size=None"),
    ({"data": DataLoader(DATA, 8), "sampler": WEIGHTS}, "the DataLoader has a sampler"),
    ({"data": DataLoader(DATA, 8, num_workers=1, multiprocessing_context="spawn")}, "starts its workers by 'spawn'"),
]


@pytest.mark.parametrize(("options", "why"), REFUSED)
def test_what_can_not_be_honoured_is_refused(options: dict[str, Any], why: str) -> None:
    known: dict[str, Any] = {"data": DATA, "batch": 32, "piece": 8}
    model = torch.nn.Linear(1, 1)
    with pytest.raises(ArgumentError, match=why):
        tt.join(model, torch.optim.SGD(model.parameters(), lr=0.1), **(known | options)).close()


def test_a_stream_is_refused_in_a_loader_and_private_sums_have_no_sampler() -> None:
    class Stream(kinds.IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Any:
            return iter(X)

    with pytest.raises(ArgumentError, match="a Stream, which is an IterableDataset"):
        source_of(DataLoader(Stream(), 8))
    for private in ("dp", "secure"):
        with pytest.raises(ArgumentError, match=f"sampler does not go with {private}"):
            source_of(DATA, sampler=WEIGHTS, private=private)
        with pytest.raises(ArgumentError, match=f"a DataLoader does not go with {private}: data=loader.dataset"):
            source_of(DataLoader(DATA), private=private)


def test_an_endless_sampler_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarry.torch.samplers._LEAST_LIMIT", 1000)

    class Endless:
        def __iter__(self) -> Iterator[int]:
            return itertools.repeat(0)

    with pytest.raises(ArgumentError, match=r"more than 4096 indices in epoch 0\. An endless one has no epochs"):
        order_of(DATA, 32, 8, sampler=Endless())


AGREEMENT = Agreement(
    dimension=10, units=4, samples=64, batch=8, piece=2, seed=1, replication=0, parts=1,
    settings={"sum": "everywhere"}, engine="direct", exact=0, model="weight (2, 5)\nbias (5,)", options="",
    checkpoint="", checkpoint_seconds=60.0,
)  # fmt: skip


def test_workers_that_draw_differently_are_found() -> None:
    """The indices of each epoch are held to those of others."""
    ours, theirs = (order_of(DATA, 32, 8, sampler=one, seed=1) for one in (WEIGHTS, WEIGHTS + 1))
    claims = [order.claim(step) for order in (ours, theirs) for step in (0, 1, 2)]
    assert [one and one.place for one in claims] == [0, None, 1] * 2
    with Hub(default_listen(), HubSettings(2, default_listen())) as hub:
        first, second = Client(hub.address), Client(hub.address)
        first.join(0, AGREEMENT, lambda: blob.join({}, b"state"))
        second.join(1, AGREEMENT, lambda: b"")
        first.hold_order(0, *claims[0])
        second.hold_order(1, *claims[0])
        second.hold_order(1, *claims[5])
        with pytest.raises(Exception, match="worker 0 has drawn other samples for epoch 1 than worker 1") as found:
            first.hold_order(0, *claims[2])
        assert isinstance(found.value, DifferError) or "sampler=f(seed, step)" in str(found.value)
        first.close()
        second.close()


def test_a_training_goes_by_its_sampler() -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    loader = DataLoader(DATA, batch_size=8, sampler=kinds.SubsetRandomSampler(range(20)), num_workers=1)
    seen: list[int] = []
    with tt.join(model, optimizer, data=loader, piece=4) as job:
        order: Any = job.permutation
        assert (order.batch, order.steps_per_epoch) == (8, 3)
        for step in job.steps(6):
            for piece in step:
                with piece:
                    x, y = piece.batch
                    seen += x.flatten().int().tolist()
                    piece.backward((model(x) - y).square().sum(), weight=len(y))
            optimizer.step()
            assert step.epoch == step.number // 3
        assert Counter(seen) == {one: 2 for one in range(20)}
        half = DataLoader(DATA, batch_size=8, sampler=kinds.SubsetRandomSampler(range(30, 40)))
        assert job.evaluate(half, lambda batch: (batch[0].sum(), len(batch[0])))["loss"] == 34.5


def test_processes_that_load_begin_as_the_loader_has_it(tmp_path: pathlib.Path) -> None:
    class Files(kinds.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return SAMPLES

        def __getitem__(self, index: int) -> Any:
            return X[index]

    def begin(number: int) -> None:
        (tmp_path / str(number)).touch()

    model = torch.nn.Linear(1, 1)
    loader = DataLoader(Files(), batch_size=8, num_workers=2, worker_init_fn=begin)
    tt.join(model, torch.optim.SGD(model.parameters(), lr=0.1), data=loader, piece=4).close()
    assert {one.name for one in tmp_path.iterdir()} == {"0", "1"}


@pytest.mark.parametrize("kind", [one for one in LOADERS if one != "distributed"])
def test_accelerate_has_what_join_has(kind: str) -> None:
    accelerate = pytest.importorskip("accelerate")
    import tarry.torch.accelerate

    make, is_right = LOADERS[kind]
    model = torch.nn.Linear(1, 1)
    accelerator: Any = accelerate.Accelerator(cpu=True)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=1e-5), make())
    batch, options = BATCH.get(kind, 32), {"piece": 8} if kind == "buckets" else {}
    with tarry.torch.accelerate.join(accelerator, model, optimizer, data=loader, batch=batch, **options) as job:
        assert job.permutation.piece == 8
        found = epoch_of(job.permutation, 0)
    assert is_right(found) and found == epoch_of(order_of(make(), batch, 8, seed=0), 0)


def test_workers_of_a_run_draw_the_same_samples_also_later(tmp_path: pathlib.Path) -> None:
    """One is killed and comes back in the middle of an epoch, and a second run goes on in the middle of one."""
    script, file = str(SCRIPTS / "sampled"), tmp_path / "run.ckpt"
    lines = runs.succeed(script, 5, file, "--die", workers=2, options=("--restarts", 1))
    lines += runs.succeed(script, 9, file, workers=2)
    drawn: dict[str, set[str]] = {}
    for line in lines:
        if line.startswith("drawn "):
            _, unit, samples = line.split(maxsplit=2)
            drawn.setdefault(unit, set()).add(samples)
    assert len(drawn) == 9 * 4 and all(len(one) == 1 for one in drawn.values()), lines
    for epoch in range(3):
        found = [one for step in range(3 * epoch, 3 * epoch + 3) for unit in range(4) for one in _of(drawn, step, unit)]
        assert sorted(found) == list(range(0, 46, 2)), (epoch, found)


def _of(drawn: dict[str, set[str]], step: int, unit: int) -> list[int]:
    (samples,) = drawn[f"{step}.{unit}"]
    return [int(one) for one in samples.split(",") if one != "-"]
