"""Exports for CTranslate2: their formats, which engine is chosen, and the command line."""

import builtins
import json
import sys
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
from conftest import CommandLine, snapshot, tiny_pairs
from fresh_python import libraries_after
from random_runs import run_of

from transduce.errors import BadInput, BadSetting, MissingExtra
from transduce.interop.export import ctranslate2 as export_module
from transduce.interop.export.ctranslate2 import choose_quantization, export
from transduce.subwords import Codec
from transduce.translation.engines.ctranslate2 import CTranslate2Engine
from transduce.translation.translator import Translator

pytest.importorskip("ctranslate2")


SENTENCES = [source for source, _ in tiny_pairs(30, seed=2)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_k": 17}, "d_k = 17 is more than d_model / h = 16"),
        ({"d_v": 20}, "d_v = 20 is more than d_model / h = 16"),
        ({"h": 5}, "d_model = 32 is not a multiple of h = 5"),
        ({"qk_norm": True, "pre_norm": True}, "qk_norm = True"),
    ],
)
def test_an_unsupported_shape_is_refused_by_name_and_auto_uses_torch(
    changes: dict[str, Any],
    message: str,
    tiny_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("transduce.translation.engines.selection.may_have_cuda", lambda: False)
    run = run_of(tmp_path / "run", tiny_run, **changes)
    before = snapshot(run)
    with pytest.raises(BadInput, match=message):
        export(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(BadInput, match=message):
        Translator.load(run, engine="ctranslate2")
    assert Translator.load(run).engine.name == "torch on cpu"
    assert snapshot(run) == before


def test_separate_vocabularies_stay_separate(tiny_run: Path, tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", tiny_run, joint=False, tie="decoder")
    export(run, tmp_path / "out", "none")
    codec = Codec.load(run / "subwords.json")
    for side, subwords in (("source", codec.source), ("target", codec.target)):
        path = tmp_path / "out" / f"{side}_vocabulary.json"
        assert json.loads(path.read_text(encoding="utf-8")) == subwords.names
        assert (tmp_path / "out" / f"{side}_tokenizer.json").exists()


@pytest.mark.parametrize(
    ("quantize", "kind"),
    [("none", "float32"), ("int8", "int8"), ("int16", "int16"), ("float16", "float16")],
)
def test_matrices_are_stored_in_the_requested_precision(
    quantize: str, kind: str, tiny_run: Path, tmp_path: Path
) -> None:
    export(tiny_run, tmp_path / "whole", "none")
    export(tiny_run, tmp_path / "out", quantize)
    size, whole = ((tmp_path / n / "model.bin").stat().st_size for n in ("out", "whole"))
    assert size == whole if quantize == "none" else size < 0.8 * whole
    stamp = json.loads((tmp_path / "out" / "transduce.json").read_text(encoding="utf-8"))
    assert stamp["quantize"] == quantize


def test_int8_scores_are_close(tiny_run: Path) -> None:
    pairs = tiny_pairs(20, seed=3)
    exact = Translator.load(tiny_run, engine="ctranslate2", quantize="none").score(pairs)
    rough = Translator.load(tiny_run, engine="ctranslate2", quantize="int8").score(pairs)
    for a, b in zip(exact, rough, strict=True):
        assert a.log_probability == pytest.approx(b.log_probability, rel=0.05)
    assert exact != rough


def test_an_export_into_an_existing_folder_is_refused(tiny_run: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="exists already"):
        export(tiny_run, tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_export_is_complete_or_absent(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export_module, "write_json", fail)
    with pytest.raises(OSError, match="No space"):
        export(tiny_run, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_an_unknown_or_unsupported_quantisation_is_refused_by_name(
    tiny_run: Path, tmp_path: Path
) -> None:

    with pytest.raises(BadInput, match="quantize = 'int9': expected auto, none, int8"):
        export(tiny_run, tmp_path / "out", "int9")
    lacking = {"float16", "int16"} - ctranslate2.get_supported_compute_types("cpu")
    for name in lacking:
        with pytest.raises(BadInput, match=f"quantize = '{name}': this processor computes with"):
            Translator.load(tiny_run, engine="ctranslate2", quantize=name)
    with pytest.raises(BadInput, match="only the engine ctranslate2 quantises"):
        Translator.load(tiny_run, engine="torch", quantize="int8")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("flags\t: fpu avx2 avx512_vnni\n", "int8"),
        ("flags\t: fpu avx2 avx_vnni\n", "int8"),
        ("Features\t: fp asimd asimddp\n", "int8"),
        ("flags\t: fpu avx2 avx512f\n", "none"),
        ("model name\t: avx512_vnni\n", "none"),
        (None, "none"),
    ],
)
def test_auto_uses_int8_if_the_processor_has_fast_instructions(
    text: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cpuinfo"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(export_module, "CPUINFO", path)
    assert choose_quantization("auto") == expected


def test_auto_uses_ctranslate2_on_a_cpu_and_torch_if_it_is_missing(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.translation.engines.selection.may_have_cuda", lambda: False)
    assert isinstance(Translator.load(tiny_run).engine, CTranslate2Engine)
    assert Translator.load(tiny_run).engine.name.startswith("ctranslate2 on cpu, ")
    _uninstall(monkeypatch)
    assert Translator.load(tiny_run).engine.name == "torch on cpu"
    with pytest.raises(MissingExtra, match=r"pip install 'transduce\[fast\]'"):
        Translator.load(tiny_run, engine="ctranslate2")
    with pytest.raises(MissingExtra, match=r"pip install 'transduce\[fast\]'"):
        Translator.load(tiny_run, quantize="int8")
    with pytest.raises(MissingExtra, match=r"pip install 'transduce\[fast\]'"):
        export(tiny_run, tiny_run / "out")


def _uninstall(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *arguments: Any, **settings: Any) -> Any:
        if name.partition(".")[0] == "ctranslate2":
            raise ModuleNotFoundError("No module named 'ctranslate2'", name="ctranslate2")
        return real(name, *arguments, **settings)

    monkeypatch.delitem(sys.modules, "ctranslate2", raising=False)
    monkeypatch.setattr(builtins, "__import__", missing)


def test_an_unknown_engine_or_device_is_refused(tiny_run: Path) -> None:
    with pytest.raises(BadSetting, match="engine = 'jax': expected auto, torch, ctranslate2"):
        Translator.load(tiny_run, engine="jax")
    for device in ("cuda", "tpu"):
        with pytest.raises(BadSetting, match=f"device = '{device}': the engine ctranslate2"):
            Translator.load(tiny_run, engine="ctranslate2", device=device)
    with pytest.raises(BadSetting, match="device = 'tpu'"):
        Translator.load(tiny_run, device="tpu")


def test_ctranslate2_works_without_torch_and_torch_can_be_imported_later(
    tiny_run: Path, tmp_path: Path
) -> None:
    found = libraries_after(
        "import sys\n"
        "from pathlib import Path\n"
        "from transduce import Translator\n"
        "from transduce.interop.export.ctranslate2 import export\n"
        f"run, out = Path({str(tiny_run)!r}), Path({str(tmp_path / 'out')!r})\n"
        "export(run, out, 'int8')\n"
        "assert Translator.load(run, engine='ctranslate2')('a dog')\n"
        "assert not any(name.startswith('torch') for name in sys.modules)\n"
        "import torch, ctranslate2\n"
        "assert ctranslate2.specs.model_spec.torch_is_available\n"
        "assert ctranslate2.specs.model_spec.torch is torch\n"
        "export(run, out.with_name('again'), 'int8')\n"
        "assert sys.modules['torch'] is torch\n"
    )
    assert {"torch", "ctranslate2"} <= found
    assert snapshot(tmp_path / "out") == snapshot(tmp_path / "again")


def test_the_command_line_translates_and_exports_without_torch(
    tiny_run: Path, tmp_path: Path
) -> None:
    for argv in (
        ["translate", str(tiny_run), "--engine", "ctranslate2"],
        ["export", str(tiny_run), str(tmp_path / "out"), "--to", "ctranslate2"],
    ):
        found = libraries_after(
            f"import io, sys; sys.argv = {['transduce', *argv]}\n"
            "sys.stdin = io.TextIOWrapper(io.BytesIO(b'a dog'))\n"
            "from transduce.cli import main\n"
            "try: main()\n"
            "except SystemExit as end: assert not end.code\n"
        )
        assert "ctranslate2" in found
        assert not {"torch", "transformers", "sacrebleu"} & found


def test_the_export_command_reports_what_it_wrote(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    arguments: list[str | Path] = [
        "export",
        tiny_run,
        tmp_path / "out",
        "--to",
        "ctranslate2",
        "--quantize",
        "int8",
    ]
    result = cli(*arguments)
    assert result.status == 0
    assert "int8" in result.stderr
    assert (tmp_path / "out" / "model.bin").exists()
    assert "exists already" in cli(*arguments).error


def test_the_command_line_says_which_engine_translates(cli: CommandLine, tiny_run: Path) -> None:
    for name, words in (("torch", "torch on cpu"), ("ctranslate2", "ctranslate2 on cpu, float32")):
        result = cli(
            *("translate", tiny_run, "--engine", name, "--device", "cpu", "--quantize", "none"),
            input="a dog\n",
        )
        assert result.stderr == f"engine: {words}\n"
        assert result.stdout.count("\n") == 1
