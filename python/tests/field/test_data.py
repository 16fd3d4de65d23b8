# SPDX-License-Identifier: Apache-2.0
"""Data that are not the same at all workers: found before the first step, whatever they are made of."""

import dataclasses
import pathlib
import random
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "training"))
import runs
from conftest import SEED

torch: Any = pytest.importorskip("torch")

import tarry.torch as tt  # noqa: E402
from tarry import ArgumentError  # noqa: E402
from tarry.hub import Agreement, Client, Hub, blob, storage  # noqa: E402
from tarry.hub.client import Refused  # noqa: E402
from tarry.hub.data_summary import DataSummary, differ_by_rounding, difference  # noqa: E402
from tarry.hub.settings import HubSettings, default_listen  # noqa: E402
from tarry.torch.data_digest import SAMPLES, summarize  # noqa: E402
from tarry.torch.item_digest import digest_of, structure_of  # noqa: E402
from tarry.torch.loader import Loader  # noqa: E402

kinds = torch.utils.data
ConcatDataset, Dataset, Subset, TensorDataset = kinds.ConcatDataset, kinds.Dataset, kinds.Subset, kinds.TensorDataset
SCRIPTS = pathlib.Path(__file__).parent / "scripts"


class Pair(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Record:
    name: str
    x: Any


class Plain:
    def __init__(self, x: Any) -> None:
        self.x, self.me = x, self


class Of(Dataset):  # type: ignore[misc]
    """A dataset of what a function gives for a number."""

    def __init__(self, make: Callable[[int], Any], samples: int = 200) -> None:
        self.make, self.samples = make, samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> Any:
        return self.make(index)


def summary_of(data: Any, *, seed: int = 3, data_id: str = "", private: bool = False) -> DataSummary:
    loader = Loader(data, None)

    def each(function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        return (function(loader, *given) for given in arguments)

    found = summarize(loader, each, seed=seed, data_id=data_id, private=private, speaks=False)
    assert DataSummary.decode(found.encode()) == found
    return found


def apart(ours: Any, theirs: Any, **options: Any) -> str:
    found = [summary_of(one, **options) for one in (ours, theirs)]
    return difference(found[0], found[1], "worker 0", "worker 1")


def numbers(samples: int = 200, wide: int = 3) -> Any:
    return torch.randn(samples, wide, generator=torch.Generator().manual_seed(SEED))


def changed(tensor: Any, place: int = 77) -> Any:
    found = tensor.clone()
    found[place] += 1
    return found


X = numbers()
FORMS: dict[str, Callable[[Any], Any]] = {
    "tensor": lambda x: x,
    "tuple": lambda x: (torch.zeros(200, dtype=torch.int64), x),
    "TensorDataset": lambda x: TensorDataset(x, torch.zeros(200)),
    "array": lambda x: x.numpy(),
    "every second row": lambda x: x.repeat_interleave(2, 0)[::2],
    "transposed": lambda x: x.t().contiguous().t(),
    "bfloat16": lambda x: x.to(torch.bfloat16),
    "complex": lambda x: x.to(torch.complex64).conj(),
    "bool": lambda x: x > X,
    "sparse": lambda x: [one.to_sparse() for one in x],
    "ConcatDataset": lambda x: ConcatDataset([TensorDataset(one) for one in x.split(70)]),
    "Subset": lambda x: Subset(TensorDataset(torch.cat([x, x])), range(200, 400)),
    "Subset of ConcatDataset": lambda x: Subset(ConcatDataset([x.numpy()[:90], x.numpy()[90:]]), list(range(200))),
    "list of arrays": lambda x: list(x.numpy()),
    "dicts": lambda x: Of(lambda i: {"x": x[i], "name": f"sample {i}", "tags": {"a", "b", str(i)}}),
    "lists of numbers": lambda x: Of(lambda i: ([float(one) for one in x[i]], i, None, True)),
    "bytes": lambda x: Of(lambda i: x[i].numpy().tobytes()),
    "named tuples": lambda x: Of(lambda i: Pair(x[i], np.float32(i))),
    "dataclasses": lambda x: Of(lambda i: Record("r", {"deep": [x[i]]})),
    "objects": lambda x: Of(lambda i: Plain(x[i])),
    "object arrays": lambda x: Of(lambda i: np.array([str(x[i].tolist()), None], dtype=object)),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_sample_that_differs_is_named(form: str) -> None:
    make = FORMS[form]
    assert apart(make(X), make(X.clone())) == ""
    assert apart(make(X), make(changed(X))) == "of the 200 samples compared, sample 77 differs"
    if form not in ("bool", "dicts", "lists of numbers", "named tuples"):  # these have the number in the sample
        told = "they are in another order: its sample 0 is sample 199 of worker 0"
        assert apart(make(X), make(X.flip(0))) == told


def test_tensors_are_digested_whole() -> None:
    many = torch.arange(100_000)
    assert apart(many, changed(many, 99_999)) == (
        "of the 256 blocks compared, the block of samples 99609 to the last one differs"
    )
    assert apart(many, changed(changed(many, 400), 70_000)) == (
        "of the 256 blocks compared, the block of samples 390 to 780 and 1 more of its blocks differ"
    )
    assert apart(X, X.double()) == "worker 1 has float64 [3], and worker 0 float32 [3]"
    assert apart(X, X[:, :2]) == "worker 1 has float32 [2], and worker 0 float32 [3]"
    assert apart(X, list(X)) == "worker 1 has a dataset that is read by number, and worker 0 has tensors in memory"


def test_a_class_that_changes_what_it_reads_is_read() -> None:
    class Shifted(TensorDataset):  # type: ignore[misc]
        by = 0.0

        def __getitem__(self, index: Any) -> Any:
            return (self.tensors[0][index] + self.by,)

    ours, theirs = Shifted(X), Shifted(X)
    assert apart(ours, theirs) == ""
    theirs.by = 1.0
    assert summary_of(ours).kind == "sampled" and "samples 0, 1, 2, .. differ" in apart(ours, theirs)


def test_dtypes_and_shapes_count() -> None:
    values: list[Any] = [
        1, 1.0, True, "1", b"1", None, [1], (1,), {1}, {"1": 1}, {1: 1}, torch.tensor(1), torch.tensor([1]),
        np.int64(1),
        torch.tensor(1, dtype=torch.int32), np.array([1]), [[1]], [1, 1], ["11"], ["1", "1"], torch.zeros(2, 3),
        torch.zeros(3, 2), torch.zeros(6), Pair(1, 1), Record("1", 1), range(2), range(3), torch.float32, int, 1j,
    ]  # fmt: skip
    assert len({digest_of(one) for one in values}) == len(values)
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    assert structure_of({"x": torch.zeros(2, 3), "n": [1, 2]}) == "dict(n: list(int), x: float32 2-d)"
    assert len(structure_of({str(one): one for one in range(1000)})) < 250


def test_an_augmentation_by_seeded_generators_is_compared() -> None:
    """All workers seed the random state alike, so values can be held to each other."""

    def noisy(x: Any) -> Any:
        return Of(lambda i: x[i] + torch.rand(3) + random.random() + float(np.random.rand()))

    state = torch.get_rng_state(), random.getstate(), repr(np.random.get_state())
    assert apart(noisy(X), noisy(X)) == ""
    assert apart(noisy(X), noisy(changed(X))) == "of the 200 samples compared, sample 77 differs"
    assert torch.equal(state[0], torch.get_rng_state()) and random.getstate() == state[1]
    assert repr(np.random.get_state()) == state[2]


def test_an_augmentation_of_its_own_is_compared_by_structure() -> None:
    def noisy(kind: Any = torch.float32, samples: int = 200, crops: bool = False) -> Any:
        own = np.random.default_rng()
        return Of(lambda i: torch.full((int(own.integers(2, 9)) if crops else 3,), own.random(), dtype=kind), samples)

    assert apart(noisy(), noisy()) == apart(noisy(crops=True), noisy(crops=True)) == ""
    assert (
        apart(noisy(), noisy(torch.float64)) == "sample 0 of worker 1 is float64 1-d, but at worker 0 it is float32 1-d"
    )
    own = np.random.default_rng()
    wild = Of(lambda i: torch.zeros([1] * int(own.integers(1, 6))))
    assert apart(wild, wild) == "" and summary_of(wild).loose
    with pytest.warns(
        UserWarning, match="sample 0 has other values when it is read again.*number, structure and dtypes"
    ):
        loader = Loader(noisy(), None)
        summarize(
            loader, lambda f, all: (f(loader, *one) for one in all), seed=1, data_id="", private=False, speaks=True
        )


def test_how_often_a_share_of_other_samples_is_found() -> None:
    samples, trials = 5000, 30
    for share in (0.002, 0.01):
        found = 0
        for seed in range(trials):
            others = set(random.Random(SEED + seed).sample(range(samples), int(share * samples)))
            theirs = Of(lambda i, others=others: i + samples * (i in others), samples)  # type: ignore[misc]
            found += bool(apart(Of(lambda i: i, samples), theirs, seed=seed))
        wanted = 1 - (1 - share) ** SAMPLES
        assert abs(found / trials - wanted) < 4 * (wanted * (1 - wanted) / trials) ** 0.5 + 0.02, (share, found, wanted)


def test_slow_samples_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few a worker has time for, the first of them are those of the others."""
    monkeypatch.setattr("tarry.torch.data_digest._SECONDS", 0.0)
    slow = Of(lambda i: i, 5000)
    loader = Loader(slow, None)
    with pytest.warns(UserWarning, match="compared by 8 samples, since more take longer"):
        found = summarize(
            loader, lambda f, all: (f(loader, *one) for one in all), seed=3, data_id="", private=False, speaks=True
        )
    monkeypatch.undo()
    whole = summary_of(slow)
    assert len(found.places) == 8 and whole.places[:8] == found.places
    assert difference(found, whole, "worker 0", "worker 1") == difference(whole, found, "worker 0", "worker 1") == ""
    for other in (found, whole):
        theirs = summary_of(Of(lambda i: i + 7 * (i == found.places[2]), 5000))
        assert f"sample {found.places[2]} differs" in difference(other, theirs, "worker 0", "worker 1")


def test_a_sample_that_cannot_be_read_there_is_named() -> None:
    def broken(index: int) -> int:
        if index in (5, 9):
            raise OSError(f"no file {index}")
        return index

    whole = Of(lambda i: i, 20)
    assert apart(whole, Of(broken, 20)) == "sample 5 could not be read by it (OSError)"
    assert apart(Of(broken, 20), whole) == "sample 5 could not be read by worker 0 (OSError)"
    assert apart(Of(broken, 20), Of(broken, 20)) == ""


def test_private_data_have_one_digest() -> None:
    for data, other in ((X, changed(X)), (Of(lambda i: X[i]), Of(lambda i: changed(X)[i]))):
        found = summary_of(data, private=True)
        assert found.total and not (found.digests or found.places or found.structures)
        assert apart(data, data, private=True) == ""
        assert apart(data, other, private=True) == "their digests differ"


# ---- at the hub ----

AGREEMENT = Agreement(
    dimension=10, units=4, samples=200, batch=8, piece=2, seed=1, replication=0, parts=1,
    settings={"sum": "everywhere"}, engine="direct", exact=0,
    model="weight (2, 5)\nbias (5,)", options="", checkpoint="", checkpoint_seconds=60.0,
)  # fmt: skip


def agreement_of(data: Any, **more: Any) -> Agreement:
    return dataclasses.replace(AGREEMENT, data_summary=summary_of(data).encode(), **more)


def test_a_worker_with_other_data_is_refused_also_later() -> None:
    with Hub(default_listen(), HubSettings(3, default_listen())) as hub:
        first = Client(hub.address)
        first.join(2, agreement_of(X), lambda: blob.join({}, b"state"))
        for _ in range(2):
            other = Client(hub.address)
            why = "worker 1 has other data than worker 2: 200 samples both, but of the 200 samples compared, sample 77"
            with pytest.raises(Refused, match=why):
                other.join(1, agreement_of(changed(X)), lambda: b"")
            with pytest.raises(Refused, match=r"199 samples where the others have 200 \(it is worker 0; worker 2 came"):
                Client(hub.address).join(0, agreement_of(X[:199], samples=199), lambda: b"")
            first.close()
        assert Client(hub.address).join(2, agreement_of(X), lambda: b"").notice == ""


def test_what_follows_can_be_chosen() -> None:
    with Hub(default_listen(), HubSettings(2, default_listen())) as hub:
        first, second = Client(hub.address), Client(hub.address)
        first.join(0, agreement_of(X, data_check="warn"), lambda: blob.join({}, b"state"))
        with pytest.raises(Refused, match="data_check='error' where the others have 'warn'"):
            Client(hub.address).join(1, agreement_of(X), lambda: b"")
        notice = second.join(1, agreement_of(changed(X), data_check="warn"), lambda: b"").notice
        assert notice.startswith("worker 1 has other data than worker 0") and "sample 77" in notice
    names = [summary_of(X, data_id=name) for name in ("a", "b")]
    assert difference(names[0], names[1], "worker 0", "worker 1") == "worker 1 calls them 'b', and worker 0 'a'"


# ---- by join ----


class Bench:
    def __init__(self) -> None:
        torch.manual_seed(1)
        self.model = torch.nn.Linear(3, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def join(self, data: Any, **options: Any) -> Any:
        known: dict[str, Any] = {"batch": 50, "piece": 10}
        return tt.join(self.model, self.optimizer, data=data, **(known | options))

    def loss_of(self, x: Any) -> Any:
        return self.model(x).square().sum(), len(x)


class Files(Dataset):  # type: ignore[misc]
    """Opens its file with the first sample that is read."""

    def __init__(self, path: pathlib.Path) -> None:
        np.save(path, X.numpy())
        self.path, self.file = path, None

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> Any:
        if self.file is None:
            self.file: Any = open(self.path, "rb", buffering=0)  # noqa: SIM115
            self.skip = self.path.stat().st_size - X.numel() * 4
        self.file.seek(self.skip + index * 12)
        return torch.frombuffer(bytearray(self.file.read(12)), dtype=torch.float32)


def test_no_file_is_open_before_processes_that_load_are_forked(tmp_path: pathlib.Path) -> None:
    data = Files(tmp_path / "x.npy")
    with Bench().join(data, loaders=2) as job:
        assert data.file is None
        for step in job.steps(2):
            for piece in step:
                assert torch.equal(piece.batch, X[piece.samples])
                with piece:
                    piece.backward(job.model(piece.batch).sum(), weight=len(piece.samples))


def test_a_broken_sample_is_told_and_fails_by_itself() -> None:
    def broken(index: int) -> Any:
        if index == 7:
            raise OSError("no such picture")
        return X[index]

    bench = Bench()
    with pytest.warns(UserWarning, match="sample 7 could not be read.*OSError: no such picture"):
        job = bench.join(Of(broken), shuffle=False)
    with pytest.raises(OSError, match="no such picture"), job:
        for step in job.steps(1):
            step.compute(bench.loss_of)


def test_nothing_is_read_if_the_data_are_named_or_not_compared() -> None:
    def never(index: int) -> Any:
        raise AssertionError("it is read")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Bench().join(Of(never), data_id="names").close()
        Bench().join(Of(never), data_check="off").close()
    with pytest.raises(ArgumentError, match="data_check is 'maybe', and must be 'error', 'warn' or 'off'"):
        Bench().join(X, data_check="maybe")
    with pytest.raises(ArgumentError, match="do not go with secure"):
        Bench().join(X, data_check="off", secure=True, sum="server")


def test_a_resume_with_other_data_is_told(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "run.ckpt")

    def go_on(data: Any, steps: int, **options: Any) -> None:
        bench = Bench()
        with bench.join(data, checkpoint=path, **options) as job:
            for step in job.steps(steps):
                step.compute(bench.loss_of)
                bench.optimizer.step()
            assert job.done == steps

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        go_on(X, 2)
        go_on(X.clone(), 3)
    assert DataSummary.decode((storage.read(path) or pytest.fail()).agreement["data_summary"]).kind == "whole"
    with pytest.warns(UserWarning, match=r"not those that .*run.ckpt was trained on: .*sample 77 differs. It uses"):
        go_on(changed(X), 4)
    with pytest.warns(UserWarning, match="trained on: 210 samples now, and 200 before"):
        go_on(torch.cat([X, X[:10]]), 5)
    assert dataclasses.replace(agreement_of(X), dp="clip:1").kept()["data_summary"] == ""


def test_an_iterable_dataset_is_refused_in_a_sentence() -> None:
    class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 200

        def __iter__(self) -> Any:
            return iter(X)

    with pytest.raises(
        ArgumentError, match="a Stream, which is an IterableDataset: its samples come one after the other"
    ):
        Bench().join(Stream())


@pytest.mark.parametrize("mode", ["reversed"])
def test_workers_of_a_run_with_other_data_are_refused(mode: str) -> None:
    ended = runs.run(str(SCRIPTS / "ordered"), mode, workers=3)
    refused = [line for line in ended.stderr.splitlines() if "] tarry.hub.client.Refused: worker" in line]
    assert refused and all("has other data than worker" in one and "in another order" in one for one in refused)
    assert "end" in ended.stdout and ended.stdout.count("end") == 3 - len(refused), ended.stdout + ended.stderr


# ---- data made on another kind of CPU ----


def test_data_that_differ_by_rounding_are_told_from_other_data() -> None:
    torch.manual_seed(1)
    inputs, labels = torch.randn(3000, 40), torch.randint(10, (3000,))
    rounded = inputs * (1 + 1e-7 * torch.randn(3000, 40))
    assert not torch.equal(inputs, rounded)
    ours = summary_of((inputs, labels))
    assert differ_by_rounding(ours, summary_of((rounded, labels)))
    one = rounded.clone()
    one[77, 3] += 0.01
    exchanged = rounded.clone()
    exchanged[[5, 6]] = rounded[[6, 5]]
    other_label = labels.clone()
    other_label[2999] += 1
    for others in ((one, labels), (exchanged, labels), (rounded.flip(0), labels), (rounded, other_label)):
        assert not differ_by_rounding(ours, summary_of(others))
    assert not differ_by_rounding(summary_of((labels,)), summary_of((labels,)))  # whole numbers have no rounding


def test_arrays_of_any_kind_are_digested() -> None:
    known = np.arange(24).reshape(12, 2)
    fixed = known.astype(np.float32)
    fixed.flags.writeable = False
    kinds_of_arrays = [known.astype(kind) for kind in ("u2", "u4", ">f4", "<f8", "f2", "U3", "c8")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for array in (fixed, known[::-1].astype(np.float64)[::-1], *kinds_of_arrays):
            found = summary_of(array)
            assert found.kind == "whole" and len(found.digests) == 12, array.dtype
            assert bool(found.near) == (array.dtype.kind == "f"), array.dtype
