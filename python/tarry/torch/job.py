# SPDX-License-Identifier: Apache-2.0
"""A training that this process is a worker of."""

import contextlib
import functools
import hashlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self, cast

import torch

from ..dp import Terms
from ..errors import ArgumentError, Error, StateError
from ..hub import Agreement, Client, Hub
from ..hub import address as addresses
from ..hub.private import check_private, epsilon_of
from ..hub.secure import check_secure
from ..hub.training import SUMS, plan_of
from ..straggler import Straggler
from ..task import Task
from ..worker import Worker
from . import secure as secure_sums
from .among_workers import AmongWorkers
from .at_server import AtServer
from .clipping import Clipping, check_version
from .collective import Collective
from .collective import check as check_engine
from .drawn import Drawn
from .dropping import Dropping
from .environment import Place, place_of
from .evaluation import evaluate, look_up
from .forms import check_dense, check_forms
from .gradients import Gradients, flat_tensor
from .layout import Layout
from .loader import Loader
from .local_steps import LocalSteps, MakeOptimizer
from .members import HasState, Members
from .permutation import Permutation
from .prefetch import Prefetcher
from .private import check_model, check_options
from .seeding import seed_all
from .standing import Standing, metrics_of
from .step import Guard, LossOf, Step
from .sums import Lost, Summed, Sums

_COMPARED_FIRST, _COMPARED_EACH = 3, 16  # steps of which copies of pieces are compared
_LEAVE_SECONDS = 60.0  # that the process with the hub waits for the others to leave


