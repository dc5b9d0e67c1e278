"""The numbers of the paper's Tables 2 to 4."""

from collections.abc import Sequence
from typing import NamedTuple

from transduce.text.languages import language_code


class System(NamedTuple):
    """A row of Table 2: BLEU on newstest2014, and the FLOPs of training."""

    name: str
    en_de: float | None = None
    en_fr: float | None = None
    flops_en_de: float | None = None
    flops_en_fr: float | None = None


TABLE_2 = (
    System("ByteNet", 23.75),
    System("Deep-Att + PosUnk", None, 39.2, None, 1.0e20),
    System("GNMT + RL", 24.6, 39.92, 2.3e19, 1.4e20),
    System("ConvS2S", 25.16, 40.46, 9.6e18, 1.5e20),
    System("MoE", 26.03, 40.56, 2.0e19, 1.2e20),
    System("Deep-Att + PosUnk, ensemble", None, 40.4, None, 8.0e20),
    System("GNMT + RL, ensemble", 26.30, 41.16, 1.8e20, 1.1e21),
    System("ConvS2S, ensemble", 26.36, 41.29, 7.7e19, 1.2e21),
    System("Transformer, base", 27.3, 38.1, 3.3e18, 3.3e18),
    System("Transformer, big", 28.4, 41.8, 2.3e19, 2.3e19),
)


class Pair(NamedTuple):
    """A pair of languages in Table 2."""

    name: str
    vocabulary: int  # subwords (5.1)

    def bleu(self, system: System) -> float | None:
        """Return a system's BLEU; None if the table has none."""
        return system.en_de if self == EN_DE else system.en_fr

    def flops(self, system: System) -> float | None:
        """Return the FLOPs of a system's training; None if the table has none."""
        return system.flops_en_de if self == EN_DE else system.flops_en_fr


EN_DE, EN_FR = Pair("en-de", 37_000), Pair("en-fr", 32_000)


def papers_pair(languages: Sequence[str]) -> Pair | None:
    """Return the paper's pair with these languages, in either direction; None if it has none."""
    codes = sorted(map(language_code, languages))
    return next((pair for pair in (EN_DE, EN_FR) if codes == sorted(pair.name.split("-"))), None)


class Variation(NamedTuple):
    """A row of Table 3, on newstest2013: perplexity per subword, BLEU, millions of parameters."""

    perplexity: float
    bleu: float
    parameters: float | None = None  # None: the same as base


TABLE_3 = {
    "base": Variation(4.92, 25.8, 65),
    "A-h1": Variation(5.29, 24.9),
    "A-h4": Variation(5.00, 25.5),
    "A-h16": Variation(4.91, 25.8),
    "A-h32": Variation(5.01, 25.4),
    "B-dk16": Variation(5.16, 25.1, 58),
    "B-dk32": Variation(5.01, 25.4, 60),
    "C-N2": Variation(6.11, 23.7, 36),
    "C-N4": Variation(5.19, 25.3, 50),
    "C-N8": Variation(4.88, 25.5, 80),
    "C-d256": Variation(5.75, 24.5, 28),
    "C-d1024": Variation(4.66, 26.0, 168),
    "C-ff1024": Variation(5.12, 25.4, 53),
    "C-ff4096": Variation(4.75, 26.2, 90),
    "D-drop0": Variation(5.77, 24.6),
    "D-drop0.2": Variation(4.95, 25.5),
    "D-ls0": Variation(4.67, 25.3),
    "D-ls0.2": Variation(5.47, 25.7),
    "E-learned": Variation(4.92, 25.7),
    "big": Variation(4.33, 26.4, 213),
}


class Parser(NamedTuple):
    """A row of Table 4: labelled F1 on section 23 of the Wall Street Journal."""

    name: str
    training: str
    F1: float


TABLE_4 = (
    Parser("Vinyals & Kaiser et al. (2014)", "WSJ only", 88.3),
    Parser("Petrov et al. (2006)", "WSJ only", 90.4),
    Parser("Zhu et al. (2013)", "WSJ only", 90.4),
    Parser("Dyer et al. (2016)", "WSJ only", 91.7),
    Parser("Transformer, 4 layers", "WSJ only", 91.3),
    Parser("Zhu et al. (2013)", "semi-supervised", 91.3),
    Parser("Huang & Harper (2009)", "semi-supervised", 91.3),
    Parser("McClosky et al. (2006)", "semi-supervised", 92.1),
    Parser("Vinyals & Kaiser et al. (2014)", "semi-supervised", 92.1),
    Parser("Transformer, 4 layers", "semi-supervised", 92.7),
    Parser("Luong et al. (2015)", "multi-task", 93.0),
    Parser("Dyer et al. (2016)", "generative", 93.3),
)
