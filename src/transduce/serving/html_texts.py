"""HTML in requests: pages or fragments, translated like documents."""

import codecs
from collections.abc import Sequence
from typing import Any, NamedTuple

from transduce.config import SearchConfig
from transduce.documents import Document, DocumentOptions
from transduce.documents.formats import FORMATS, read_document
from transduce.errors import TransduceError
from transduce.serving.models import ServedModel
from transduce.serving.problems import Problem
from transduce.serving.service import Service, encoded, in_background
from transduce.translation.translation import Translation

MARK = codecs.BOM_UTF8  # comes before a declared encoding: a text in a request is UTF-8


class TranslatedHtml(NamedTuple):
    """An HTML text in the target language, and the translations of its units."""

    text: str
    translations: list[Translation]


async def translate_html(
    service: Service, model: ServedModel, texts: Sequence[str], config: SearchConfig, **how: Any
) -> list[TranslatedHtml]:
    """Translate HTML texts; `how` has the other arguments of `Service.translate_units`."""
    service.check_number(texts)
    size = sum(map(len, texts))
    data = [MARK + encoded(text).removeprefix(MARK) for text in texts]
    options = DocumentOptions(languages=model.languages)
    documents = await in_background(lambda: [_read(each, options) for each in data], size)
    units = [unit for document in documents for unit in document.units]
    translations = iter(await service.translate_units(model, units, config, **how))

    def written() -> list[TranslatedHtml]:
        return [
            TranslatedHtml(
                document.to_bytes().removeprefix(MARK).decode(),
                [next(translations) for _ in document.units],
            )
            for document in documents
        ]

    return await in_background(written, size)


def _read(data: bytes, options: DocumentOptions) -> Document:
    try:
        return read_document(data, "the text", FORMATS["html"], options)
    except TransduceError as error:
        raise Problem(400, str(error)) from None
