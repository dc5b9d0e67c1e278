"""The files of the attention explorer: one HTML file of all modules, and the service's."""

import re
from pathlib import Path

from explorer_data import explorer_json

import transduce
from transduce.inspection.explorer_page import EXPLORER, bundle, render_explorer
from transduce.pages import FOLDER
from transduce.serving import static_files


def test_saved_pictures_have_the_colours_of_the_light_theme() -> None:
    theme = (FOLDER / "base.css").read_text(encoding="utf-8").partition("}")[0]
    script = (EXPLORER / "colours.js").read_text(encoding="utf-8")
    printed = script.partition("const LIGHT = {")[2].partition("}")[0]
    found = dict(re.findall(r'"?([\w-]+)"?: "(#[0-9a-f]{6})"', printed))
    assert {"ground", "ink", "map-high", "series-1", "series-8"} <= found.keys()
    assert found.items() <= dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", theme)).items()


def test_the_file_loads_nothing_from_elsewhere() -> None:
    text = render_explorer(explorer_json(), title="t")
    assert not re.findall(r'(?:src|href)="|@import|url\(', text)
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text
    assert Path(transduce.__file__).parent in EXPLORER.parents


def test_the_file_has_every_module_once_after_its_imports() -> None:
    found = bundle("explorer.js")
    assert {*found} == {path.name for path in EXPLORER.glob("*.js")}
    above = set[str]()
    for name, text in found.items():
        needed = re.findall(r'from "\./(.+)"', (EXPLORER / name).read_text(encoding="utf-8"))
        assert above.issuperset(needed), name
        assert not re.search(r"^(import|export)\b", text, re.MULTILINE), name
        assert text in render_explorer(explorer_json(), title="t")
        above.add(name)


def test_no_two_modules_declare_the_same_name() -> None:
    script = "\n".join(bundle("explorer.js").values())
    declared = r"^(?:async )?(?:const|let|var|class|function)\b\*? *(\w+)"
    names = re.findall(declared, script, re.MULTILINE)
    assert {"Explorer", "Lines", "HeatMap", "Grid", "svg"} <= {*names}
    assert [name for name in {*names} if names.count(name) > 1] == []


def test_every_module_is_served_under_a_name_of_its_own() -> None:
    served = list(static_files.files())
    assert {f"/{path.name}" for path in EXPLORER.glob("*.js")} <= {*served}
    assert len(served) == len({*served})
