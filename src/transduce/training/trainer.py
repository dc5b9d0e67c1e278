"""One run, step by step: update, validate, save, resume, select the weights (paper 5)."""

import contextlib
import dataclasses
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import torch
from torch import Tensor

from transduce.batching.prefetch import Prefetcher, Update
from transduce.checkpoints.checkpoint import load_tensors, load_weights, save_model
from transduce.checkpoints.selection import select_weights, selection_at
from transduce.corpus.bpe_dropout import BPEDropout
from transduce.corpus.token_files import Corpus
from transduce.corpus.updates import Mixture, Updates
from transduce.errors import Diverged, Interrupted
from transduce.model.architecture import build
from transduce.runs.folder import MODEL, START, RunConfig, checkpoints
from transduce.runs.state import State, Window
from transduce.runs.tracking import Tracking
from transduce.system.files import remove_folder
from transduce.system.formatting import format_duration, pluralize
from transduce.system.processes import cores, keep_freed_memory
from transduce.system.progress import Progress, ShowPart
from transduce.system.signals import StopSignal, ignore_signals, stop_signals
from transduce.training import pacing
from transduce.training.averaging import MovingAverage
from transduce.training.distributed.processes import PeerLost, Processes
from transduce.training.gradient import GradientStep
from transduce.training.log import Log, NonFinite, require_finite
from transduce.training.optimizer import learning_rate, make_optimizer
from transduce.training.saving import Checkpointer, Saver
from transduce.training.settings import with_identity
from transduce.training.validation import measure_loss, validate


