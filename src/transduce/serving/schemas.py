"""The fields of requests and answers. The OpenAPI description is generated from them."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from transduce.serving.limits import ALPHA, BEAM, NBEST


def _whole(value: Any) -> Any:
    """Accept 4.0 for 4: JSON does not distinguish them."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number(value: Any) -> Any:
    """Accept "3" for 3 and null or nothing for 0, as LibreTranslate does."""
    if value is None or value == "":
        return 0
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 9:
        return int(value)
    return value


def _texts(value: Any) -> Any:
    """Refuse anything but a text or a list of texts; pydantic would list every bad item."""
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, str) for item in items):
        raise PydanticCustomError("texts_type", "text, or a list of texts")
    return value


Beam = Annotated[int, Field(ge=1, le=BEAM), BeforeValidator(_whole)]
Nbest = Annotated[int, Field(ge=1, le=NBEST), BeforeValidator(_whole)]
Alternatives = Annotated[int, Field(ge=0, le=NBEST - 1), BeforeValidator(_whole)]


class StrictRequest(BaseModel):
    """A request with exactly these fields and types."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class TranslateRequest(StrictRequest):
    """A text to translate."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"text": "Two dogs run over the grass.", "nbest": 2}}
    )

    text: str = Field(description="the text to translate; a line is a paragraph")
    model: str | None = Field(None, description="name of a model; default: the first one served")
    beam: Beam | None = Field(None, description="beam width; 1 is greedy search")
    alpha: float | None = Field(None, ge=0, le=ALPHA, description="the length penalty")
    nbest: Nbest | None = Field(None, description="candidates per sentence, at most the beam width")
    split: bool = Field(default=True, description="translate the sentences of a line one by one")
    tag: str | None = Field(None, description="tag of a corpus that the model was trained on")


class Candidate(BaseModel):
    """One translation of a sentence."""

    text: str
    score: float = Field(description="log-probability over length penalty; higher is better")
    log_probability: float = Field(description="natural logarithm, including </s>")
    tokens: list[str] = Field(description="its subwords")


class Segment(BaseModel):
    """A sentence and its translations."""

    gap: str = Field(description="white space before its translation")
    source: str
    candidates: list[Candidate] = Field(description="best first")


class Paragraph(BaseModel):
    """A line; a blank line has no sentences."""

    segments: list[Segment]


class TranslateAnswer(BaseModel):
    """A translation and its sentences."""

    model: str
    text: str = Field(description="the best translation, line by line")
    milliseconds: float
    paragraphs: list[Paragraph] = Field(description="one per line")


class InspectRequest(StrictRequest):
    """A sentence whose attention is wanted."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"source": "Two dogs run.", "target": "Zwei Hunde laufen."}}
    )

    source: str = Field(description="one sentence")
    target: str | None = Field(None, description="its translation; default: the model's own")
    model: str | None = Field(None, description="name of a model; default: the first one served")


class Weights(BaseModel):
    """Attention weights; rows sum to 1."""

    shape: list[int] = Field(description="layers, heads, queries, keys")
    data: str = Field(description="base64 of little-endian uint16 in C order; 65535 means 1")


class Attention(BaseModel):
    """The weights of every layer and head."""

    encoder: Weights
    decoder: Weights
    cross: Weights


class Words(BaseModel):
    """The index of the word of each subword."""

    source: list[int]
    target: list[int]


class Spelled(BaseModel):
    """The words as text; single subwords may be parts of a character."""

    source: list[str]
    target: list[str]


class Inspection(BaseModel):
    """A pair of sentences with the probabilities and attention weights of a model."""

    model: str
    languages: list[str]
    sentences: list[str] = Field(description="the source and the target as text")
    source: list[str] = Field(description="subwords, </s> last")
    target: list[str] = Field(description="the output of each decoding step")
    inputs: list[str] = Field(description="the decoder input of each step")
    words: Words
    spelled: Spelled
    probabilities: list[float] = Field(description="of each output subword")
    alternatives: list[list[tuple[str, float]]] = Field(description="per step, most likely first")
    attention: Attention


class ModelSearch(BaseModel):
    """The default search settings of a model."""

    beam: int
    alpha: float
    nbest: int


class Model(BaseModel):
    """A served model."""

    name: str
    source: str = Field(description="source language")
    target: str = Field(description="target language")
    source_name: str
    target_name: str
    engine: str
    weights: str
    parameters: int
    settings: dict[str, Any] = Field(description="the architecture: N, d_model, h …")
    search: ModelSearch
    examples: list[str] = Field(description="short sentences of its validation set")


class Bounds(BaseModel):
    """Limits of a request."""

    characters: int
    texts: int = Field(description="of a request to /translate")
    beam: int
    nbest: int


class ModelsAnswer(BaseModel):
    """The served models."""

    models: list[Model]
    limits: Bounds


class LibreFields(BaseModel):
    """Parameters of all requests to LibreTranslate's paths; unknown ones are ignored."""

    model_config = ConfigDict(strict=True)

    q: Annotated[
        str | list[str], Field(description="the text, or several"), BeforeValidator(_texts)
    ]
    api_key: str | None = Field(None, description="the key, if one is needed and no header has it")


