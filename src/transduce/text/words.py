"""Words and characters of texts in any script."""

import re

# Scripts without spaces between words: each character is a word. Thai, Lao, Tibetan, Myanmar,
# Khmer, kana, Han.
UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
# Marks that are part of words although \w does not match them.
MARKS = (
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1-\u05c7\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f"
    "\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u0a3c-\u0a4d\u0abc-\u0acd\u0b3c-\u0b4d"
    "\u0bbe-\u0bcd\u0c3e-\u0c4d\u0cbc-\u0ccd\u0d3e-\u0d4d\u0dca-\u0ddf\u200c\u200d"
)
TOKEN = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}](?:[^\W{UNSPACED}]|[{MARKS}])*|\S")
HAS_UNSPACED = re.compile(rf"[{UNSPACED}]")
