"""Translating text with a trained model.

In reading order:

- `types`: jobs, hypotheses and the Engine protocol.
- `segments`: a text is split into sentences, and over-long ones are cut.
- `model_input`: what the model reads of a sentence with protected spans or terms.
- `streaming`: reading texts ahead.
- `translator`: the public class.
- `rounds`: searches, and further ones for sentences whose output lacks something.
- `outputs`, `alignment`: the output of a sentence, and how its words are linked to the source.
- `finishing`, `joining`: spans and tags are put in place, and sentences are joined.
- `guard`: doubts about translations.
- `translation`: results; `notebook`: results as HTML.
- `engines`: PyTorch, CTranslate2.
"""
