"""The fields of requests and answers. The OpenAPI description is generated from them."""

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from transduce.serving.limits import ALPHA, BEAM, GLOSSARY, KEEP, NBEST, TERM


def whole(value: Any) -> Any:
    """Accept 4.0 for 4: JSON does not distinguish them."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Beam = Annotated[int, Field(ge=1, le=BEAM), BeforeValidator(whole)]
Nbest = Annotated[int, Field(ge=1, le=NBEST), BeforeValidator(whole)]


class StrictRequest(BaseModel):
    """A request with exactly these fields and types."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


Term = Annotated[str, Field(max_length=TERM)]


class GlossaryEntry(StrictRequest):
    """A term and its translation."""

    source: Term
    target: Term
    flags: list[str] = Field([], description="case; start, inside or whole", max_length=8)


def _glossary(value: Any, parse: ValidatorFunctionWrapHandler) -> Any:
    """Describe any error in one sentence; pydantic would describe each alternative."""
    if isinstance(value, dict | list) and len(value) > GLOSSARY:
        raise PydanticCustomError("glossary_size", f"at most {GLOSSARY:,} entries")
    try:
        return parse(value)
    except ValidationError:
        raise PydanticCustomError("glossary_type", GLOSSARY_EXPECTED) from None


GLOSSARY_EXPECTED = (
    "the name of a glossary, an object with a translation for each term, or a list of objects with "
    f"source, target and, if any, flags; a term has at most {TERM} characters"
)
GlossaryValue = str | dict[Term, Term] | list[GlossaryEntry]
Format = Literal["text", "html"]


class TextOptions(StrictRequest):
    """The model, what stays as it is, how terms are translated, and what is checked."""

    model: str | None = Field(
        None, description="name of a model; default: the first one for the languages"
    )
    source: str | None = Field(None, description="source language; auto: the detected one")
    target: str | None = Field(None, description="target language; needed if a model has several")
    glossary: Annotated[
        GlossaryValue | None,
        WrapValidator(_glossary),
        Field(description="a glossary of the service by its name, or entries"),
    ] = None
    guard: Literal["off", "flag", "retry"] = Field(
        "off", description="check translations; retry: search again for flagged ones"
    )
    keep: list[Annotated[Term, Field(min_length=1)]] = Field(
        [], max_length=KEEP, description="words and phrases that stay as they are"
    )


