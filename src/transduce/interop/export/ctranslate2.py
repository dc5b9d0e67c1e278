"""Export to CTranslate2, a fast inference engine for CPUs and GPUs (OpenNMT/CTranslate2).

    model.bin, config.json    the model, as CTranslate2 reads it
    *_vocabulary.json         the names of the subwords, in the order of their ids
    *tokenizer.json           for `tokenizers`: text to those names and back
    source.spm, target.spm    for `sentencepiece`, instead of *tokenizer.json, if imported
    transduce.json            the stamp: what the export was made from, and the hash of each file

The model is written by the library's own specification classes, from arrays, without torch.
"""

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from transduce.config import ModelConfig
from transduce.errors import BadInput, BadRun, MissingExtra
from transduce.interop.export.shapes import shapes
from transduce.interop.export.support import CTRANSLATE2
from transduce.model.positions import sinusoids
from transduce.runs.arrays import (
    Arrays,
    load_arrays,
    require_finite,
    require_shapes,
    shapes_of,
)
from transduce.runs.folder import SUBWORDS, RunConfig, weights_file
from transduce.subwords import BOS, EOS, SPECIAL, UNK, Codec, SentencePiece, Subwords
from transduce.system.files import (
    atomic_folder,
    read_checksummed,
    sha256,
    write_checksummed,
    write_json,
)

FORMAT = 3
STAMP = "transduce.json"
SIDES = ("source", "target")
CPUINFO = Path("/proc/cpuinfo")
QUANTIZATIONS = ("none", "int8", "int8_float32", "int8_float16", "int16", "float16")

Array = npt.NDArray[Any]


def library() -> ModuleType:
    """Import CTranslate2, which does not import torch."""
    try:
        import ctranslate2
    except ModuleNotFoundError as error:
        if error.name != "ctranslate2":
            raise
        raise MissingExtra("the engine ctranslate2", "CTranslate2", "fast") from None
    return ctranslate2  # type: ignore[no-any-return]


def specifications() -> ModuleType:
    """Import the classes that describe models, without importing torch.

    The module imports torch if it is installed, to accept tensors. Unless torch is loaded already,
    it is hidden during the import; that copy of the module is then removed from `sys.modules`, so
    that other code imports one that accepts tensors.
    """
    package = library()
    if "torch" in sys.modules:
        return importlib.import_module("ctranslate2.specs")
    with hidden("torch"):
        specs = importlib.import_module("ctranslate2.specs")
    for name in [name for name in sys.modules if f"{name}.".startswith("ctranslate2.specs.")]:
        del sys.modules[name]
    vars(package).pop("specs", None)
    return specs


@contextlib.contextmanager
def hidden(name: str) -> Iterator[None]:
    """Make a module that has not been imported yet appear not to be installed."""
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


def export(run: Path, folder: Path, quantize: str = "auto") -> str:
    """Write the model of a run folder to a new folder; return the number format of its matrices."""
    if os.path.lexists(folder):
        raise BadInput(f"{folder} exists already: choose a new folder for the export")
    chosen = choose_quantization(quantize)
    config = RunConfig.load(run)
    config.require("translation", run)
    CTRANSLATE2.require_support(config.model)
    stamp = stamp_of(run, config, chosen, sha256(checked_weights(run, config)))
    write(run, config, Codec.load(config.verified(run, SUBWORDS)), folder, stamp)
    return chosen


def write(
    run: Path,
    config: RunConfig,
    codec: Codec,
    folder: Path,
    stamp: dict[str, Any],
    *,
    tokenizers: bool = True,
) -> None:
    """Write the model that `stamp` describes, completely or not at all."""
    CTRANSLATE2.require_support(config.model)
    config.require_subwords(len(codec.source), len(codec.target), run)
    path = checked_weights(run, config)
    arrays = load_arrays(path)
    require_finite(arrays, path)
    spec = specification(config.model, arrays, codec)
    if sha256(path) != stamp["weights"]:
        raise BadRun(f"{path} changed while it was being exported: run the same command again")
    quantize = stamp["quantize"]
    spec.optimize(quantization="float32" if quantize == "none" else quantize)
    shared = codec.source.names == codec.target.names
    vocabularies = [f"{side}_vocabulary.json" for side in (["shared"] if shared else SIDES)]
    with atomic_folder(folder, ("config.json", "model.bin", STAMP, *vocabularies)) as temporary:
        spec.save(str(temporary))
        if tokenizers:
            write_tokenizers(codec, temporary)
        files = {file.name: sha256(file) for file in sorted(temporary.iterdir())}
        write_checksummed(temporary / STAMP, {**stamp, "files": files})


