"""From two text files to a translator: step, validate, save, resume (paper 5)."""

import dataclasses
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from transduce import config as configuration
from transduce import loss as losses
from transduce import score, text
from transduce.batches import Batch, Batches, Place, in_order
from transduce.checkpoint import (
    RunConfig,
    average_checkpoints,
    checkpoints,
    last_checkpoint,
    load_tensors,
    load_weights,
    prune,
    save_checkpoint,
    save_model,
    save_tensors,
    weights_of,
)
from transduce.config import SearchConfig
from transduce.corpus import Corpus
from transduce.errors import BadRun, Diverged, Interrupted
from transduce.files import remove_leftovers
from transduce.machine import (
    choose_device,
    cores,
    interruptions,
    keep_memory,
    locked,
    terminated_as_interrupted,
)
from transduce.metrics import Metrics, require_tensorboard
from transduce.model import Transformer
from transduce.plan import begun, continued
from transduce.preparation import prepare
from transduce.presets import preset as find_preset
from transduce.progress import Progress, Show, Silent, duration
from transduce.schedule import adam, learning_rate
from transduce.search import search

GREEDY = SearchConfig(beam=1)
SIDE_BY_SIDE = 100  # sentences translated at once in validation


def train(
    source: str | Path,
    target: str | Path | None = None,
    *,
    out: str | Path,
    valid: tuple[str | Path, str | Path | None] | None = None,
    languages: str | None = None,
    preset: str | None = None,
    settings: Mapping[str, str] | None = None,
    device: str = "auto",
    tensorboard: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Train a translator from `source` to `target`, two files line by line (or one TSV).

    Everything is kept in the folder `out`, which `Translator.load` and every command understand.
    Called again with the same arguments it goes on where it was stopped. `settings` are names and
    values as for `--set` on the command line; what is not set is chosen from the size of the data
    and the machine.
    """
    progress = progress or Silent()
    run, settings = Path(out), dict(settings or {})
    on = choose_device(device)
    if tensorboard:
        require_tensorboard()
    # What is mistyped is refused before anything is written.
    chosen = find_preset(preset or "base")
    if not (run / "config.json").exists():
        configuration.apply(settings, chosen.model, chosen.train)
    with locked(run), terminated_as_interrupted():
        remove_leftovers(run)
        goes_on = (run / "config.json").exists()
        if goes_on:
            config = continued(run, preset, settings, on, progress)
        else:
            model, recipe = configuration.apply(settings, chosen.model, chosen.train)
            config = RunConfig(model=model, train=recipe)
        corpus = prepare(
            source,
            target,
            run / "corpus",
            valid=valid,
            languages=text.languages(source, target, languages),
            train=config.train,
            max_len=config.model.max_len,
            anew=not goes_on,
            progress=progress,
        )
        if not goes_on:
            config = begun(corpus, preset, settings, on, progress)
            corpus.codec.save(run / "subwords.json")
        config.save(run)  # last, for it makes the folder a run
        Trainer(run, config, corpus, on, progress, tensorboard=tensorboard).run_to_end()
    return run


@dataclass(slots=True)
class Window:
    """Sums since the last logged step."""

    tokens: int = 0
    smoothed: float = 0.0
    nll: float = 0.0
    seconds: float = 0.0  # spent on steps alone


@dataclass(slots=True)
class State:
    """Where a run stands, apart from its weights and its optimizer."""

    step: int = 0
    seconds: float = 0.0
    place: Place = field(default_factory=Place)
    window: Window = field(default_factory=Window)
    best_loss: float = math.inf
    best_step: int = 0
    worse: int = 0  # validations since the best
    validated: int = 0  # the step of the last validation

    def to_json(self) -> dict[str, Any]:
        """Return the state as a JSON object."""
        value = asdict(self)
        value["place"] = self.place.to_json()
        value["best_loss"] = None if math.isinf(self.best_loss) else self.best_loss
        return value

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "State":
        """Read a state."""
        try:
            best = value["best_loss"]
            return cls(
                step=value["step"],
                seconds=value["seconds"],
                place=Place.from_json(value["place"]),
                window=Window(**value["window"]),
                best_loss=math.inf if best is None else best,
                best_step=value["best_step"],
                worse=value["worse"],
                validated=value["validated"],
            )
        except (KeyError, TypeError) as error:
            raise BadRun(f"the training state of a checkpoint is damaged: {error}") from None


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
    ) -> None:
        self.run, self.config, self.recipe = run, config, config.train
        self.corpus, self.device, self.progress = corpus, device, progress
        torch.set_num_threads(self.recipe.threads or cores())
        keep_memory()
        torch.manual_seed(self.recipe.seed)
        self.model = Transformer(config.model).to(device)
        self.optimizer = adam(self.model, self.recipe)
        self.state = State()
        self.resume()
        self.batches = Batches(
            corpus.train,
            batch_tokens=self.recipe.batch_tokens,
            seed=self.recipe.seed,
            place=self.state.place,
        )
        self.metrics = Metrics(run, self.state.step, tensorboard=tensorboard)

    def run_to_end(self) -> None:
        """Train until the steps, epochs or seconds are used up, then choose the weights."""
        with self.metrics:
            if self.finished():
                self.progress.say(
                    f"{self.run} has finished: give it more steps, epochs or time to go on"
                )
                return
            self.steps()
        self.finish()

    def steps(self) -> None:
        """Make all steps that are left, with what is due after each of them."""
        state, recipe = self.state, self.recipe
        began = time.monotonic() - state.seconds
        # What was written on interruption does not count: it takes no part in the mean.
        saved = max((one.step for one in checkpoints(self.run) if one.scheduled), default=0)
        with interruptions() as interrupted, self.progress.watch("training") as show:
            while self.part_done() < 1 and not self.out_of_patience():
                self.update()
                now = time.monotonic() - began
                state.window.seconds += now - state.seconds
                state.seconds = now
                if state.step % recipe.log_every == 0:
                    self.log(show)
                if state.step % recipe.validate_every == 0:
                    self.validate()
                if state.step % recipe.save_every == 0:
                    self.save(scheduled=True)
                    saved = state.step
                if interrupted():
                    if saved != state.step:
                        self.save(scheduled=False)
                    raise Interrupted(
                        f"stopped after step {state.step:,}; everything is saved in {self.run}: "
                        "the same command goes on from here"
                    )
                state.seconds = time.monotonic() - began
            if state.window.tokens:
                self.log(show)
            if state.validated != state.step:
                self.validate()
            # A checkpoint of this very step may say that a little time is left.
            if saved != state.step or recipe.seconds:
                self.save(scheduled=True)

    def finished(self) -> bool:
        """Tell whether nothing is left to do: trained to the end, and the weights chosen."""
        return (
            (self.part_done() >= 1 or self.out_of_patience())
            and self.config.chosen == self.choice()
            and (self.run / "model.safetensors").exists()
        )

    def choice(self) -> str:
        """Return by what rule, and at which step, the weights that translate are chosen."""
        recipe = self.recipe
        rule = "best" if recipe.select == "best" else f"average {recipe.average}"
        return f"{rule} at step {self.state.step}"

    def update(self) -> None:
        """Make one step: one update of the weights from `accumulate` batches."""
        state, recipe = self.state, self.recipe
        rate = learning_rate(state.step + 1, self.config.model.d_model, recipe, self.part_done())
        batches = [next(self.batches).to(self.device) for _ in range(recipe.accumulate)]
        tokens = sum(batch.target_tokens for batch in batches)
        self.model.train()
        for batch in batches:
            smoothed, nll = self.loss(batch)
            (smoothed / tokens).backward()
            state.window.smoothed += smoothed.item()
            state.window.nll += nll.item()
        self.require_finite(state.window.smoothed)
        if recipe.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        state.step += 1
        state.place = self.batches.place
        state.window.tokens += tokens

    def require_finite(self, loss: float) -> None:
        """End the run before weights that are no numbers are kept."""
        if not math.isfinite(loss):
            raise Diverged(
                f"the loss after step {self.state.step:,} is no longer a number: "
                "lower lr_scale or lengthen warmup, and begin anew in another folder"
            )

    def loss(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the sums of the smoothed loss and of the negative log-likelihood."""
        return losses.loss(self.model(batch), self.model.output, batch.labels, self.recipe.eps_ls)

    def part_done(self) -> float:
        """Return how much of the run is behind us, 0 to 1."""
        state, recipe = self.state, self.recipe
        parts = [0.0]
        if recipe.steps is not None:
            parts.append(state.step / recipe.steps)
        if recipe.seconds is not None:
            parts.append(state.seconds / recipe.seconds)
        if recipe.epochs is not None:
            within = (
                state.place.batch / self.batches.batches_per_epoch() if state.place.batch else 0
            )
            parts.append((state.place.epoch + within) / recipe.epochs)
        return min(1.0, max(parts))

    def out_of_patience(self) -> bool:
        """Tell whether the validation loss has stopped falling."""
        return 0 < self.recipe.patience <= self.state.worse

    def log(self, show: Show) -> None:
        """Record the means since the last logged step."""
        state, window = self.state, self.state.window
        loss, nll = window.smoothed / window.tokens, window.nll / window.tokens
        rate = self.optimizer.param_groups[0]["lr"]
        speed = window.tokens / max(window.seconds, 1e-9)
        perplexity = math.exp(min(nll, 100))
        self.metrics.add(
            state.step,
            epoch=state.place.epoch,
            loss=loss,
            nll=nll,
            perplexity=perplexity,
            learning_rate=rate,
            target_tokens_per_second=round(speed, 1),
            seconds=round(state.seconds, 3),
        )
        part = self.part_done()
        left = duration(state.seconds * (1 - part) / part) if part else "?"
        show(
            part,
            f"step {state.step:,}, loss {loss:.2f}, ppl {perplexity:.4g}, lr {rate:.1e}, "
            f"{speed:,.0f} tok/s, {left} left",
        )
        state.window = Window()

    @torch.inference_mode()
    def validate(self) -> None:
        """Measure loss, perplexity and BLEU (greedy) on the validation set."""
        state, part = self.state, self.corpus.valid
        self.model.eval()
        smoothed = nll = tokens = 0.0
        for batch in in_order(part, self.recipe.batch_tokens):
            one, other = self.loss(batch.to(self.device))
            smoothed, nll = smoothed + one.item(), nll + other.item()
            tokens += batch.target_tokens
        self.require_finite(smoothed)
        loss, perplexity = smoothed / tokens, math.exp(min(nll / tokens, 100))
        bleu = self.bleu() if self.recipe.validate_bleu else None
        state.validated = state.step
        better = loss < state.best_loss
        if better:
            state.best_loss, state.best_step, state.worse = loss, state.step, 0
            save_tensors(self.run / "best.safetensors", weights_of(self.model))
        else:
            state.worse += 1
        self.metrics.add(
            state.step,
            valid_loss=loss,
            valid_nll=nll / tokens,
            valid_perplexity=perplexity,
            **({} if bleu is None else {"valid_bleu": round(bleu, 2)}),
        )
        said = "" if bleu is None else f", BLEU {bleu:.1f} (greedy)"
        best = ", the best so far" if better else ""
        self.progress.say(
            f"step {state.step:,}: validation loss {loss:.3f}, ppl {perplexity:.2f}{said}{best}"
        )

    def bleu(self) -> float:
        """Translate the first sentences of the validation set greedily and score them."""
        part, codec = self.corpus.valid, self.corpus.codec
        count = min(self.recipe.validate_bleu, len(part))
        pairs = [part.pair(i) for i in range(count)]
        outputs = [""] * count
        by_length = sorted(range(count), key=lambda i: len(pairs[i][0]))
        for begin in range(0, count, SIDE_BY_SIDE):
            some = by_length[begin : begin + SIDE_BY_SIDE]
            sources = [pairs[i][0] for i in some]
            found = search(self.model, sources, GREEDY, forbidden=codec.target.forbidden())
            for i, (best, *_) in zip(some, found, strict=True):
                outputs[i] = codec.target.decode(best.tokens)
        references = [codec.target.decode(target.tolist()) for _, target in pairs]
        return score.bleu(outputs, references, self.config.languages[1])

    def save(self, *, scheduled: bool) -> None:
        """Write a checkpoint from which the run goes on exactly."""
        self.metrics.flush()
        names = {id(p): name for name, p in weights_of(self.model).items()}
        moments: dict[str, torch.Tensor] = {"random": torch.get_rng_state()}
        if self.device.type == "cuda":
            moments["random.cuda"] = torch.cuda.get_rng_state()
        for parameter, values in self.optimizer.state.items():
            for key, value in values.items():
                moments[f"{key}.{names[id(parameter)]}"] = value
        save_checkpoint(
            self.run,
            self.state.step,
            scheduled=scheduled,
            weights=weights_of(self.model),
            optimizer=moments,
            state=self.state.to_json(),
        )
        prune(self.run, self.recipe.keep)

    def resume(self) -> None:
        """Take up the newest checkpoint, if there is one."""
        newest = last_checkpoint(self.run)
        if newest is None:
            return
        try:
            self.state = State.from_json(newest.state())
            path = newest.path / "weights.safetensors"
            load_weights(self.model, load_tensors(path), path)
            self._load_optimizer(newest.path / "optimizer.safetensors")
        except BadRun as error:
            raise BadRun(
                f"{error}; delete {newest.path} to go on from the checkpoint before it, if any"
            ) from None
        self.progress.say(f"going on from step {self.state.step:,} of {self.run}")

    def _load_optimizer(self, path: Path) -> None:
        moments = load_tensors(path)
        torch.set_rng_state(moments.pop("random"))
        if "random.cuda" in moments:
            cuda = moments.pop("random.cuda")
            if self.device.type == "cuda":
                torch.cuda.set_rng_state(cuda)
        own = weights_of(self.model)
        for key, value in moments.items():
            kind, _, name = key.partition(".")
            if name not in own:
                raise BadRun(f"{path} does not fit the model: it has an unknown tensor {key}")
            self.optimizer.state[own[name]][kind] = value.to(self.device, copy=True)

    def finish(self) -> None:
        """Write the weights that translate: the mean of the last checkpoints, or the best."""
        recipe = self.recipe
        if recipe.select == "best":
            tensors = load_tensors(self.run / "best.safetensors")
            words = f"best validation loss, at step {self.state.best_step:,}"
        else:
            tensors, words = average_checkpoints(self.run, recipe.average)
        save_model(self.run, dataclasses.replace(self.config, chosen=self.choice()), tensors, words)
        self.progress.say(
            f"trained {self.state.step:,} steps in {duration(self.state.seconds)}; "
            f"{self.run / 'model.safetensors'} is the {words}"
        )
