"""One run, step by step: update, validate, save, resume, choose the weights (paper 5)."""

import contextlib
import dataclasses
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import torch
from torch.nn.utils import clip_grad_norm_, get_total_norm

from transduce.batching.prefetch import Prefetcher, Update
from transduce.checkpoints.checkpoint import (
    load_moments,
    load_tensors,
    load_weights,
    moments_of,
    prune,
    random_states,
    save_checkpoint,
    save_model,
    save_tensors,
    set_random_states,
    weights_of,
)
from transduce.checkpoints.selection import chosen, selection_at
from transduce.corpus.token_files import Corpus
from transduce.corpus.updates import Updates
from transduce.errors import BadRun, Interrupted
from transduce.model.architecture import build
from transduce.runs.folder import (
    BEST,
    OPTIMIZER,
    START,
    STATE,
    WEIGHTS,
    RunConfig,
    checkpoints,
    last_checkpoint,
)
from transduce.runs.state import State, Window
from transduce.system.formatting import format_duration, pluralize
from transduce.system.processes import cores, keep_freed_memory
from transduce.system.progress import Progress, ShowPart
from transduce.system.signals import StopSignal, ignore_signals, stop_signals
from transduce.training import pacing
from transduce.training.background import Saver
from transduce.training.distributed.processes import Processes, lost
from transduce.training.gradient import GradientStep
from transduce.training.log import Log
from transduce.training.optimizer import adam, learning_rate
from transduce.training.settings import identified
from transduce.training.validation import measure_loss, validate


