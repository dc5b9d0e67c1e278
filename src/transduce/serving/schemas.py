"""What requests and answers hold; from it the OpenAPI description is made."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from transduce.serving.limits import ALPHA, BEAM, NBEST


def _whole(value: Any) -> Any:
    """Take 4.0 for 4: JSON does not tell them apart."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number(value: Any) -> Any:
    """Take "3" for 3 and null or nothing for 0, as LibreTranslate does."""
    if value is None or value == "":
        return 0
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 9:
        return int(value)
    return value


def _texts(value: Any) -> Any:
    """Refuse what is neither text nor a list of texts; pydantic would list every bad item."""
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str) for one in items):
        raise PydanticCustomError("texts_type", "expected text, or a list of texts")
    return value


Beam = Annotated[int, Field(ge=1, le=BEAM), BeforeValidator(_whole)]
Nbest = Annotated[int, Field(ge=1, le=NBEST), BeforeValidator(_whole)]
Alternatives = Annotated[int, Field(ge=0, le=NBEST - 1), BeforeValidator(_whole)]


class Asked(BaseModel):
    """What a request holds: nothing but these fields, of just these types."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class TranslateRequest(Asked):
    """A text to translate."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"text": "Two dogs run over the grass.", "nbest": 2}}
    )

    text: Annotated[str, Field(description="the text to translate; a line is a paragraph")]
    model: Annotated[
        str | None, Field(description="the name of a model; without it, the first that is served")
    ] = None
    beam: Annotated[Beam | None, Field(description="the width of the search; 1 is greedy")] = None
    alpha: Annotated[float | None, Field(ge=0, le=ALPHA, description="the length penalty")] = None
    nbest: Annotated[
        Nbest | None,
        Field(description="candidates of each sentence, at most the beam"),
    ] = None
    split: Annotated[bool, Field(description="translate the sentences of a line one by one")] = True


class Candidate(BaseModel):
    """One translation of a sentence."""

    text: str
    score: Annotated[
        float, Field(description="the log-probability over the length penalty; higher is better")
    ]
    log_probability: Annotated[float, Field(description="natural logarithm, the end counted")]
    tokens: Annotated[list[str], Field(description="its subwords")]


class Segment(BaseModel):
    """A sentence and its translations."""

    gap: Annotated[str, Field(description="what stands before its translation")]
    source: str
    candidates: Annotated[list[Candidate], Field(description="best first")]


class Paragraph(BaseModel):
    """A line; a blank one has no sentences."""

    segments: list[Segment]


class TranslateAnswer(BaseModel):
    """A translation, and how it was put together."""

    model: str
    text: Annotated[str, Field(description="the best translation, with the line breaks it had")]
    milliseconds: float
    paragraphs: Annotated[list[Paragraph], Field(description="one for each line")]


class InspectRequest(Asked):
    """A sentence to look into."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"source": "Two dogs run.", "target": "Zwei Hunde laufen."}}
    )

    source: Annotated[str, Field(description="one sentence")]
    target: Annotated[
        str | None, Field(description="its translation; without it, what the model writes")
    ] = None
    model: Annotated[
        str | None, Field(description="the name of a model; without it, the first that is served")
    ] = None


class Weights(BaseModel):
    """Attention weights; rows sum to 1."""

    shape: Annotated[list[int], Field(description="layers, heads, queries, keys")]
    data: Annotated[
        str, Field(description="base64 of little-endian 16-bit numbers in C order; 65535 is 1")
    ]


class Attention(BaseModel):
    """The weights of every layer and head."""

    encoder: Weights
    decoder: Weights
    cross: Weights


class Words(BaseModel):
    """Which word each piece belongs to."""

    source: list[int]
    target: list[int]


class Spelled(BaseModel):
    """The words as texts, though their pieces may be parts of letters."""

    source: list[str]
    target: list[str]


class Inspection(BaseModel):
    """One pair of sentences, seen through a model."""

    model: str
    languages: list[str]
    sentences: Annotated[list[str], Field(description="the source and the target as text")]
    source: Annotated[list[str], Field(description="pieces, the end last")]
    target: Annotated[list[str], Field(description="what each step writes")]
    inputs: Annotated[list[str], Field(description="what each step reads")]
    words: Words
    spelled: Spelled
    probabilities: Annotated[list[float], Field(description="of each piece that is written")]
    alternatives: Annotated[
        list[list[tuple[str, float]]], Field(description="of each step, the likeliest first")
    ]
    attention: Attention


class ModelSearch(BaseModel):
    """The settings that a model is searched with where none are given."""

    beam: int
    alpha: float
    nbest: int


class Model(BaseModel):
    """A model that is served."""

    name: str
    source: Annotated[str, Field(description="the language that it translates from")]
    target: Annotated[str, Field(description="the language that it translates to")]
    source_name: str
    target_name: str
    engine: str
    weights: str
    parameters: int
    settings: Annotated[dict[str, Any], Field(description="the architecture: N, d_model, h …")]
    search: ModelSearch
    examples: Annotated[list[str], Field(description="short sentences of its validation set")]


class Bounds(BaseModel):
    """What a request may ask for at most."""

    characters: int
    texts: Annotated[int, Field(description="of a request to /translate")]
    beam: int
    nbest: int


class ModelsAnswer(BaseModel):
    """What is served."""

    models: list[Model]
    limits: Bounds


class LibreFields(BaseModel):
    """Parameters that all requests to LibreTranslate's paths may have; unknown ones are ignored."""

    model_config = ConfigDict(strict=True)

    q: Annotated[
        str | list[str], Field(description="the text, or several"), BeforeValidator(_texts)
    ]
    api_key: Annotated[
        str | None, Field(description="the key of a service that needs one, unless a header has it")
    ] = None