def checked_weights(run: Path, config: RunConfig) -> Path:
    """Return the weights file of a run; refuse it if its arrays do not match the model.

    Only the header is read, so this also refuses a pipe or a device before it is hashed.
    """
    path, _ = weights_file(run, config)
    require_shapes(shapes(config.model), shapes_of(path), path)
    return path


def write_tokenizers(codec: Codec, folder: Path) -> None:
    """Write files that other programs use to turn text into subword names and back."""
    for side, subwords in zip(SIDES, (codec.source, codec.target), strict=True):
        if isinstance(subwords, SentencePiece):
            subwords.write(folder / f"{side}.spm")
        elif isinstance(subwords, Subwords):
            name = "tokenizer.json" if codec.joint else f"{side}_tokenizer.json"
            write_json(folder / name, subwords.to_json())


def stamp_of(run: Path, config: RunConfig, quantize: str, weights: str) -> dict[str, Any]:
    """Return everything that determines an export; `weights` is the SHA-256 of the weights file."""
    return {
        "format": FORMAT,
        "library": library().__version__,
        "weights": weights,
        "subwords": sha256(run / SUBWORDS),
        "model": config.model.to_json(),
        "quantize": quantize,
        "languages": list(config.languages),
        "words": weights_file(run, config)[1],
    }


def is_export_of(folder: Path, stamp: dict[str, Any]) -> bool:
    """Return whether a folder holds the complete export that a stamp describes."""
    try:
        stored = read_checksummed(folder / STAMP, FORMAT, "an export")
        files = stored.pop("files")
    except (BadRun, KeyError):
        return False
    try:
        present = {file.name: file for file in folder.iterdir() if file.name != STAMP}
        # A link might lead to a device that never ends.
        regular = all(file.is_file() and not file.is_symlink() for file in present.values())
        return stored == stamp and regular and files == {n: sha256(f) for n, f in present.items()}
    except OSError:
        return False


def choose_quantization(quantize: str) -> str:
    """Return the number format of matrices; auto is the fastest on this processor.

    8-bit products are fast only with special instructions (VNNI on x86, dot products on ARM).
    Without them they are no faster than float32, and overflowing sums cost accuracy: docs/log.md.
    """
    if quantize == "auto":
        return "int8" if _has_int8_instructions() else "none"
    if quantize not in QUANTIZATIONS:
        raise BadInput(f"quantize = {quantize!r}: expected auto, {', '.join(QUANTIZATIONS)}")
    return quantize


def _has_int8_instructions() -> bool:
    try:
        lines = CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    flags = {
        flag for line in lines if line.startswith(("flags", "Features")) for flag in line.split()
    }
    return not flags.isdisjoint(("avx512_vnni", "avx_vnni", "asimddp"))


def specification(model: ModelConfig, arrays: Arrays, codec: Codec) -> Any:
    """Return the library's specification of a model, validated by the library."""
    spec = _empty(model)
    weights = _Weights(model, arrays)
    target = arrays["output"]
    _embedding(spec.encoder.embeddings[0], arrays.get("source_embedding.matrix", target))
    _embedding(spec.decoder.embeddings, arrays.get("target_embedding.matrix", target))
    spec.decoder.projection.weight = target
    if model.logits_bias:
        spec.decoder.projection.bias = arrays["logits_bias"]
    for side, stack in (("source", spec.encoder), ("target", spec.decoder)):
        stack.scale_embeddings = True
        table = arrays.get(f"{side}_embedding.positions")
        if model.positions == "sinusoidal":
            table = sinusoids(model.max_positions, model.d_model, np).astype(np.float32)
        if table is not None:
            stack.position_encodings.encodings = table
    for number, layer in enumerate(spec.encoder.layer):
        weights.self_attention(layer.self_attention, f"encoder.{number}")
        weights.feed_forward(layer.ffn, f"encoder.{number}")
    for number, layer in enumerate(spec.decoder.layer):
        weights.self_attention(layer.self_attention, f"decoder.{number}")
        weights.cross_attention(layer.attention, f"decoder.{number}")
        weights.feed_forward(layer.ffn, f"decoder.{number}")
    weights.norms("encoder", spec.encoder)
    weights.norms("decoder", spec.decoder)
    # The library adds </s> to a source and begins an output with <s>.
    spec.config.bos_token, spec.config.eos_token = SPECIAL[BOS], SPECIAL[EOS]
    spec.config.unk_token = SPECIAL[UNK]
    spec.config.decoder_start_token = SPECIAL[BOS]
    spec.config.add_source_bos, spec.config.add_source_eos = False, True
    spec.config.layer_norm_epsilon = 1e-5
    spec.register_source_vocabulary(codec.source.names)
    spec.register_target_vocabulary(codec.target.names)
    spec.validate()
    return spec