class LibreRequest(LibreFields):
    """A request for a translation, as LibreTranslate takes it."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"q": "Two dogs run.", "source": "en", "target": "de", "format": "text"}
        }
    )

    source: str = Field(description="source language; auto: of the only model for this target")
    target: str = Field(description="target language")
    format: Annotated[
        str,
        Field(description="text; html is not supported"),
        BeforeValidator(lambda value: value or "text"),
    ] = "text"
    alternatives: Annotated[
        Alternatives,
        Field(description="number of further translations"),
        BeforeValidator(_number),
    ] = 0


class DetectRequest(LibreFields):
    """A text whose language is wanted."""

    model_config = ConfigDict(json_schema_extra={"example": {"q": "Two dogs run."}})


class Detected(BaseModel):
    """The source language of a model. Nothing is detected, so the confidence is 0."""

    confidence: float
    language: str


class FrontendLanguage(BaseModel):
    """A language of LibreTranslate's page."""

    code: str
    name: str


class FrontendLanguages(BaseModel):
    """The default languages of LibreTranslate's page."""

    source: FrontendLanguage
    target: FrontendLanguage


class FrontendSettings(BaseModel):
    """The settings of LibreTranslate's page, which some clients read."""

    apiKeys: bool  # noqa: N815
    keyRequired: bool  # noqa: N815
    charLimit: int  # noqa: N815
    frontendTimeout: int  # noqa: N815
    filesTranslation: bool  # noqa: N815
    supportedFilesFormat: list[str]  # noqa: N815
    suggestions: bool
    language: FrontendLanguages


class LibreAnswer(BaseModel):
    """A translation; lists if the request had a list."""

    translatedText: str | list[str]  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: Detected | list[Detected] | None = None  # noqa: N815


class Language(BaseModel):
    """A language and its target languages."""

    code: str
    name: str
    targets: list[str]


class Run(BaseModel):
    """The state of a run."""

    name: str
    state: str = Field(description="training, stopped, finished, damaged or gone")
    note: str = Field(description="details of the state")
    step: int
    seconds: float | None
    epoch: float | None
    planned: dict[str, float | None] = Field(description="steps, seconds and epochs, if planned")
    part: float | None = Field(description="finished share, 0 to 1")
    left: float | None = Field(description="estimated seconds left")
    loss: float | None
    valid_loss: float | None
    bleu: float | None = Field(description="of the last validation")
    speed: float | None = Field(description="target tokens per second")
    seconds_since_write: float | None
    preset: str | None
    languages: list[str] | None
    size: str | None
    parameters: int | None
    measure: dict[str, float] = Field(description="settings that the loss depends on")
    token: str = Field(description="changes whenever something is logged")


class RunSamples(BaseModel):
    """Translations of some sentences at each validation."""

    source: list[str]
    reference: list[str]
    step: list[int]
    outputs: list[list[str]] = Field(description="of each validation")


class RunData(BaseModel):
    """The log of a run as columns; long series are thinned out."""

    name: str
    token: str = Field(description="send it as `since` in the next request")
    void: bool = Field(description="this is the whole log: discard earlier data")
    training: dict[str, list[float | None]]
    validation: dict[str, list[float | None]]
    samples: RunSamples


class Health(BaseModel):
    """The service is running."""

    status: str


class Error(BaseModel):
    """An error."""

    error: str = Field(description="one sentence: what was found and what was expected")