class LibreRequest(LibreFields):
    """A translation, asked for as LibreTranslate is."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"q": "Two dogs run.", "source": "en", "target": "de", "format": "text"}
        }
    )

    source: Annotated[
        str, Field(description="the language of the text; auto: the one that there is a model for")
    ]
    target: Annotated[str, Field(description="the language to translate to")]
    format: Annotated[
        str,
        Field(description="text; html is not taken"),
        BeforeValidator(lambda value: value or "text"),
    ] = "text"
    alternatives: Annotated[
        Alternatives,
        Field(description="further translations that are wanted"),
        BeforeValidator(_number),
    ] = 0


class DetectRequest(LibreFields):
    """A text whose language is asked for."""

    model_config = ConfigDict(json_schema_extra={"example": {"q": "Two dogs run."}})


class Detected(BaseModel):
    """A language that a model translates from. Nothing is detected, so the confidence is 0."""

    confidence: float
    language: str


class FrontendLanguage(BaseModel):
    """A language of LibreTranslate's page."""

    code: str
    name: str


class FrontendLanguages(BaseModel):
    """The languages that LibreTranslate's page begins with."""

    source: FrontendLanguage
    target: FrontendLanguage


class FrontendSettings(BaseModel):
    """What LibreTranslate tells its page, for the clients that read it."""

    apiKeys: bool  # noqa: N815
    keyRequired: bool  # noqa: N815
    charLimit: int  # noqa: N815
    frontendTimeout: int  # noqa: N815
    filesTranslation: bool  # noqa: N815
    supportedFilesFormat: list[str]  # noqa: N815
    suggestions: bool
    language: FrontendLanguages


class LibreAnswer(BaseModel):
    """A translation; lists where a list was asked for."""

    translatedText: str | list[str]  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: Detected | list[Detected] | None = None  # noqa: N815


class Language(BaseModel):
    """A language, and those that it can be translated to."""

    code: str
    name: str
    targets: list[str]


class Run(BaseModel):
    """How a run stands."""

    name: str
    state: Annotated[str, Field(description="training, stopped, finished, damaged or gone")]
    note: Annotated[str, Field(description="what more there is to say of its state")]
    step: int
    seconds: float | None
    epoch: float | None
    planned: Annotated[
        dict[str, float | None], Field(description="steps, seconds and epochs, where it has them")
    ]
    part: Annotated[float | None, Field(description="of it that is done, 0 to 1")]
    left: Annotated[float | None, Field(description="seconds until it ends, about")]
    loss: float | None
    valid_loss: float | None
    bleu: Annotated[float | None, Field(description="of the last validation")]
    speed: Annotated[float | None, Field(description="target tokens a second")]
    seconds_since_write: float | None
    preset: str | None
    languages: list[str] | None
    size: str | None
    parameters: int | None
    measure: Annotated[dict[str, float], Field(description="what its loss depends on")]
    token: Annotated[str, Field(description="changes when something was logged")]


class RunSamples(BaseModel):
    """How some sentences were translated at each validation."""

    source: list[str]
    reference: list[str]
    step: list[int]
    outputs: Annotated[list[list[str]], Field(description="of each validation")]


class RunData(BaseModel):
    """What a run has logged, as columns; long stretches are thinned."""

    name: str
    token: Annotated[str, Field(description="to be sent as `since` next time")]
    void: Annotated[bool, Field(description="this is all there is: forget what came before")]
    training: dict[str, list[float | None]]
    validation: dict[str, list[float | None]]
    samples: RunSamples


class Health(BaseModel):
    """That the service is there."""

    status: str


class Error(BaseModel):
    """What went wrong."""

    error: Annotated[str, Field(description="one sentence: what was found, what was expected")]