def _empty(model: ModelConfig) -> Any:
    """Return the library's specification of a model without weights."""
    specs = specifications()
    settings: dict[str, Any] = {
        "pre_norm": model.pre_norm,
        "rms_norm": model.norm == "rms",
        "activation": getattr(specs.common_spec.Activation, model.activation.upper()),
        "ffn_glu": model.gated,
        "rotary_dim": model.d_k if model.positions == "rotary" else None,
    }
    encoder = specs.TransformerEncoderSpec(model.N, model.h, **settings)
    decoder = specs.TransformerDecoderSpec(
        model.decoder_layers,
        model.h,
        alignment_layer=-1,
        alignment_heads=model.h,  # the mean of the last layer's heads
        **settings,
    )
    if model.positions == "rotary":
        del encoder.position_encodings
    return specs.TransformerSpec(encoder, decoder)


def _embedding(spec: Any, matrix: Array) -> None:
    spec.weight = matrix
    spec.multiply_by_sqrt_depth = True  # paper 3.4


class _Weights:
    """Assigns the arrays of a model to the library's specification.

    The library's heads are d_model / h wide. Narrower heads are padded with zeros, which change
    nothing: they add 0 to the products of queries and keys, and W_O multiplies padded values by 0.
    """

    def __init__(self, model: ModelConfig, arrays: Arrays) -> None:
        self.model, self.arrays = model, arrays
        self.head = model.d_model // model.h

    def self_attention(self, spec: Any, layer: str) -> None:
        model = self.model
        self._rows(spec.linear[0], f"{layer}.self_attention.W_QKV", model.d_k, model.d_k, model.d_v)
        self._attention(spec, f"{layer}.self_attention")

    def cross_attention(self, spec: Any, layer: str) -> None:
        self._rows(spec.linear[0], f"{layer}.cross_attention.W_Q", self.model.d_k)
        self._rows(spec.linear[1], f"{layer}.cross_attention.W_KV", self.model.d_k, self.model.d_v)
        self._attention(spec, f"{layer}.cross_attention")

    def feed_forward(self, spec: Any, layer: str) -> None:
        self._linear(spec.linear_0, f"{layer}.feed_forward.W_1")
        self._linear(spec.linear_1, f"{layer}.feed_forward.W_2")
        if self.model.gated:
            spec.linear_0.weight, spec.linear_0_noact.weight = np.split(spec.linear_0.weight, 2)

    def norms(self, side: str, stack: Any) -> None:
        """Set the norms of a stack.

        With `pre_norm`, each of our norms is that of the next sub-layer there.
        """
        parts = {"self": "self_attention", "cross": "attention", "feed": "ffn"}
        ours = [f"pre_norm.below_{side}"] if self.model.pre_norm else []
        theirs = []
        for number, layer in enumerate(stack.layer):
            for part, name in parts.items():
                if hasattr(layer, name):
                    ours.append(f"{side}.{number}.after_{part}.norm")
                    theirs.append(getattr(layer, name).layer_norm)
        if self.model.pre_norm:
            theirs.append(stack.layer_norm)
        for spec, norm in zip(theirs, ours, strict=True):
            spec.gamma = self.arrays[f"{norm}.weight"]
            if self.model.norm == "layer":
                spec.beta = self.arrays[f"{norm}.bias"]

    def _attention(self, spec: Any, name: str) -> None:
        spec.queries_scale = np.float32(self.model.d_k**-0.5)  # Eq. 1
        self._linear(spec.linear[-1], f"{name}.W_O")
        inputs = self._pad_heads(spec.linear[-1].weight.T, self.model.d_v)
        spec.linear[-1].weight = np.ascontiguousarray(inputs.T)

    def _rows(self, spec: Any, name: str, *widths: int) -> None:
        """Set a matrix that stacks several projections, each with the rows of all heads."""
        self._linear(spec, name)
        ends = np.cumsum([self.model.h * width for width in widths])[:-1]
        for part in ("weight", "bias") if spec.has_bias() else ("weight",):
            blocks = np.split(getattr(spec, part), ends)
            pairs = zip(blocks, widths, strict=True)
            padded = [self._pad_heads(block, width) for block, width in pairs]
            setattr(spec, part, np.concatenate(padded))

    def _pad_heads(self, rows: Array, width: int) -> Array:
        """Pad each head to its full width. (h * width, ...) -> (d_model, ...)."""
        heads = rows.reshape(self.model.h, width, *rows.shape[1:])
        padding = [(0, 0), (0, self.head - width), *[(0, 0)] * (rows.ndim - 1)]
        return np.pad(heads, padding).reshape(self.model.d_model, *rows.shape[1:])

    def _linear(self, spec: Any, name: str) -> None:
        spec.weight = self.arrays[f"{name}.weight"]
        if f"{name}.bias" in self.arrays:
            spec.bias = self.arrays[f"{name}.bias"]
