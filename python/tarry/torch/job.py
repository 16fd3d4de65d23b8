# SPDX-License-Identifier: Apache-2.0
"""A training that this process is a worker of."""

import collections
import contextlib
import dataclasses
import functools
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self, cast

import torch

from ..errors import ArgumentError, Error, StateError
from ..gone import names_gone
from ..hub import Agreement, Client, Member
from ..hub.client import Refused, Welcome
from ..hub.private import check_private, epsilon_of
from ..hub.secure import check_secure
from ..hub.training import SUMS, plan_of
from ..secure import LEAST_UNIT_SAMPLES
from ..settings import ServerSettings
from ..straggler import Straggler
from ..task import Task
from ..worker import Worker
from . import joins
from . import secure as secure_sums
from .among_workers import AmongWorkers
from .at_server import AtServer
from .buffer_source import BufferSource
from .chief import Chief
from .clipping import Clipping
from .collective import Collective, check_setting
from .data_digest import check_options as check_data_options
from .data_digest import summarize
from .drawn import Drawn
from .drift import Drift
from .dropping import Dropping
from .dtypes import tell_of_double
from .environment import Place, place_of
from .evaluation import evaluate
from .finite import FiniteCheck, policy_of
from .forms import check_forms
from .gradients import Gradients, flat_tensor
from .interruption import Interruption
from .layout import Layout
from .loader import Loader
from .local_steps import LocalSteps, MakeOptimizer
from .lone import tell_of_lone_samples
from .members import HasState, Members
from .numerics import kind_of, probe
from .order import Order, hold_to_others, order_of
from .prefetch import Prefetcher
from .reduction import Reduction
from .seeding import seed_all
from .source import source_of
from .standing import Standing
from .step import Guard, LossOf, Step
from .sums import Lost, Over, Summed, Sums
from .tail import Tail
from .update import Copies, Parts, Update
from .wrapped import check_whole


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
        permutation: Order,
        layout: Layout,
        others: Mapping[str, HasState],
        agreement: Agreement,
        place: Place,
        prefetcher: Prefetcher,
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self.loader, self.permutation, self.layout = loader, permutation, layout
        self.gradients = Gradients(layout)
        self.reduction = Reduction()
        self.members = Members(model, optimizer, others, layout)
        self._terms = permutation.terms if isinstance(permutation, Drawn) else None
        self._releases = 0  # with dp: as the hub told last
        # With dp: what makes gradients of single examples.
        self.clipping = (
            Clipping(model, layout, self._terms.clip, permutation.piece) if self._terms is not None else None
        )
        self.secret: secure_sums.Secret | None = None  # with secure sums: what this worker insists on
        self._bound: tuple[int, bytes] | None = None  # the same: a step, and the state that it begins with
        self.place = place
        self._prefetcher = prefetcher
        self.backward: Callable[..., None] = cast(Any, torch.Tensor).backward
        self.move: Callable[[Any], Any] | None = None
        self._walk: Iterator[Step] | None = None  # of `step`
        self._asked: collections.Counter[str] = collections.Counter()  # evaluations, in the same step
        self._standing = Standing(self.members)
        self._dropping: Dropping | None = None
        self._step: Step | None = None
        self._closed = False
        self.joined = joins.Join(place)
        self.is_in_steps = False  # of `steps`, whose end has not come
        self._left = False  # the loop over steps was left in `_step`, by a break or an exception
        self._engine: Collective | None = None  # None: the library's own
        self.client: Client
        self._sums: Sums
        self._guard = Guard(optimizer, others.values(), self._may_step, self._skips)
        try:
            self._connect(agreement)
            self.update = self._update(agreement)
            own_hub = self.joined.hub if self.workers == 1 else None
            self._interruption = Interruption(own_hub, agreement.checkpoint)
            self._sums.look = self._interruption.look
        except BaseException as error:
            self._guard.close()
            self._prefetcher.close()
            if self.secret is not None:
                self.secret.close()
            if not (isinstance(error, Refused) and error.ended):
                self.joined.go_back()
            self.joined.leave_hub(wait=False)
            raise
        joins.add(self)

    # ---- joining ----

    def _connect(self, agreement: Agreement) -> None:
        place = self.place
        address = place.hub
        if address is None or place.starts_hub:
            hub = self.joined.start_hub(place)
            address = address or hub.address
        member = place.member(address)
        welcome = self._join(address, member, agreement)
        self.worker, self.workers = welcome.worker, welcome.workers
        self._chief = Chief(self.client, self.worker)
        if welcome.notice:
            warnings.warn(welcome.notice, stacklevel=5)
        if isinstance(self.permutation, Drawn):
            self.permutation.hear(welcome.draws)
        self.copies = Copies(self.client, self.worker, agreement.parts)
        self._source = BufferSource(self.members.unnamed, self.permutation, self.client, agreement)
        if self._prefetcher.is_used:
            with plan_of(self.workers, agreement) as plan:
                self._prefetcher.expect([int(unit) for unit in plan.order_of(self.worker)])
        if welcome.state is not None:
            self._standing.load(welcome.state)
        if welcome.over:
            self._sums = Over(self._standing, self.client)
            self._dropping, self._drift = Dropping(self.model), Drift(self.client, self._sums, 1)
            return
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
            if agreement.secure:
                self.secret = secure_sums.Secret(agreement, member)
                connect = functools.partial(connect, secure=self.secret.member, prepare=self.secret.prepare)
            self._sums = AtServer(self._standing, self.client, self.worker, connect)
            self._drift = Drift(self.client, self._sums, self.workers)
            return
        connect_to_others = functools.partial(connect, **place.among_workers(welcome.server))
        if agreement.engine != "direct":
            self._engine = Collective(agreement.engine, "127.0.0.1")
            connect_to_others = functools.partial(connect_to_others, engine=self._engine)
        self._sums = AmongWorkers(self._standing, self.client, welcome.last, connect_to_others)
        self._drift = Drift(self.client, self._sums, self.workers)

    def _update(self, agreement: Agreement) -> Update:
        tail = Tail(self.layout, bound=agreement.secure_bound if agreement.secure else math.inf)
        finite = FiniteCheck(agreement, self.layout, tail, self.permutation, self.client, self.worker)
        parts = Parts(
            self.layout, self.members, self.gradients, tail, finite, self.permutation, self._prefetcher, self._source,
            self.copies, self._drift,
        )  # fmt: skip
        return Update(parts, copied=agreement.parts > 1, is_secure=agreement.secure)

    def _join(self, address: str, member: Member, agreement: Agreement) -> Welcome:
        kind = kind_of(self.layout.parameters[0][1].device)
        while True:
            self.client = Client(address, member)
            try:
                return self.client.join(self.place.worker, agreement, self._standing.save, kind=kind, which=self.joined)
            except Refused as refused:
                self.client.close()
                if not ((refused.ended or refused.other) and self.joined.go_on()):
                    raise
            except BaseException:
                self.client.close()
                raise

    # ---- steps ----

    @property
    def done(self) -> int:
        """Steps that this worker's model has taken."""
        step = self._step
        return self._standing.done + int(self._left and step is not None and step.summed and not step.lost)

    @property
    def chief(self) -> bool:
        """Whether this is the worker that speaks for all: it logs, and evaluates. It is worker 0. If worker 0 ends
        before the training does, and is not started again, another worker becomes the chief between two steps."""
        return self._chief.is_own((self._standing.done, self._step is None))

    def steps(self, steps: int) -> Iterator[Step]:
        """The training's steps up to `steps` in all, those before a resume included.

        For each the pieces that this worker is given are computed, as in `for piece in step`; then every parameter's
        `.grad` is the mean over the whole batch, the same on all workers, and the optimizer may step. With dp they end
        before the budget would be exceeded, too.

        A loop that is left by `break` ends well. If all workers leave at the same step, the training is over, and its
        state is in the checkpoint. Otherwise the others go on. See `stop`, too.
        """
        if steps < 0:
            raise ArgumentError(f"{steps} steps")
        if self._closed:
            raise StateError("the job is closed: join again for more steps")
        self._end_left_step()
        self.client.steps(steps)
        self.is_in_steps = True
        self._interruption.begin(self._sums)
        self._sums.begin(steps)
        while self.done < steps and self._sums.goes_on():
            hold_to_others(self, self.done)
            step = Step(self, self.done)
            self._step = step
            self._asked.clear()
            try:
                yield step
            except GeneratorExit:  # by a break, or by an exception in the loop's body: `close` hears which
                self._left = True
                raise
            self._end_step(step)
        self._sums.finish()
        self.is_in_steps = False
        self._interruption.end()

    def stop(self) -> None:
        """Ends the training for all workers after the same step, which is the one in progress: loops over job.steps end
        there as after their last step, and the checkpoint has the state. One worker is enough; any thread but one at a
        time may call it, within a step or outside."""
        self.client.stop()

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
        name: str = "",
    ) -> dict[str, float]:
        """Mean loss and metrics of the model as it is over `data`, of any kind that `join` takes.

        Workers that evaluate the same data by the same function share them out, `piece` samples at once (None: as many
        as a piece of a step has), and get the same result; what a slow or lost worker leaves is done by others. A
        worker that evaluates something alone does all of it. loss_of is called with each batch, as Step.compute has
        it, with the model in its `eval` mode and without gradients. Random numbers of the training are as if nothing
        had happened.

        What is the same is told by a digest of the data, by the place of loss_of in the script, its code and its
        closure, and by how often this was asked in this step. `name` says it instead: it is needed if workers differ
        in what they evaluate by something else, for example by a global variable (docs/torch.md).

        A worker that has lost the step gets what the others have found, or NaN.
        Raises Error if workers evaluate data of different lengths by the same name.
        """
        with self.members.unnamed.undone():
            return evaluate(self, self._step, self._asked, data, loss_of, piece=piece, collate=collate, name=name)

    def _end_step(self, step: Step) -> None:
        """What the loop's body has left undone, and what follows from it."""
        step.exhaust()
        self._count_step(step)
        step.give_back()
        self._drift.end_step(lost=step.lost or self._source.missed)

    def _count_step(self, step: Step) -> None:
        self.members.unnamed.settle()
        if not step.lost:
            self._standing.done += 1
            self._standing.told = self.update.applied
        self._sums.end_step(lost=step.lost)
        self._step, self._left = None, False
        self._asked.clear()

    def _end_left_step(self) -> None:
        """Another loop follows the one that was left."""
        step = self._step
        if step is not None and step.summed:
            self._end_step(step)
        elif step is not None:
            step.abandon()
        self._step, self._left = None, False

    def _leave_loop(self) -> None:
        """The loop over steps was left before its last one, and no other loop follows. The hub hears it before others
        may get the state after this step: a worker that gets it leaves if all that made the step have left."""
        step = self._step
        if step is None:
            return
        if step.summed:
            self._count_step(step)
        else:
            step.abandon()
        self._step, self._left = None, False
        self._sums.leave(step.give_back)

    def _may_step(self) -> None:
        step = self._step
        if step is not None and not step.summed:
            raise StateError(
                "the optimizer steps before the gradients are summed: go through all pieces first, as in "
                "`for piece in step: ...`, and step after the loop"
            )

    def _skips(self) -> bool:
        """True if the optimizer must not step."""
        return self._step is not None and self._step.skipped

    # ---- what steps and pieces ask ----

    def take(self) -> Task | Summed | Lost:
        if self._closed:
            raise StateError("the job is closed, maybe by a later join of the same model")
        return self._sums.take()

    def load_batch(self, step: int, unit: int) -> Any:
        return self.moved(self._prefetcher.load(step, unit))

    def moved(self, batch: Any) -> Any:
        return batch if self.move is None else self.move(batch)

    def open_piece(self, task: Task, step: int, unit: int) -> torch.Tensor:
        """Gives the piece's vector. No parameter has a gradient yet."""
        self.layout.check_wanted()
        vector = flat_tensor(task.gradient)
        self.gradients.clear()
        if self.layout.buffers:
            with torch.no_grad():
                self.members.restore_buffers()
        self._source.begin_piece(step)
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

    def close_piece(self, task: Task, *, failed: bool) -> None:
        assert self._dropping is not None
        self._dropping.task = None
        self._source.end_piece()
        if not task.given:
            task.give(failed=failed)

    def empty_piece(self, task: Task) -> None:
        """A piece without samples, at an epoch's end."""
        task.gradient[:] = 0
        task.give()

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
        the others have left, too, unless `wait` is false: then the training ends for them, and nothing is made of a
        step in progress. A second call does nothing."""
        if self._closed:
            return
        joins.remove(self)
        try:
            if wait and not self.client.training_failed:
                self._leave_loop()
                self._interruption.end()
        finally:
            self._left = False
            self._interruption.close()
            self._close(wait=wait)

    def _close(self, *, wait: bool) -> None:
        self._look_at_releases()
        self._guard.close()
        self._prefetcher.close()
        if self._dropping is not None:
            self._dropping.close()
        self.gradients.close()
        self._sums.close()
        if self.secret is not None:
            self.secret.close()
        if self._engine is not None:
            self._engine.close()
        self._chief.close(asks=wait)
        self.client.close()
        if not wait and not self.client.training_failed:
            self.joined.leave()
        self.joined.leave_hub(wait=wait)

    def _look_at_releases(self) -> None:
        """So that `epsilon` is there after the end."""
        if self._terms is not None and not self._closed:
            with contextlib.suppress(Error):  # the hub may be gone
                self._releases = int(self.status()["privacy"]["releases"])
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        is_good_end = isinstance(error, SystemExit) and error.code in (None, 0)
        self.close(wait=kind is None or is_good_end)


@names_gone
def join(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    *others: HasState,
    data: Any,
    batch: int | None = None,
    piece: int,
    seed: int = 0,
    shuffle: bool | None = None,
    drop_last: bool | None = None,
    sampler: Any = None,
    collate: Callable[[list[Any]], Any] | None = None,
    loaders: int | None = None,
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
    compress_down: str = "none",
    reproducible: bool = False,
    dp: str = "",
    secure: bool = False,
    secure_colluders: int = 1,
    secure_least: int = 0,
    secure_bound: float = 0.0,
    secure_bits: int = 32,
    data_id: str = "",
    data_check: str = "error",
    nonfinite: str | None = None,
    secure_piece_samples: int = LEAST_UNIT_SAMPLES,
) -> Job:
    """Makes this process a worker of a training, of which `tarry run`, srun, mpirun or torchrun started several.

    model       the same on all workers; all get the parameters of the first. It may be on any device
    optimizer   the same on all workers: each steps its own
    others      schedulers, scalers, averages: whatever has a state_dict and follows the steps; by name in `extras`
    data        a dataset by numbers, a tensor or a tuple of tensors, the same samples on all workers; or a DataLoader,
                whose dataset, sampler, batch_sampler, collate_fn, drop_last and num_workers are used
    batch       samples of a step, over all workers; with dp there are as many as are drawn. None: the DataLoader's
    piece       samples that are computed at once; 8 pieces or more for each worker use most of a slow worker's time
    shuffle     another order in each epoch. None: as the DataLoader has it, else True
    drop_last   an epoch's last batch is left out if it is smaller. None: as the DataLoader has it, else False
    sampler     a Sampler of PyTorch, a tensor of weights, or f(seed, step), which gives the indices of the step
    seed        of the order of samples, and of what is random in a piece
    loaders     processes that load the samples of this worker's next pieces; they are forked. 0: this one loads them.
                None: num_workers of the DataLoader, else 0
    checkpoint  a file from which the training goes on by itself where it stopped, and beside it FILE.log; "": none
    metrics     names of sums that `piece.add` adds to; 'loss' is one by itself
    buffers     names of buffers that forward changes, whose changes are averaged as those of batch norms are. Each step
                takes the others that forward changes from one of its pieces
    scaler      a GradScaler, by whose scale piece.backward multiplies the loss; the rest of it is the loop's
    replication workers that may compute a piece; None: all, at most 8
    parts       with 2 and more what workers send is as many times smaller, and each piece is computed as often.
                Decoding rounds all numbers of a sum, its weight and metrics too, to about 1e-7 of the largest one
    sum         who makes it: 'everywhere', the workers, or 'server', the hub, for small models and for workers that do
                not reach each other
    engine      by which workers do: 'direct' is Tarry's; 'gloo' and 'nccl' are torch.distributed's, in plain text among
                processes of this machine. 'nccl' wants a GPU for each, and was not tried
    compress    the form in which gradients are sent: 'none' (float32), 'bf16', 'int8' and, where sum is 'server',
                'int4', 'sign', 'topk', the largest numbers alone, or 'powersgd', products with a thin matrix;
                metrics, weights and buffers are float32 in each
    compress_share  of the numbers that 'topk' sends, up to 0.5
    compress_rank   of 'powersgd': the columns of the thin matrices that are sent, 1 to 64
    compress_down  where sum is 'everywhere', the form in which the sum comes back to all: 'none', 'bf16' or 'int8'
    reproducible  sums in an order that does not depend on time: a training repeats to the bit while no worker is lost.
                Workers that compute other bits, as different processors do, are refused. Generators of the script's
                own, as np.random.default_rng(), are not seeded for a piece (docs/torch.md)
    dp          `clip:C,noise:SIGMA,sample:Q[,delta:D][,budget:EPS]`, as `tarry train --dp` has it: differential
                privacy, by sums at the server (docs/privacy.md). Pieces take piece.private(loss_of) in the place of
                backward
    secure      the hub learns each step's sum, which is over all samples, and nothing of any single worker's, by sums
                at the server (docs/privacy.md); there is no batch, and a piece has the same samples in each step
    secure_colluders  so many workers may tell the hub all that they know
    secure_least  samples that none of these may be given, at least; 0: an eighth of all
    secure_bound  numbers of a piece's gradient are held to it; 0: four times the samples of a piece. With more than
                0.1 % of its numbers beyond the bound a worker sends nothing, and the training ends
    secure_bits   of a masked number: 32 or 64
    data_id     a name of the data, which is compared among workers in place of samples
    data_check  what follows if workers have different data: 'error', 'warn', or 'off': they are not compared. Tensors
                are digested whole; of other datasets up to 256 samples are read, which finds a share p of different
                samples with a probability of 1 - (1 - p)^256, 92 % for 1 % (docs/torch.md)
    nonfinite   what follows if a gradient has a NaN or an infinity: 'raise' ends the training on all workers and names
                worker, piece and samples; 'skip' skips the step on all workers (`step.skipped`); 'allow' looks at
                nothing. None: 'raise', or 'allow' with a scaler, which skips such steps itself
    secure_piece_samples  samples that each piece has at least, the last one included

    Raises ArgumentError for what contradicts itself, FormatError for a `dp` that can't be read, and
    tarry.hub.client.Refused where the others train something else.
    """
    if sum not in SUMS:
        raise ArgumentError(f"sum is {sum!r}, and there are {', '.join(SUMS)}")
    check_forms(compress, compress_share, compress_rank, compress_down, sum=sum, engine=engine, parts=parts)
    check_whole(model, optimizer, (*others, *(extras or {}).values()))
    nonfinite = policy_of(nonfinite, scaler=scaler is not None, dp=dp)
    place = place_of()
    joins.close_left(place, model, optimizer)
    if engine != "direct":
        check_setting(engine, sum, place.hub)
    seed = int(seed)
    private = "secure" if secure else "dp" if dp else ""
    source = source_of(data, collate=collate, sampler=sampler, shuffle=shuffle, drop_last=drop_last, private=private)
    loader = Loader(source.data, source.collate)
    if loaders is None:
        loaders = 0 if loader.draws_nothing else source.processes
    check_data_options(data_check, data_id, secure=secure)
    if loaders < 0 or (loaders and loader.draws_nothing):
        why = "tensors are there already" if loader.draws_nothing else "that is no count"
        raise ArgumentError(f"{loaders} processes that load samples: {why}")
    permutation = order_of(
        source, loader.samples, model, batch=batch, piece=piece, seed=seed, dp=dp, secure=secure,
        metrics=metrics, buffers=buffers, scaler=scaler is not None,
    )  # fmt: skip
    metrics, buffers = ((one,) if isinstance(one, str) else one for one in (metrics, buffers))
    secure_sums.check_unused(
        secure_colluders=not secure and secure_colluders != 1, secure_least=not secure and secure_least,
        secure_bound=not secure and secure_bound, secure_bits=not secure and secure_bits != 32,
        secure_piece_samples=not secure and secure_piece_samples != LEAST_UNIT_SAMPLES,
    )  # fmt: skip
    layout = Layout(model, metrics, buffers, dp=bool(dp), secure=secure)
    if (place.worker or 0) == 0:
        tell_of_lone_samples(model, permutation)
        tell_of_double(layout.parameters)
    named = {str(place): one for place, one in enumerate(others)} | dict(extras or {})
    if scaler is not None:
        named["scaler"] = scaler
    settings = cast(ServerSettings, {"sum": sum, "reproducible": reproducible})
    if compress != "none" or compress_down != "none":
        settings |= cast(ServerSettings, {"compress": compress, "compress_down": compress_down})
    if compress_share:
        settings["compress_share"] = compress_share
    if compress_rank:
        settings["compress_rank"], settings["compress_matrices"] = compress_rank, layout.matrices()
    agreement = Agreement(
        dimension=layout.dimension,
        units=permutation.units,
        samples=loader.samples,
        batch=permutation.batch,
        piece=piece,
        seed=seed,
        replication=replication or 0,
        parts=parts,
        settings=settings,
        engine=engine,
        exact=layout.exact,
        model=layout.describe(),
        options=f"{source.describe()} optimizer={type(optimizer).__name__} others={sorted(named)}",
        checkpoint=os.fspath(checkpoint),
        checkpoint_seconds=checkpoint_seconds,
        dp=dp,
        numerics=f"numerics {probe(layout.parameters[0][1].device)}" if reproducible else "",
        data_check=data_check,
        nonfinite=nonfinite,
    )
    if dp:
        check_private(agreement)
    prefetcher = Prefetcher(loader, permutation.seed_of, permutation.samples_of, loaders, source.begin)
    with prefetcher.closed_on_error():
        if secure:
            wanted = secure_sums.Wanted(secure_colluders, secure_least, secure_bound, secure_bits, secure_piece_samples)
            agreement = secure_sums.agreed(agreement, loader, wanted, prefetcher.each)
            has_credentials = place.security.credentials is not None
            check_secure(agreement, place.workers, place.hub, has_credentials=has_credentials)
        elif data_check != "off":
            speaks = place.worker == 0
            told = summarize(loader, prefetcher.each, seed=seed, data_id=data_id, private=bool(dp), speaks=speaks)
            agreement = dataclasses.replace(agreement, data_summary=told.encode())
        job = Job(model, optimizer, loader, permutation, layout, named, agreement, place, prefetcher)
    if scaler is not None:

        def backward(loss: torch.Tensor, **options: Any) -> None:
            scaler.scale(loss).backward(**options)

        job.backward = backward
    return job
