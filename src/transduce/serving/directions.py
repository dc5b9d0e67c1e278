"""Which direction of which model a request gets. All routes choose by the functions here."""

from collections.abc import Mapping, Sequence

from transduce.errors import TransduceError, did_you_mean
from transduce.serving.detection import AUTO, detect_source, languages_of
from transduce.serving.models import ServedModel
from transduce.serving.problems import SHOWN, Problem
from transduce.text.identification import Guess
from transduce.text.languages import Pair, list_pairs

Models = Mapping[str, ServedModel]


async def choose_direction(
    models: Models,
    texts: Sequence[str],
    source: str | None,
    target: str | None,
    *,
    name: str | None = None,
    html: bool = False,
) -> tuple[ServedModel, Guess | None]:
    """Return `find_model`'s direction; with the source `auto`, detect the language of the texts."""
    if source != AUTO:
        return find_model(models, name, source, target), None
    pairs = [pair for _, pair in fitting(models, name, None, target)]
    sources = [left for left, _ in pairs]
    guess = await detect_source(texts, languages_of(models.values()), sources, html=html)
    if guess.language not in sources:
        reason = _no_model(guess.language, target, pairs)
        raise Problem(400, f"source = auto: the text seems to be {guess.language}, and {reason}")
    return find_model(models, name, guess.language, target), guess


def find_model(
    models: Models, name: str | None, source: str | None = None, target: str | None = None
) -> ServedModel:
    """Return a direction of the model with this name, or of the first model that fits.

    A model that is named may translate between two of its languages that it was not trained on.
    """
    if name is None:
        model, _ = fitting(models, None, source, target)[0]
    else:
        model, pair = named_model(models, name)
        source, target = _agreeing(name, pair, source, target)
    targets = [right for left, right in model.pairs if source in (None, left)]
    if target is None and len({*targets}) > 1:
        raise Problem(
            400,
            f"{model.name} translates to {', '.join(dict.fromkeys(targets))}: give the target "
            f"language, or a model such as {model.directions()[0].name}",
        )
    try:
        return model.directed(to=target, source=source)
    except TransduceError as error:
        raise Problem(400, str(error)) from None


def fitting(
    models: Models, name: str | None, source: str | None, target: str | None
) -> list[tuple[ServedModel, Pair]]:
    """Return the models and pairs that fit a request, at least one; None is any language."""
    chosen = [*models.values()]
    if name is not None:
        model, pair = named_model(models, name)
        chosen, (source, target) = [model], _agreeing(name, pair, source, target)
    elif not chosen:
        raise Problem(404, "no model is served: start with `transduce serve RUN`")
    pairs = [(model, pair) for model in chosen for pair in model.pairs]
    fits = [
        (model, pair)
        for model, pair in pairs
        if source in (None, pair[0]) and target in (None, pair[1])
    ]
    if not fits:
        raise Problem(400, _no_model(source, target, [pair for _, pair in pairs]))
    return fits


def named_model(models: Models, name: str) -> tuple[ServedModel, Pair | None]:
    """Return the model with this name, and the direction if the name says it: MODEL:en-de."""
    if name in models:
        return models[name], None
    whole, _, code = name.rpartition(":")
    for pair in models[whole].pairs if whole in models else ():
        if "-".join(pair) == code:
            return models[whole], pair
    name = name[:SHOWN]
    hint = did_you_mean(name, models) or f" The models are: {', '.join(models) or 'none'}"
    raise Problem(404, f"there is no model {name}.{hint}")


def _no_model(source: str | None, target: str | None, pairs: Sequence[Pair]) -> str:
    languages = [f"from {source[:SHOWN]}"] if source else []
    languages += [f"to {target[:SHOWN]}"] if target else []
    return f"there is no model {' '.join(languages)}. The models are: {list_pairs(pairs)}"


def _agreeing(
    name: str, pair: Pair | None, source: str | None, target: str | None
) -> tuple[str | None, str | None]:
    """Return the languages of a request; refuse those that its model's name contradicts."""
    if pair is None:
        return source, target
    for field, given, own in zip(("source", "target"), (source, target), pair, strict=True):
        if given not in (None, own):
            raise Problem(
                400,
                f"{field} = {given[:SHOWN]}: the model {name} translates from {pair[0]} to "
                f"{pair[1]}; leave out the {field}, or name another model",
            )
    return pair