class TranslateRequest(TextOptions):
    """A text to translate."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"text": "Two dogs run over the grass.", "nbest": 2}}
    )

    text: str = Field(description="the text to translate; a line is a paragraph")
    format: Format = Field("text", description="html: tags are kept, and their text is translated")
    beam: Beam | None = Field(None, description="beam width; 1 is greedy search")
    alpha: float | None = Field(None, ge=0, le=ALPHA, description="the length penalty")
    nbest: Nbest | None = Field(None, description="candidates per sentence, at most the beam width")
    split: bool = Field(default=True, description="translate the sentences of a line one by one")
    tag: str | None = Field(None, description="tag of a corpus that the model was trained on")


class DocumentRequest(TextOptions):
    """A document to translate."""

    file: str = Field(description="the document", json_schema_extra={"format": "binary"})
    columns: str = Field("", description="of CSV and TSV: the columns to translate; a,b")
    keys: str = Field("", description="of JSON: translate only what is below these keys; a,b")


class Candidate(BaseModel):
    """One translation of a sentence."""

    text: str
    score: float = Field(description="log-probability over length penalty; higher is better")
    log_probability: float = Field(description="natural logarithm, including </s>")
    tokens: list[str] = Field(description="its subwords")


class UsedTerm(BaseModel):
    """A term of the glossary in a text."""

    source: str
    target: str
    found: bool = Field(description="whether the best candidate has the translation")


class GuardFlag(BaseModel):
    """A reason to doubt a translation."""

    kind: str = Field(description="repetition, copy, length, script, numbers or confidence")
    detail: str


class PlacedSpan(BaseModel):
    """A placeholder, address or other part of a text that the translation keeps."""

    text: str
    placed: str = Field(
        description="copied, aligned (placed by word alignment), or worth a look: repeated, joined "
        "with a letter or digit, or reordered"
    )


class Segment(BaseModel):
    """A sentence and its translations."""

    gap: str = Field(description="white space before its translation")
    source: str
    candidates: list[Candidate] = Field(description="best first")
    terms: list[UsedTerm] = Field(description="of the glossary")
    flags: list[GuardFlag] = Field(description="what is suspicious about the best candidate")
    spans: list[PlacedSpan] = Field(description="in the order of the source")


class Paragraph(BaseModel):
    """A line; a blank line has no sentences. Of HTML: a text between tags, as one sentence."""

    segments: list[Segment]


class TranslateAnswer(BaseModel):
    """A translation and its sentences."""

    model: str
    text: str = Field(description="the best translation, line by line")
    milliseconds: float
    paragraphs: list[Paragraph] = Field(description="one per line")


class Remark(BaseModel):
    """A text of a document whose translation is worth a look."""

    where: str = Field(description="such as paragraph 3 of document, or line 12")
    source: str
    text: str = Field(description="its translation")
    terms: list[UsedTerm] = Field(description="terms whose translation it lacks")
    spans: list[PlacedSpan] = Field(description="repeated, joined or reordered ones")
    flags: list[GuardFlag]


class DocumentAnswer(BaseModel):
    """A translated document."""

    model: str
    name: str = Field(description="file name of the translation")
    url: str = Field(description="where to download it, for half an hour")
    bytes: int
    texts: int
    characters: int
    milliseconds: float
    not_translated: list[str] = Field(description="such as 2 tracked deletion(s)")
    remarks: list[Remark]


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


class Documents(BaseModel):
    """The documents that can be translated."""

    extensions: list[str] = Field(description="such as .docx")
    max_bytes: int


class Model(BaseModel):
    """A served model."""

    name: str
    source: str = Field(description="source language")
    target: str = Field(description="target language")
    source_name: str
    target_name: str
    engine: str
    weights: str = Field(description="how they were selected")
    version: str = Field(description="SHA-256 of the weights")
    parameters: int
    settings: dict[str, Any] = Field(description="the architecture: N, d_model, h …")
    search: ModelSearch
    examples: list[str] = Field(description="short sentences of its validation set")
    glossaries: list[str] = Field(description="names of the glossaries that requests may use")
    documents: Documents | None = Field(description="null: no documents are accepted")


class Bounds(BaseModel):
    """Limits of a request."""

    characters: int
    texts: int = Field(description="of a request to /translate")
    beam: int
    nbest: int
    glossary: int = Field(description="entries of a glossary in a request")
    keep: int = Field(description="words and phrases to keep")


class ModelsAnswer(BaseModel):
    """The served models."""

    models: list[Model]
    limits: Bounds


class ReloadRequest(StrictRequest):
    """The models whose run folders are to be loaded again."""

    model_config = ConfigDict(json_schema_extra={"example": {"model": "en-de"}})

    model: str | None = Field(None, description="name of a model; default: all models")


class ReloadedModel(BaseModel):
    """A model that was loaded again."""

    name: str
    version: str = Field(description="SHA-256 of the weights that are served now")
    previous: str = Field(description="SHA-256 of the weights that were served before")


class ReloadAnswer(BaseModel):
    """The models that were loaded again."""

    models: list[ReloadedModel]


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


def described_body(model: type[BaseModel], *types: str) -> dict[str, Any]:
    """Return the OpenAPI description of a body of these types that the endpoint parses itself."""
    schema = model.model_json_schema()
    schema = _with_definitions(schema, schema.pop("$defs", {}))
    content = {kind: {"schema": schema} for kind in types}
    return {"requestBody": {"required": True, "content": content}}


def _with_definitions(value: Any, definitions: dict[str, Any]) -> Any:
    """Replace references by what they refer to: OpenAPI has its definitions elsewhere."""
    if isinstance(value, list):
        return [_with_definitions(item, definitions) for item in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return definitions[value["$ref"].rpartition("/")[2]]
    return {name: _with_definitions(item, definitions) for name, item in value.items()}
