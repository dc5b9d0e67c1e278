"""The choice of the device, and training and translation on a fake Apple GPU (MPS)."""

from pathlib import Path

import pytest
import torch
from conftest import TINY, threads_kept, tiny_pairs
from fake_mps import apple_machine

from transduce.checkpoints.checkpoint import load_tensors
from transduce.config import SearchConfig
from transduce.errors import BadSetting
from transduce.model.ops.kernels import Kernels
from transduce.runs.folder import RunConfig, checkpoints
from transduce.system.devices import choose_device
from transduce.training import validation
from transduce.training.distributed.processes import join_processes
from transduce.training.gradient import GradientStep
from transduce.training.train import train
from transduce.translation.translator import Translator

Files = tuple[Path, Path]

SETTINGS = TINY | {"steps": "3", "save_every": "1", "validate_every": "1000", "P_drop": "0"}


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> list[torch.device]:
    """Fake two CUDA GPUs; return the list of those that are made current."""
    chosen: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    return chosen


def trained(files: Files, out: Path, device: str, **changes: str) -> Path:
    with threads_kept(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            validation, "GREEDY", SearchConfig(beam=1, extra=1)
        )  # an untrained model does not end its outputs
        return train(*files, out=out, preset="tiny", settings=SETTINGS | changes, device=device)


@pytest.fixture(scope="module")
def on_apple(tiny_files: Files, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was trained on Apple's GPU."""
    with pytest.MonkeyPatch.context() as patch, apple_machine(patch) as machine:
        run = trained(tiny_files, tmp_path_factory.mktemp("apple") / "run", "auto")
        assert machine.operations > 1000
    return run


def test_a_gpu_is_chosen_by_its_number_and_is_the_current_one(two_gpus: list[torch.device]) -> None:
    assert choose_device("cuda:1") == torch.device("cuda", 1)
    assert two_gpus == [torch.device("cuda", 1)]
    assert choose_device("auto") == choose_device("cuda") == torch.device("cuda")
    assert len(two_gpus) == 1  # otherwise CUDA_VISIBLE_DEVICES or torchrun chooses


@pytest.mark.usefixtures("two_gpus")
def test_a_missing_gpu_is_refused_with_the_number_of_gpus() -> None:
    with pytest.raises(BadSetting, match=r"'cuda:2': this machine has 2 GPUs: expected cuda:1"):
        choose_device("cuda:2")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:one", "cpu:0", "mps:0", "auto:1", ""])
def test_an_unknown_device_is_refused(name: str) -> None:
    with pytest.raises(BadSetting, match=r"expected auto, cpu, cuda, mps, or cuda:1"):
        choose_device(name)


def test_cuda_is_preferred_to_apples_gpu(
    two_gpus: list[torch.device], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not two_gpus
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device("auto").type == "cuda"


def test_apples_gpu_is_chosen_if_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    with apple_machine(monkeypatch):
        assert choose_device("auto") == choose_device("mps") == torch.device("mps")
        assert choose_device("auto", mps=False) == torch.device("cpu")
        with pytest.raises(BadSetting, match="'mps': expected auto, cpu, cuda, or cuda:1"):
            choose_device("mps", mps=False)


def test_a_missing_or_broken_apple_gpu_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(BadSetting, match="has no MPS device; --device cpu works everywhere"):
        choose_device("mps")
    # This build of torch has no MPS, so trying it fails.
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    messages: list[str] = []
    assert choose_device("auto", messages.append) == torch.device("cpu")
    assert len(messages) == 1
    assert messages[0].startswith("the GPU cannot be used, using the CPU: ")
    with pytest.raises(BadSetting, match=r"device = 'mps': .*(mps|MPS)"):
        choose_device("mps")


def test_training_on_apples_gpu_gives_the_weights_of_the_cpu(
    on_apple: Path, tiny_files: Files, tmp_path: Path
) -> None:
    """Without float64, pinned memory and Triton, and with all tensors on one device."""
    config = RunConfig.load(on_apple)
    assert config.device == "mps"
    on_cpu = load_tensors(trained(tiny_files, tmp_path / "cpu", "cpu") / "model.safetensors")
    found = load_tensors(on_apple / "model.safetensors")
    assert found.keys() == on_cpu.keys()
    for name, weight in found.items():
        torch.testing.assert_close(weight, on_cpu[name], rtol=1e-3, atol=1e-5)


def test_the_random_state_of_apples_gpu_is_saved_and_restored(on_apple: Path) -> None:
    names = load_tensors(checkpoints(on_apple)[-1].path / "optimizer.safetensors")
    assert {"random", "random.mps"} <= names.keys()


def test_a_run_on_apples_gpu_resumes_there(
    on_apple: Path, tiny_files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    with apple_machine(monkeypatch):
        trained(tiny_files, on_apple, "mps", steps="4")
    assert checkpoints(on_apple)[-1].step == 4


def test_on_apples_gpu_an_update_with_a_non_finite_gradient_is_skipped(
    tiny_files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch's Adam ignores `found_inf` there, so it must not be called."""
    monkeypatch.setattr(GradientStep, "clip", lambda self: self.skipped + torch.inf)
    with apple_machine(monkeypatch):
        run = trained(tiny_files, tmp_path / "run", "mps", steps="1")
    last = load_tensors(checkpoints(run)[-1].path / "optimizer.safetensors")
    moments = [name for name in last if name.startswith("exp_avg.")]
    assert moments
    assert not any(last[name].any() for name in moments)


@pytest.mark.parametrize("sample", [False, True])
def test_apples_gpu_translates_as_a_cpu_does(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, sample: bool
) -> None:
    sentences = [source for source, _ in tiny_pairs(2, seed=9)]
    search = {"sample": True, "draw": 3, "top_p": 0.9} if sample else {"beam": 3, "nbest": 2}
    search |= {"extra": 2}
    with threads_kept():
        on_cpu = Translator.load(tiny_run, device="cpu", engine="torch")
        expected = [text.text for text in on_cpu.translate(sentences, **search)]
        with apple_machine(monkeypatch):
            translator = Translator.load(tiny_run, device="mps")
            assert translator.engine.name == "torch on mps"
            found = [text.text for text in translator.translate(sentences, **search)]
    assert found == expected


def test_our_kernels_are_not_used_on_apples_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    with apple_machine(monkeypatch):
        assert not Kernels().usable(torch.ones(2, device="mps"))


def test_processes_cannot_share_apples_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(BadSetting, match="2 processes cannot share an MPS device: start one"):
        join_processes(torch.device("mps")).__enter__()
