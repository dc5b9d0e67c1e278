"""A Marian model in transformers and imported here."""

from pathlib import Path
from typing import Any

import torch

from models import model_of, tokens_of
from transduce import Translator
from transduce.decoding.search import log_probabilities

LIMIT = 40  # tokens of an output, including its start and end


class Both:
    """A model in its own library, and imported."""

    def __init__(self, folder: Path, run: Path) -> None:
        from transformers import MarianMTModel, MarianTokenizer

        self.folder, self.run = folder, run
        self.model: Any = MarianMTModel.from_pretrained(folder).eval()
        self.tokenizer: Any = MarianTokenizer.from_pretrained(folder)
        self.ours = Translator.load(run, device="cpu", engine="torch")

    def theirs(self, text: str, **settings: Any) -> str:
        """Translate with transformers."""
        tokens = self.tokenizer(text, return_tensors="pt")
        never = [[self.model.config.pad_token_id], [self.tokenizer.unk_token_id]]
        output = self.model.generate(
            **tokens, max_length=LIMIT, suppress_tokens=None, bad_words_ids=never, **settings
        )
        return str(self.tokenizer.decode(output[0], skip_special_tokens=True))

    def translated(self, text: str, **settings: Any) -> str:
        """Translate with our library, with the same limit."""
        length = len(self.ours.codec.source.encode(text)) + 1
        return self.ours.translate([text], extra=LIMIT - 1 - length, **settings)[0].text

    def differences(self, source: str, target: str) -> float:
        """Return the largest difference of log-probabilities of a given translation."""
        tokens = self.tokenizer(source, text_target=target, return_tensors="pt")
        labels = tokens.labels[0]
        begin = torch.tensor([self.model.config.decoder_start_token_id])
        with torch.inference_mode():
            logits = self.model(
                input_ids=tokens.input_ids,
                decoder_input_ids=torch.cat([begin, labels[:-1]])[None],
            ).logits[0]
        theirs = logits.log_softmax(-1).gather(1, labels[:, None]).flatten()
        pairs = tokens_of(self.ours.codec, [(source, target)])
        (found,) = log_probabilities([model_of(self.ours)], pairs)
        return float((theirs - torch.tensor(found)).abs().max())