class Trainer:
    """Trains a run from its current state to its end."""

    def __init__(
        self,
        run: Path,
        run_config: RunConfig,
        corpus: Corpus,
        device: torch.device,
        progress: Progress,
        *,
        tracking: Tracking = Tracking(),  # noqa: B008  (frozen)
        processes: Processes = Processes(),  # noqa: B008  (frozen)
    ) -> None:
        self.run, self.run_config, self.config = run, run_config, run_config.train
        self.corpus, self.device, self.progress = corpus, device, progress
        self.processes = processes
        torch.set_num_threads(processes.share(self.config.threads or cores()))
        keep_freed_memory()
        torch.manual_seed(self.config.seed)
        self.model = build(run_config.model).to(device)
        self.optimizer = make_optimizer(self.model, self.config, self.model.residual_outputs())
        on_gpu = device.type == "cuda"
        self.saver = Saver(background=on_gpu and processes.first)
        self.average = MovingAverage(self.model, self.config.ema)
        self.checkpointer = Checkpointer(run, self.model, self.optimizer, self.average, self.saver)
        self.state = self.load_state()
        self.rate = 0.0
        self.warned = False  # that the source is ignored
        self.gradient_step = GradientStep(
            *(self.model, self.config, corpus.train, processes, progress.say),
            split_in=BPEDropout.of(
                corpus,
                self.config,
                longest=run_config.model.max_len,
                ahead_from=self.state.position.epoch if on_gpu else None,
            ),
        )
        self.optimizer.found_inf = self.gradient_step.skipped
        temperature = run_config.train.data_temperature
        mixture = Mixture.of(corpus.manifest, run_config.corpus_weights, temperature)
        updates = Updates(
            lambda epoch, random: self.gradient_step.deal(epoch, random, mixture.draw(random)),
            seed=self.config.seed,
            position=self.state.position,
        )
        self.prefetcher = Prefetcher(updates, self.gradient_step.prepare, ahead=on_gpu)
        ended = run_config.ended_at(self.state.step)
        self.log = Log(
            *(run, self.state, self.gradient_step.counts, processes, progress.say),
            validated=self.state.step if ended else self.state.validated,
            tracking=tracking,
        )

    def run_to_end(self) -> None:
        """Train until the first limit is reached, then select the final weights."""
        with contextlib.closing(self.prefetcher), self.log, self.saver:
            if self.finished():
                self.progress.say(
                    f"{self.run} has finished: give it more steps, epochs or time to continue"
                )
                return
            if self.config.accumulate is None:
                self.gradient_step.probe_memory()
            if self.state.step == 0:
                self.fit_to_machine()
            several = self.processes.world > 1
            many = f", {self.processes.world} processes" if several else ""
            self.progress.say(f"computing on {self.device.type}{many}: {self.gradient_step.path}")
            with stop_signals(several=several) as stop:
                self.train(stop)
        if self.processes.first:
            self.finish()
            self.raise_failure()

    def raise_failure(self) -> None:
        """Raise the exception in the user's callback, if there was one, once all is saved."""
        if self.log.failure is not None:
            self.progress.say(
                f"the callback raised an exception; step {self.state.step:,} is saved in "
                f"{self.run}: the same call resumes"
            )
            raise self.log.failure

    def fit_to_machine(self) -> None:
        """Choose settings for the whole run that depend on the speed of this machine."""
        fitted = pacing.fit(
            self.gradient_step, self.run_config, self.prefetcher.updates, self.progress
        )
        if fitted == self.config:
            return
        self.config = fitted
        config = dataclasses.replace(self.run_config, train=fitted)
        self.run_config = with_identity(config, self.corpus)
        if self.processes.first:
            self.run_config.save(self.run)

    def train(self, stop: StopSignal) -> None:
        """Run all remaining steps; if they fail, say what to do."""
        try:
            with self.progress.watch("training") as show:
                self.compute_steps(stop, show)
                self.conclude(stop, show)
        except NonFinite as error:
            self.report_divergence(error)
        except RuntimeError as error:
            if self.processes.world > 1:
                self.report_lost_peer(error)
            raise

    def compute_steps(self, stop: StopSignal, show: ShowPart) -> None:
        """Run all remaining steps; log, validate and save when due."""
        state, config = self.state, self.config
        if state.step and self.must_validate():  # it was abandoned when the run was stopped
            self.validate_and_save(stop, stopping=False)
        began = time.monotonic() - state.seconds
        before = state.seconds
        while self.part_done() < 1 and not self.out_of_patience():
            self.update()
            pause = self.is_due(config.validate_every) or self.is_due(config.save_every)
            if pause:
                self.gradient_step.synchronise()  # the pending work counts as step time
            must_stop = stop() or self.log.failure is not None
            now, stopping = self.processes.agree(time.monotonic() - began, must_stop)
            state.window.seconds += now - before
            state.seconds = now
            self.log.poll(show)
            self.saver.poll()
            if self.is_due(config.log_every):
                self.log.add(state, self.rate, self.part_done(), show)
            self.validate_and_save(stop, stopping=stopping)
            if pause and config.timed == "steps":
                began = time.monotonic() - now
            before = time.monotonic() - began

    def update(self) -> Update:
        """Run one step: one update of the weights."""
        state, step = self.state, self.gradient_step
        d_model = self.run_config.model.d_model
        self.rate = learning_rate(state.step + 1, d_model, self.config, self.part_done())
        update = next(self.prefetcher)
        self.seed_dropout()
        self.model.train()
        step.compute(update)
        step.skip_nonfinite(step.clip(), update.tokens)
        self.optimizer.set_rate(self.rate)
        if self.optimizer.reads_found_inf or not step.skipped:
            self.optimizer.step()
        self.average.update(state.step, step.skipped)
        state.step += 1
        state.position, state.epochs = update.next_position, update.epochs
        state.window.tokens += update.tokens
        return update

    def seed_dropout(self) -> None:
        """Give each of several processes its own random numbers, reproducible after resuming."""
        if self.processes.world > 1:
            number = self.state.step * self.processes.world + self.processes.rank
            torch.manual_seed(self.config.seed + number)

    def validate_and_save(self, stop: StopSignal, *, stopping: bool) -> None:
        """Validate and save if due after this step; if stopping, save and stop."""
        if self.must_validate() and not stopping:
            stopping = not self.validate(stop)
        if stopping:
            self.stop()
        if self.must_save():
            self.save(scheduled=True)

    def stop(self) -> NoReturn:
        """Save the run, and say how to resume it."""
        if self.processes.world > 1:
            ignore_signals()
        self.save(scheduled=self.must_save())
        self.saver.wait()
        self.raise_failure()
        raise Interrupted(
            f"stopped after step {self.state.step:,}; everything is saved in {self.run}: "
            "run the same command to resume"
        )

    def conclude(self, stop: StopSignal, show: ShowPart) -> None:
        """Log, validate and save after the last step."""
        state, unlogged = self.state, self.state.window.tokens > 0
        if unlogged:
            self.log.add(state, self.rate, self.part_done(), show)
        self.log.wait(show)
        changed = unlogged or state.validated != state.step
        if state.validated != state.step and not self.validate(stop):
            self.stop()
        # An earlier checkpoint at this step may lack what was just logged or validated, or have a
        # slightly older time; one written on interruption is not averaged.
        if changed or self.config.seconds or not self.processes.from_first(self.is_saved):
            self.save(scheduled=True)

    def report_divergence(self, error: NonFinite) -> NoReturn:
        """Raise Diverged, and say which checkpoint the run resumes from.

        If the last updates were skipped, the update before them may have damaged the weights, so
        the checkpoints written since are deleted. They contain no further progress.
        """
        with contextlib.suppress(Exception):  # the divergence matters more
            self.saver.wait()
        limit = error.step - error.in_a_row if error.in_a_row else math.inf
        saved = checkpoints(self.run)
        sound = [checkpoint for checkpoint in saved if checkpoint.step < limit]
        for checkpoint in saved[len(sound) :] if self.processes.first else []:
            with contextlib.suppress(OSError):
                remove_folder(checkpoint.path)
        where = f"resumes from {sound[-1].path}" if sound else "starts over"
        raise Diverged(
            f"{error}; it was not saved: the same command {where}; add --set lr_scale=0.5 "
            "(or less), or --set clip=1"
        ) from error

    def report_lost_peer(self, error: RuntimeError) -> None:
        """Raise PeerLost if a process was lost; first save the run, except on a GPU.

        On a GPU, saving might wait forever.
        """
        ignore_signals()
        if not self.processes.lost_peer(error):
            return
        saved = {0, *(checkpoint.step for checkpoint in checkpoints(self.run))}
        if self.processes.first and self.device.type == "cpu" and self.state.step not in saved:
            self.state.window = Window()  # the counts of the other process are lost
            self.checkpointer.save(self.state, self.run_config, scheduled=self.must_save())
        raise PeerLost(str(error)) from error

    def finished(self) -> bool:
        """Return whether the run is trained to its end and its final weights are selected."""
        return (
            (self.part_done() >= 1 or self.out_of_patience())
            and self.run_config.selection == selection_at(self.config, self.state.step)
            and (self.run / MODEL).exists()
        )

    def part_done(self) -> float:
        """Return the fraction of the run that is done, 0 to 1."""
        return self.state.part_done(self.config)

    def out_of_patience(self) -> bool:
        """Return whether the validation loss has stopped falling."""
        return 0 < self.config.patience <= self.state.worse

    def is_due(self, every: int) -> bool:
        """Return whether something that is done every `every` steps is due now."""
        return self.state.step % every == 0

    def must_validate(self) -> bool:
        """Return whether a validation is due and has not been done."""
        return self.is_due(self.config.validate_every) and self.state.validated != self.state.step

    def must_save(self) -> bool:
        """Return whether a checkpoint is due at this step, after its validation."""
        return self.is_due(self.config.save_every) and not self.must_validate()

    def is_saved(self) -> bool:
        """Return whether there is a scheduled checkpoint at this step."""
        self.saver.wait()
        return any(
            checkpoint.scheduled and checkpoint.step == self.state.step
            for checkpoint in checkpoints(self.run)
        )

    def validate(self, stop: StopSignal) -> bool:
        """Measure loss, perplexity, source use and BLEU (greedy) on the validation set.

        Returns False if it was abandoned because of a stop signal.
        """
        state = self.state
        best = self.processes.from_first(lambda: self._validate(stop))
        if best is None:
            return False
        state.best_loss, state.best_step, state.worse = best
        state.validated = state.step
        return True

    def _validate(self, stop: StopSignal) -> tuple[float, int, int] | None:
        """Return the best loss so far, its step, and how many validations ago that was."""
        state, step = self.state, self.gradient_step
        result = stop.run_unless_stopped(
            lambda: validate(step, self.corpus, self.config.validate_bleu)
        )
        if result is None:
            return None
        in_a_row = int(step.counts[-1].item())
        require_finite(result.loss, "the validation loss", state.step, in_a_row)
        better = result.loss < state.best_loss
        self.checkpointer.require_folder()
        if better:
            self.checkpointer.save_best(state)
        self.log.add_validation(state.step, result.samples, **result.to_json())
        best = ", the best so far" if better else ""
        self.progress.say(f"step {state.step:,}: {result}{best}")
        warning = result.warning(state.step, self.config, self.part_done())
        if warning and not self.warned:
            self.progress.say(warning)
            self.warned = True
        # Also set here, because sending the values to a dead process would fail.
        if better:
            state.best_loss, state.best_step, state.worse = result.loss, state.step, 0
        else:
            state.worse += 1
        return state.best_loss, state.best_step, state.worse

    def save(self, *, scheduled: bool) -> None:
        """Write a checkpoint from which the run resumes exactly."""
        self.log.save_window(self.state)
        if self.processes.first:
            self.checkpointer.save(self.state, self.run_config, scheduled=scheduled)

    def load_state(self) -> State:
        """Load the newest checkpoint, or else the weights to start from, if there are any."""
        state = self.checkpointer.load(self.run_config)
        if state is not None:
            self.progress.say(f"resuming from step {state.step:,} of {self.run}")
            return state
        origin = self.run_config.origin
        if origin and origin.weights:
            path = self.run_config.verified(self.run, START)
            load_weights(self.model, load_tensors(path), path)
            self.average.restart()
            self.progress.say(f"starting from the weights of {origin.run}: {origin.weights}")
        return State()

    def finish(self) -> None:
        """Write model.safetensors: a mean of the last weights, or the best weights."""
        self.checkpointer.require_folder()

        def loss(weights: Mapping[str, Tensor]) -> float:
            load_weights(self.model, weights, self.run)
            return measure_loss(self.gradient_step, self.corpus.valid)[0]

        average = {name: weight.cpu() for name, weight in self.average.weights.items()}
        tensors, description = select_weights(self.run, self.config, self.state, loss, average)
        selection = selection_at(self.config, self.state.step)
        config = dataclasses.replace(self.run_config, selection=selection)
        save_model(self.run, config, tensors, description)
        self.progress.say(
            f"trained {pluralize(self.state.step, 'step')} in "
            f"{format_duration(self.state.seconds)}; {self.run / MODEL} is the {description}"
        )