class Job:
    """What `join` gives: a context manager, whose `steps` are the training's.

    What is between Tarry and the model may be another library's (tarry.torch.accelerate):

    backward    called with the loss and what piece.backward was given besides, in place of loss.backward
    move        called with a piece's batch; gives it where the model wants it
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        loader: Loader,
        permutation: Permutation | Drawn,
        layout: Layout,
        others: Mapping[str, HasState],
        agreement: Agreement,
        place: Place,
        loaders: int = 0,
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self.loader, self.permutation, self.layout = loader, permutation, layout
        self.gradients = Gradients(layout)
        self.members = Members(model, optimizer, others, layout)
        self._terms = permutation.terms if isinstance(permutation, Drawn) else None
        self._releases = 0  # with dp: as the hub told last
        # With dp: what makes gradients of single examples.
        self.clipping = (
            Clipping(model, layout, self._terms.clip, permutation.piece) if self._terms is not None else None
        )
        self.secret: secure_sums.Secret | None = None  # with secure sums: what this worker insists on
        self._bound: tuple[int, bytes] | None = None  # the same: a step, and the state that it begins with
        # What sums are divided by, where no weight rides along.
        self._weight = permutation.expected if isinstance(permutation, Drawn) else float(permutation.batch)
        self.place = place
        self._prefetcher = Prefetcher(loader, permutation.seed_of, permutation.samples_of, loaders)
        self.backward: Callable[..., None] = cast(Any, torch.Tensor).backward
        self.move: Callable[[Any], Any] | None = None
        self._walk: Iterator[Step] | None = None  # of `step`
        self._evaluations = 0  # in the same step
        self._standing = Standing(self.members)
        self._applied: dict[str, float] = {}  # metrics of the step that the model takes now
        self._dropping: Dropping | None = None
        self._step: Step | None = None
        self._parts = agreement.parts
        self._closed = False
        self._digests: dict[int, str] = {}  # of this step's pieces, where they are compared
        self._mean = torch.zeros(layout.gradient_numbers)
        self._hub: Hub | None = None
        self._engine: Collective | None = None  # None: the library's own
        self.client: Client
        self._sums: Sums
        self._guard = Guard(optimizer, self._may_step)
        try:
            self._connect(agreement)
        except BaseException:
            self._guard.close()
            self._prefetcher.close()
            if self.secret is not None:
                self.secret.close()
            if self._hub is not None:
                self._hub.close()
            raise

    # ---- joining ----

    def _connect(self, agreement: Agreement) -> None:
        place = self.place
        address = place.hub
        if address is None or place.starts_hub:
            self._hub = place.start_hub()
            address = address or self._hub.address
        member = place.member(address)
        self.client = Client(address, member)
        try:
            welcome = self.client.join(place.worker, agreement, self._standing.save)
        except BaseException:
            self.client.close()
            raise
        self.worker, self.workers = welcome.worker, welcome.workers
        if isinstance(self.permutation, Drawn):
            self.permutation.hear(welcome.draws)
        if self._prefetcher.is_used:
            with plan_of(self.workers, agreement) as plan:
                self._prefetcher.expect([int(unit) for unit in plan.order_of(self.worker)])
        if welcome.state is not None:
            self._standing.load(welcome.state)
        straggler = Straggler(place.straggler, self.workers, seed=place.seed) if place.straggler else None
        self._dropping = Dropping(self.model)
        connect = functools.partial(
            Worker,
            welcome.server,
            worker=self.worker,
            straggler=straggler,
            **member.library(welcome.server),
        )
        if agreement.sum == "server":
            asks = self._terms is not None
            if agreement.secure:
                self.secret = secure_sums.Secret(agreement, member)
                connect = functools.partial(connect, secure=self.secret.member, prepare=self.secret.prepare)
            self._sums = AtServer(self._standing, self.client, self.worker, connect, asks=asks)
            return
        connect_to_others = functools.partial(connect, **place.among_workers(welcome.server))
        if agreement.engine != "direct":
            self._engine = Collective(agreement.engine, "127.0.0.1")
            connect_to_others = functools.partial(connect_to_others, engine=self._engine)
        self._sums = AmongWorkers(self._standing, self.client, welcome.last, connect_to_others)

    # ---- steps ----

    @property
    def done(self) -> int:
        """Steps that this worker's model has taken."""
        return self._standing.done

    @property
    def chief(self) -> bool:
        """Whether this is the worker that speaks for all: it logs, and evaluates."""
        return self.worker == 0

    def steps(self, steps: int) -> Iterator[Step]:
        """The training's steps up to `steps` in all, those before a resume included.

        For each the pieces that this worker is given are computed, as in `for piece in step`; then every parameter's
        `.grad` is the mean over the whole batch, the same on all workers, and the optimizer may step. With dp they end
        before the budget would be exceeded, too.
        """
        if steps < 0:
            raise ArgumentError(f"{steps} steps")
        self.client.steps(steps)
        self._sums.begin(steps)
        while self.done < steps and self._sums.goes_on():
            step = Step(self, self.done)
            self._step, self._evaluations = step, 0
            yield step
            self._end_step(step)
        self._sums.finish()

    def step(self, loss_of: LossOf, steps: int) -> Step | None:
        """The next step with its gradients, and that before is over; None: the model has done `steps` in all.

            while step := job.step(loss_of, 10_000):
                optimizer.step()

        loss_of is called with each batch that this worker is given, as Step.compute has it.
        """
        if self._walk is None:
            self._walk = self.steps(steps)
        found = next(self._walk, None)
        if found is None:
            self._walk = None
            return None
        found.compute(loss_of)
        return found

    def local_steps(self, steps: int, make_optimizer: MakeOptimizer) -> LocalSteps:
        """Pieces take steps by themselves between sums; the job's optimizer is the outer one.

            inner = job.local_steps(16, lambda parameters: torch.optim.SGD(parameters, lr=0.05))
            for step in job.steps(1000):
                inner.compute(step, loss_of)
                outer.step()                      # as SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)

        Raises ArgumentError for pieces of fewer samples than steps.
        """
        return LocalSteps(self, steps, make_optimizer)

    def evaluate(
        self,
        data: Any,
        loss_of: LossOf,
        *,
        piece: int | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
    ) -> dict[str, float]:
        """Mean loss and metrics of the model as it is over `data`, of any kind that `join` takes: the same on all
        workers.

        All workers call it at the same place of their loops and share the data out among them, `piece` samples at once
        (None: as many as a piece of a step has); what a slow or lost worker leaves is done by others. loss_of is called
        with each batch, as Step.compute has it, with the model in its `eval` mode and without gradients. Random numbers
        of the training are as if nothing had happened.

        A worker that has lost the step gets what the others have found, or NaN.
        Raises Error where they have other data.
        """
        if (self.clipping is not None or self.secret is not None) and self.loader.shares(data):
            setting = "secure" if self.secret is not None else "dp"
            raise ArgumentError(f"with {setting} nothing is told of the training samples: evaluate others")
        loader = Loader(data, self.loader.collate if collate is None else collate)
        size = self.permutation.piece if piece is None else piece
        if size < 1 or loader.samples < 1:
            raise ArgumentError(f"pieces of {size} of {loader.samples} samples")
        key = (self.done, int(self._step is not None), self._evaluations)
        self._evaluations += 1
        if self._step is not None and self._step.lost:
            return look_up(self, key)
        return evaluate(self, key, loader, size, loss_of)

    def _end_step(self, step: Step) -> None:
        """What the loop's body has left undone, and what follows from it."""
        step.exhaust()
        if not step.lost:
            self._standing.done += 1
            self._standing.told = self._applied
        self._sums.end_step(lost=step.lost)
        self._step, self._evaluations = None, 0
        step.give_back()

    def _may_step(self) -> None:
        step = self._step
        if step is not None and not step.summed:
            raise StateError(
                "the optimizer steps before the gradients are summed: go through all pieces first, as in "
                "`for piece in step: ...`, and step after the loop"
            )

    # ---- what steps and pieces ask ----

    def take(self) -> Task | Summed | Lost:
        return self._sums.take()

    def load_batch(self, step: int, unit: int) -> Any:
        return self.moved(self._prefetcher.load(step, unit))

    def moved(self, batch: Any) -> Any:
        return batch if self.move is None else self.move(batch)

    def open_piece(self, task: Task, step: int, unit: int) -> torch.Tensor:
        """Gives the piece's vector, zeroed, to which the parameters' `.grad` belong."""
        vector = flat_tensor(task.gradient)
        vector[self.layout.gradient_numbers :] = 0
        self.gradients.attach(vector, zero=True)
        if self.layout.buffers:
            with torch.no_grad():
                self.members.restore_buffers()
        if self.secret is not None:
            task.bind(self._state(step))
        seed_all(self.permutation.seed_of(unit), step, unit)
        assert self._dropping is not None
        self._dropping.task = task
        return vector

    def _state(self, step: int) -> bytes:
        """A digest of the model before the step, which all workers have to share."""
        if self._bound is None or self._bound[0] != step:
            self._bound = step, secure_sums.state_of(self.members, self.permutation.seed, step)
        return self._bound[1]

    def complete_piece(
        self, vector: torch.Tensor, step: int, unit: int, weight: float, metrics: Mapping[str, float]
    ) -> None:
        """What rides with the gradient."""
        layout = self.layout
        if self.secret is not None:
            secure_sums.check_weight(weight, len(self.permutation.indices(step, unit)))
        with torch.no_grad():
            self.gradients.collect()
            if layout.buffers:
                changes = torch.cat(self.members.change_of_buffers())
                vector[layout.buffers_at : layout.metrics_at] = changes * weight
        for place, name in enumerate(layout.metrics):
            vector[layout.metrics_at + place] = metrics.get(name, 0.0)
        if layout.weighed:
            vector[layout.weight_at] = weight
        if self._compares(step):
            self._digests[unit] = hashlib.blake2b(vector.numpy().tobytes(), digest_size=8).hexdigest()

    def _compares(self, step: int) -> bool:
        """Whether pieces of this step are held to others' copies: they are where coded parts are made of them."""
        return self._parts > 1 and (step < _COMPARED_FIRST or step % _COMPARED_EACH == 0)

    def close_piece(self, task: Task, *, failed: bool) -> None:
        assert self._dropping is not None
        self._dropping.task = None
        if not task.given:
            task.give(failed=failed)

    def empty_piece(self, task: Task) -> None:
        """A piece without samples, at an epoch's end."""
        task.gradient[:] = 0
        task.give()

    def compare(self, step: int) -> None:
        """Before anybody goes by the step's sum. Raises Error where copies of a piece differ."""
        if self._digests:
            self.client.compare(self.worker, step, self._digests)
            self._digests = {}

    def apply(self, summed: Summed) -> dict[str, float]:
        """The step's mean is in the parameters' `.grad`, and its buffers in the model. Gives its metrics."""
        layout = self.layout
        total = flat_tensor(summed.numbers)
        weight = float(total[layout.weight_at]) if layout.weighed else self._weight
        if not weight > 0:
            copies = f". With {self._parts} parts that may be since copies of a piece differ" if self._parts > 1 else ""
            raise Error(f"step {self.done}: the weights of all pieces sum up to {weight}{copies}")
        torch.mul(total[: layout.gradient_numbers], 1 / weight, out=self._mean)
        self.gradients.attach(self._mean, zero=False)
        if layout.buffers:
            with torch.no_grad():
                self.members.change_buffers(total[layout.buffers_at : layout.metrics_at] / weight)
        seed_all(self.permutation.seed, self.done, -1)
        self._prefetcher.begin(self.done + 1)
        found = {name: float(total[layout.metrics_at + place]) / weight for place, name in enumerate(layout.metrics)}
        self._applied = found | ({"weight": weight} if layout.weighed else {})
        return dict(self._applied)

    def apply_nothing(self, lost: Lost) -> dict[str, float]:
        """The step is lost to this worker: whatever the loop's body makes of it is replaced by the state that came. Its
        metrics are those of the state's last step."""
        self._mean.zero_()
        self.gradients.attach(self._mean, zero=False)
        told = metrics_of(lost.state)
        return {name: told.get(name, math.nan) for name in (*self.layout.metrics, "weight")}

    # ---- the end ----

    @property
    def epsilon(self) -> float:
        """With dp: what was spent so far, for the delta of its terms, by all processes that the ledger counted. All
        workers may ask; it takes some tenths of a second. Raises StateError without dp."""
        if self._terms is None:
            raise StateError("the training has no differential privacy: join(..., dp=...) makes it so")
        if not self._closed:
            self._releases = int(self.status()["privacy"]["releases"])
        return epsilon_of(self._terms, self._releases)

    def status(self) -> dict[str, Any]:
        """What the hub knows: steps that are done, and each worker's state (tarry.WorkerState)."""
        return self.client.status()

    def close(self, *, wait: bool = True) -> None:
        """Leaves the training. The model's parameters stay as they are. Where the hub is in this process it waits until
        the others have left, too, unless `wait` is false: then the training ends for them."""
        self._look_at_releases()
        self._guard.close()
        self._prefetcher.close()
        if self._dropping is not None:
            self._dropping.close()
        self.gradients.detach()
        self._sums.close()
        if self.secret is not None:
            self.secret.close()
        if self._engine is not None:
            self._engine.close()
        self.client.close()
        if self._hub is not None:
            if wait:
                self._hub.await_leaving(_LEAVE_SECONDS)
            self._hub.close(finished=wait)

    def _look_at_releases(self) -> None:
        """So that `epsilon` is there after the end."""
        if self._terms is not None and not self._closed:
            with contextlib.suppress(Error):  # the hub may be gone
                self._releases = int(self.status()["privacy"]["releases"])
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(wait=kind is None)