class Trainer:
    """One run, from where it stands to its end."""

    def __init__(
        self,
        run: Path,
        config: RunConfig,
        corpus: Corpus,
        device: torch.device,
        progress: Progress,
        *,
        tensorboard: bool = False,
        processes: Processes = Processes(),  # noqa: B008  (frozen)
    ) -> None:
        self.run, self.config, self.recipe = run, config, config.train
        self.corpus, self.device, self.progress = corpus, device, progress
        self.processes = processes
        torch.set_num_threads(processes.share(self.recipe.threads or cores()))
        keep_freed_memory()
        torch.manual_seed(self.recipe.seed)
        self.model = build(config.model).to(device)
        self.optimizer = adam(self.model, self.recipe)
        self.state = State()
        self.rate = 0.0
        self.resume()
        self.gradient_step = GradientStep(
            self.model, self.recipe, corpus.train, processes, progress.say
        )
        updates = Updates(
            self.gradient_step.layout.updates, seed=self.recipe.seed, position=self.state.position
        )
        self.prefetcher = Prefetcher(
            updates, self.gradient_step.prepare, ahead=device.type == "cuda"
        )
        self.optimizer.found_inf = self.gradient_step.skipped
        self.saver = Saver(aside=device.type == "cuda" and processes.first)
        ended_here = config.ended_at(self.state.step)
        self.log = Log(
            *(run, self.state, self.gradient_step.counts, processes, progress.say),
            validated=self.state.step if ended_here else self.state.validated,
            tensorboard=tensorboard,
            settle=self.saver.wait,
        )

    def run_to_end(self) -> None:
        """Train until the steps, epochs or seconds are used up, then choose the weights."""
        with contextlib.closing(self.prefetcher), self.log, self.saver:
            if self.finished():
                self.progress.say(
                    f"{self.run} has finished: give it more steps, epochs or time to go on"
                )
                return
            if self.recipe.accumulate is None:
                self.gradient_step.probe()
            if self.state.step == 0:
                self.fit_to_machine()
            many = f", {self.processes.world} processes" if self.processes.world > 1 else ""
            self.progress.say(f"computing on {self.device.type}{many}: {self.gradient_step.path}")
            with stop_signals(several=self.processes.world > 1) as interrupted:
                try:
                    self.steps(interrupted)
                except RuntimeError as error:
                    self.keep_what_there_is(error)
                    raise
        if self.processes.first:
            self.finish()

    def fit_to_machine(self) -> None:
        """Choose what depends on the speed of this machine, and keep it for the whole run."""
        fitted = pacing.fit(self.gradient_step, self.config, self.prefetcher.updates, self.progress)
        if fitted == self.recipe:
            return
        self.recipe = fitted
        self.config = identified(dataclasses.replace(self.config, train=fitted), self.corpus)
        if self.processes.first:
            self.config.save(self.run)

    def steps(self, interrupted: StopSignal) -> None:
        """Make all steps that are left, with what is due after each of them."""
        state, recipe = self.state, self.recipe
        began = time.monotonic() - state.seconds
        before = state.seconds
        with self.progress.watch("training") as show:
            if state.step and self.to_validate():  # given up when it was stopped
                self.do_what_is_due(interrupted, asked=False)
                began = time.monotonic() - state.seconds  # that was no time of a step
            while self.part_done() < 1 and not self.out_of_patience():
                self.update()
                aside = self.due(recipe.validate_every) or self.due(recipe.save_every)
                if aside:
                    self.gradient_step.synchronise()  # the step time includes pending work
                now, asked = self.processes.agree(time.monotonic() - began, interrupted())
                state.window.seconds += now - before
                state.seconds = now
                self.log.poll(show)
                self.saver.poll()
                if self.due(recipe.log_every):
                    self.log.add(state, self.rate, self.part_done(), show)
                self.do_what_is_due(interrupted, asked=asked)
                if aside and recipe.timed == "steps":
                    began = time.monotonic() - now
                before = time.monotonic() - began
            self.conclude(show, interrupted)

    def do_what_is_due(self, interrupted: StopSignal, *, asked: bool) -> None:
        """Validate and save, as is due after this step; save and stop if asked to."""
        if self.to_validate() and not asked:
            asked = not self.validate(interrupted)
        if asked:
            self.stop()
        if self.is_scheduled():
            self.save(scheduled=True)

    def stop(self) -> NoReturn:
        """Save where we are, and say how to go on."""
        if self.processes.world > 1:
            ignore_signals()
        self.save(scheduled=self.is_scheduled())
        self.saver.wait()
        raise Interrupted(
            f"stopped after step {self.state.step:,}; everything is saved in {self.run}: "
            "the same command goes on from here"
        )

    def conclude(self, show: ShowPart, interrupted: StopSignal) -> None:
        """Do what is due after the last step."""
        state, unlogged = self.state, self.state.window.tokens > 0
        if unlogged:
            self.log.add(state, self.rate, self.part_done(), show)
        self.log.wait(show)
        unknown = unlogged or state.validated != state.step
        if state.validated != state.step and not self.validate(interrupted):
            self.stop()
        # A checkpoint of this very step may not know what was just logged or found, or say that a
        # little time is left; one that was written on interruption takes no part in the mean.
        if unknown or self.recipe.seconds or not self.processes.from_first(self.saved):
            self.save(scheduled=True)

    def saved(self) -> bool:
        """Tell whether there is a scheduled checkpoint of this step."""
        self.saver.wait()
        return any(one.scheduled and one.step == self.state.step for one in checkpoints(self.run))

    def due(self, every: int) -> bool:
        """Tell whether something that is done every so many steps is to be done now."""
        return self.state.step % every == 0

    def to_validate(self) -> bool:
        """Tell whether a validation that is due has not been made."""
        return self.due(self.recipe.validate_every) and self.state.validated != self.state.step

    def is_scheduled(self) -> bool:
        """Tell whether a checkpoint of this step, with its validation, is due."""
        return self.due(self.recipe.save_every) and not self.to_validate()

    def keep_what_there_is(self, error: RuntimeError) -> None:
        """Save where we are if another process has died; a GPU may then wait for it for ever."""
        if not lost(error):
            return
        ignore_signals()
        there = {0, *(one.step for one in checkpoints(self.run))}
        if self.processes.first and self.device.type == "cpu" and self.state.step not in there:
            self.state.window = Window()  # what the dead one has counted died with it
            self._save(scheduled=self.is_scheduled())

    def finished(self) -> bool:
        """Tell whether nothing is left to do: trained to the end, and the weights chosen."""
        return (
            (self.part_done() >= 1 or self.out_of_patience())
            and self.config.selection == selection_at(self.recipe, self.state.step)
            and (self.run / "model.safetensors").exists()
        )

    def update(self) -> Update:
        """Make one step: one update of the weights."""
        state, recipe = self.state, self.recipe
        d_model = self.config.model.d_model
        self.rate = learning_rate(state.step + 1, d_model, recipe, self.part_done())
        update = next(self.prefetcher)
        if self.processes.world > 1:  # each draws for itself what is dropped, as if just resumed
            several = state.step * self.processes.world + self.processes.rank
            torch.manual_seed(recipe.seed + several)
        self.model.train()
        self.gradient_step.compute(update)
        self.gradient_step.skip_nonfinite(self.clipped_norm(), update.tokens)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate
        # On Apple's GPUs torch's kernel does not look at `found_inf`.
        if self.device.type != "mps" or not self.gradient_step.skipped:
            self.optimizer.step()
        state.step += 1
        state.position, state.epochs = update.next_position, update.epochs
        state.window.tokens += update.tokens
        return update

    def clipped_norm(self) -> torch.Tensor:
        """Return the norm of the gradient, which is then made no longer than `clip`."""
        if self.recipe.clip:
            return clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        gradients = (parameter.grad for parameter in self.model.parameters())
        return get_total_norm([one for one in gradients if one is not None])

    def part_done(self) -> float:
        """Return how much of the run is behind us, 0 to 1."""
        return self.state.part_done(self.recipe)

    def out_of_patience(self) -> bool:
        """Tell whether the validation loss has stopped falling."""
        return 0 < self.recipe.patience <= self.state.worse

    def validate(self, interrupted: StopSignal) -> bool:
        """Measure loss, perplexity and BLEU (greedy) on the validation set.

        Tell whether that was done: it is given up at once when somebody asks to stop.
        """
        state = self.state
        found = self.processes.from_first(lambda: self._validate(interrupted))
        if found is None:
            return False
        state.best_loss, state.best_step, state.worse = found
        state.validated = state.step
        return True

    def _validate(self, interrupted: StopSignal) -> tuple[float, int, int] | None:
        """Return the best loss so far, its step, and how many validations ago that was."""
        state = self.state
        found = interrupted.run_unless_stopped(
            lambda: validate(self.gradient_step, self.corpus, self.recipe.validate_bleu)
        )
        if found is None:
            return None
        in_a_row = int(self.gradient_step.counts[-1].item())
        self.log.require_finite(found.loss, "the validation loss", state.step, in_a_row)
        better = found.loss < state.best_loss
        self.require_folder()
        if better:
            self.save_best()
        self.log.validated(state.step, found.samples, **found.to_json())
        best = ", the best so far" if better else ""
        self.progress.say(f"step {state.step:,}: {found}{best}")
        # Our own are set before the others hear of them: one of those may have died meanwhile.
        if better:
            state.best_loss, state.best_step, state.worse = found.loss, state.step, 0
        else:
            state.worse += 1
        return state.best_loss, state.best_step, state.worse

    def save(self, *, scheduled: bool) -> None:
        """Write a checkpoint from which the run goes on exactly."""
        self.log.keep(self.state)
        if self.processes.first:
            self._save(scheduled=scheduled)

    def require_folder(self) -> None:
        """Refuse to make anew what somebody has removed: it would be no run."""
        if not (self.run / "config.json").exists():
            raise BadRun(
                f"{self.run} was removed while it was being trained: the same command begins anew"
            )

    def _save(self, *, scheduled: bool) -> None:
        self.require_folder()
        weights = weights_of(self.model)
        moments = moments_of(self.optimizer, weights)
        self.require_numbers(weights | moments)
        kept, others = self.saver.kept(weights), self.saver.kept(moments)
        others = random_states(self.device) | others
        step, state = self.state.step, {"run": self.config.identity, **self.state.to_json()}

        def write() -> None:
            self.require_folder()
            # The best weights are written by now, if it was they that were waiting.
            known = {**state, "best_hash": self.state.best_hash}
            save_checkpoint(
                *(self.run, step), scheduled=scheduled, weights=kept, optimizer=others, state=known
            )
            prune(self.run, self.recipe.keep)

        self.saver.do(write)

    def save_best(self) -> None:
        """Write the weights of the best validation so far."""
        weights = weights_of(self.model)
        self.require_numbers(weights)
        kept = self.saver.kept(weights)

        def write() -> None:
            self.require_folder()
            self.state.best_hash = save_tensors(self.run / BEST, kept)

        self.saver.do(write)

    def require_numbers(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """End the run before weights or moments that are no numbers are kept."""
        largest = get_total_norm(list(tensors.values()), math.inf).item()
        self.log.require_finite(largest, "a weight or a moment", self.state.step)

    def resume(self) -> None:
        """Take up the newest checkpoint, if there is one, else what the run begins with."""
        newest = last_checkpoint(self.run)
        if newest is None:
            self.begin()
            return
        try:
            known = newest.state()
            if known.get("run", self.config.identity) != self.config.identity:
                raise BadRun(
                    f"{newest.path / STATE} and {self.run / 'config.json'} are of different runs"
                )
            self.state = State.from_json(known)
            path = newest.verified(WEIGHTS)
            load_weights(self.model, load_tensors(path), path)
            path = newest.verified(OPTIMIZER)
            moments = set_random_states(load_tensors(path), self.device, path)
            load_moments(self.optimizer, weights_of(self.model), moments, path)
        except BadRun as error:
            raise BadRun(
                f"{error}; delete {newest.path} to go on from the checkpoint before it, if any"
            ) from None
        self.progress.say(f"going on from step {self.state.step:,} of {self.run}")

    def begin(self) -> None:
        """Take the weights of the run that this one begins with, if it does with any."""
        origin = self.config.origin
        if origin and origin.weights:
            path = self.config.verified(self.run, START)
            load_weights(self.model, load_tensors(path), path)
            self.progress.say(f"beginning with the weights of {origin.run}: {origin.weights}")

    def finish(self) -> None:
        """Write the weights that translate: the mean of the last checkpoints, or the best."""
        recipe = self.recipe
        self.require_folder()

        def loss(weights: Mapping[str, torch.Tensor]) -> float:
            load_weights(self.model, weights, self.run)
            return measure_loss(self.gradient_step, self.corpus)[0]

        tensors, words = chosen(self.run, recipe, self.state, loss)
        config = dataclasses.replace(self.config, selection=selection_at(recipe, self.state.step))
        save_model(self.run, config, tensors, words)
        self.progress.say(
            f"trained {pluralize(self.state.step, 'step')} in "
            f"{format_duration(self.state.seconds)}; "
            f"{self.run / 'model.safetensors'} is the {words}"
        )
