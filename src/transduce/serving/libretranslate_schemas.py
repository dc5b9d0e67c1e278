"""The fields of LibreTranslate's API."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from transduce.serving.limits import NBEST
from transduce.serving.schemas import Format, whole


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


Alternatives = Annotated[int, Field(ge=0, le=NBEST - 1), BeforeValidator(whole)]


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

    source: str = Field(description="source language; auto: the detected one")
    target: str = Field(description="target language")
    format: Annotated[Format, BeforeValidator(lambda value: value or "text")] = "text"
    alternatives: Annotated[
        Alternatives,
        Field(description="number of further translations"),
        BeforeValidator(_number),
    ] = 0


class LibreFileRequest(BaseModel):
    """A document to translate, as LibreTranslate takes it; other fields are ignored."""

    file: str = Field(description="the document", json_schema_extra={"format": "binary"})
    source: str = Field(description="source language; auto: the detected one")
    target: str = Field(description="target language")
    api_key: str | None = Field(None, description="the key, if one is needed and no header has it")


class LibreFileAnswer(BaseModel):
    """A translated document."""

    translatedFileUrl: str = Field(description="where to download it")  # noqa: N815


class DetectRequest(LibreFields):
    """A text whose language is wanted."""

    model_config = ConfigDict(json_schema_extra={"example": {"q": "Two dogs run."}})


class Detected(BaseModel):
    """A language of the models."""

    confidence: float = Field(description="0 to 100, among the languages of the models")
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