def join(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    *others: HasState,
    data: Any,
    batch: int | None = None,
    piece: int,
    seed: int = 0,
    shuffle: bool = True,
    drop_last: bool = False,
    collate: Callable[[list[Any]], Any] | None = None,
    loaders: int = 0,
    checkpoint: str | os.PathLike[str] = "",
    checkpoint_seconds: float = 60.0,
    metrics: str | Sequence[str] = (),
    buffers: str | Sequence[str] = (),
    extras: Mapping[str, HasState] | None = None,
    scaler: Any = None,
    replication: int | None = None,
    parts: int = 1,
    sum: str = "everywhere",
    engine: str = "direct",
    compress: str = "none",
    compress_share: float = 0.0,
    compress_rank: int = 0,
    compress_first: int = 0,
    compress_last: int = 0,
    compress_down: str = "none",
    steps: int = 0,
    reproducible: bool = False,
    dp: str = "",
    secure: bool = False,
    secure_colluders: int = 1,
    secure_least: int = 0,
    secure_bound: float = 0.0,
    secure_bits: int = 32,
) -> Job:
    """Makes this process a worker of a training, of which `tarry run`, srun, mpirun or torchrun started several.

    model       the same on all workers; all get the parameters of the first. It may be on any device
    optimizer   the same on all workers: each steps its own
    others      schedulers, scalers, averages: whatever has a state_dict and follows the steps; by name in `extras`
    data        a dataset by numbers, or a tensor or a tuple of tensors; the same samples on all workers
    batch       samples of a step, over all workers; with dp there are as many as are drawn
    piece       samples that are computed at once; 8 pieces or more for each worker use most of a slow worker's time
    seed        of the order of samples, and of what is random in a piece
    loaders     processes that load the samples of this worker's next pieces; they are forked. 0: this one loads them
    checkpoint  a file from which the training goes on by itself where it stopped, and beside it FILE.log; "": none
    metrics     names of sums that `piece.add` adds to; 'loss' is one by itself
    buffers     names of buffers which forward changes, other than those of batch norms
    scaler      a GradScaler, by whose scale piece.backward multiplies the loss; the rest of it is the loop's
    replication workers that may compute a piece; None: all, at most 8
    parts       with 2 and more what workers send is as many times smaller, and each piece is computed as often
    sum         who makes it: 'everywhere', the workers, or 'server', the hub, for small models and for workers that do
                not reach each other
    engine      by which workers do: 'direct' is Tarry's; 'gloo' and 'nccl' are torch.distributed's, in plain text among
                processes of this machine. 'nccl' wants a GPU for each, and was not tried
    compress    the form in which gradients are sent: 'none' (float32), 'bf16', 'int8' and, where sum is 'server',
                'int4', 'sign', 'topk', the largest numbers alone, or 'powersgd', products with a thin matrix;
                metrics, weights and buffers are float32 in each
    compress_share  of the numbers that 'topk' sends, up to 0.5
    compress_rank   of 'powersgd': the columns of the thin matrices that are sent, 1 to 64
    compress_first  so many steps at the beginning are dense with 'topk': all numbers are sent, as in 'int4'
    compress_last   and so many of the last ones, for which `steps` is needed
    compress_down  where sum is 'everywhere', the form in which the sum comes back to all: 'none', 'bf16' or 'int8'
    steps       of the whole training, those before a resume included. 0: not told; nothing but compress_last needs it
    reproducible  sums in an order that does not depend on time: a training repeats to the bit while no worker is lost
    dp          `clip:C,noise:SIGMA,sample:Q[,delta:D][,budget:EPS]`, as `tarry train --dp` has it: differential
                privacy, by sums at the server (docs/privacy.md). Pieces take piece.private(loss_of) in the place of
                backward
    secure      the hub learns each step's sum, which is over all samples, and nothing of any single worker's, by sums
                at the server (docs/privacy.md); there is no batch, and a piece has the same samples in each step
    secure_colluders  so many workers may tell the hub all that they know
    secure_least  samples that none of these may be given, at least; 0: an eighth of all
    secure_bound  numbers of a piece's gradient are held to it; 0: four times the samples of a piece
    secure_bits   of a masked number: 32 or 64

    Raises ArgumentError for what contradicts itself, FormatError for a `dp` that can't be read, and
    tarry.hub.client.Refused where the others train something else.
    """
    if sum not in SUMS:
        raise ArgumentError(f"sum is {sum!r}, and there are {', '.join(SUMS)}")
    check_forms(compress, compress_share, compress_rank, compress_down, sum=sum, engine=engine, parts=parts)
    check_dense(compress_first, compress_last, steps, compress=compress)
    place = place_of()
    if engine != "direct":
        if sum != "everywhere":
            raise ArgumentError(f"engine {engine!r} is for sums among workers, and sum is {sum!r}")
        check_engine(engine)
        if place.hub is not None and not addresses.is_loopback(place.hub):
            raise ArgumentError(
                f"engine {engine!r} sums in plain text among the processes of one machine, and the hub is at "
                f"{place.hub}: 'direct' sums over networks"
            )
    seed = int(seed)
    loader = Loader(data, collate)
    if loaders < 0 or (loaders and loader.draws_nothing):
        why = "tensors are there already" if loader.draws_nothing else "that is no count"
        raise ArgumentError(f"{loaders} processes that load samples: {why}")
    permutation: Permutation | Drawn
    if secure:
        secure_sums.check_options(
            batch=batch is not None, drop_last=drop_last, dp=dp, metrics=metrics, buffers=buffers,
            scaler=scaler is not None,
        )  # fmt: skip
        secure_sums.check_model(model)
        permutation = Permutation(loader.samples, loader.samples, piece, seed=seed, shuffle=False, drop_last=False)
    elif dp:
        check_version()
        check_options(
            batch=batch is not None, shuffle=not shuffle, drop_last=drop_last, metrics=metrics, buffers=buffers,
            scaler=scaler is not None,
        )  # fmt: skip
        check_model(model)
        permutation = Drawn(loader.samples, piece, Terms.read(dp), seed=seed)
    elif batch is None:
        raise ArgumentError("batch: how many samples a step has, over all workers")
    else:
        permutation = Permutation(loader.samples, batch, piece, seed=seed, shuffle=shuffle, drop_last=drop_last)
    metrics, buffers = ((one,) if isinstance(one, str) else one for one in (metrics, buffers))
    secure_sums.check_unused(
        secure_colluders=not secure and secure_colluders != 1, secure_least=not secure and secure_least,
        secure_bound=not secure and secure_bound, secure_bits=not secure and secure_bits != 32,
    )  # fmt: skip
    layout = Layout(model, metrics, buffers, private=bool(dp) or secure)
    named = {str(place): one for place, one in enumerate(others)} | dict(extras or {})
    if scaler is not None:
        named["scaler"] = scaler
    agreement = Agreement(
        dimension=layout.dimension,
        units=permutation.units,
        samples=loader.samples,
        batch=permutation.batch,
        piece=piece,
        seed=seed,
        replication=replication or 0,
        parts=parts,
        sum=sum,
        engine=engine,
        compress=compress,
        compress_share=compress_share,
        compress_rank=compress_rank,
        compress_matrices=" ".join(f"{rows}x{columns}" for rows, columns in layout.matrices() if compress_rank),
        compress_first=compress_first,
        compress_last=compress_last,
        compress_down=compress_down,
        steps=steps,
        exact=layout.exact,
        reproducible=reproducible,
        model=layout.describe(),
        options=f"shuffle={shuffle} drop_last={drop_last} optimizer={type(optimizer).__name__} others={sorted(named)}",
        checkpoint=os.fspath(checkpoint),
        checkpoint_seconds=checkpoint_seconds,
        dp=dp,
    )
    if dp:
        check_private(agreement)
    if secure:
        wanted = secure_sums.Wanted(secure_colluders, secure_least, secure_bound, secure_bits)
        agreement = secure_sums.agreed(agreement, loader, wanted)
        has_credentials = place.security.credentials is not None
        check_secure(agreement, place.workers, place.hub, has_credentials=has_credentials)
    job = Job(model, optimizer, loader, permutation, layout, named, agreement, place, loaders)
    if scaler is not None:

        def backward(loss: torch.Tensor, **options: Any) -> None:
            scaler.scale(loss).backward(**options)

        job.backward = backward
    return job
