"""The files for administrators in examples/service fit the service."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import CommandLine
from prometheus_client.parser import text_string_to_metric_families

from serving import KEY, OTHER, ask, scripted_app
from transduce.serving import server
from transduce.serving.limits import Limits

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "service"
UNIT = FOLDER / "transduce.service"
PROGRAM = "/opt/transduce/bin/transduce"


def read_unit(text: str) -> dict[str, list[str]]:
    """Return the values of each key, as "Section.Key"."""
    values: dict[str, list[str]] = {}
    section = ""
    for line in text.replace("\\\n", " ").splitlines():
        if not line or line.startswith("#"):
            continue
        if match := re.fullmatch(r"\[(\w+)\]", line):
            section = match[1]
        else:
            key, sign, value = line.partition("=")
            assert sign, line
            values.setdefault(f"{section}.{key}", []).append(value)
    return values


@pytest.fixture
def serve(cli: CommandLine, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `transduce serve` with options of an example; return what it would serve."""
    started: list[Any] = []
    bind = server.bind

    def run(words: list[str], folder_of_keys: str) -> Any:
        for name, key in (("keys", KEY), ("admin-keys", OTHER)):
            (tmp_path / name).write_text(key)
            (tmp_path / name).chmod(0o600)
        command, run_folder, *options = words
        assert command == "serve"
        assert run_folder.startswith("/")
        result = cli(
            "serve", tiny_run, *(each.replace(folder_of_keys, str(tmp_path)) for each in options)
        )
        assert result.status == 0, result.error
        return started.pop()

    monkeypatch.setattr(server, "run_server", lambda *arguments: started.append(arguments))
    monkeypatch.setattr(server, "bind", lambda host, port: bind("127.0.0.1", 0))
    return run


def assert_behind_proxy(arguments: Any, proxy: str) -> None:
    access = arguments[4]
    assert access.keys.find(KEY.encode()) == access.admin_keys.find(OTHER.encode()) == 0
    assert "mt.example.org" in access.names
    assert access.proxies == {proxy}


def test_the_unit_of_systemd_starts_the_service(serve: Any) -> None:
    unit = read_unit(UNIT.read_text(encoding="utf-8"))
    (start,) = unit["Service.ExecStart"]
    program, *words = shlex.split(start)
    assert program == PROGRAM
    assert_behind_proxy(serve(words, "%d"), "127.0.0.1")
    credentials = {value.partition(":")[0] for value in unit["Service.LoadCredential"]}
    assert {f"%d/{name}" for name in credentials} <= set(words)
    assert unit["Service.ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    assert int(unit["Service.LimitNOFILE"][0]) >= server.FILES
    assert "MemoryDenyWriteExecute" not in " ".join(unit)
    hardened = {"DynamicUser": "yes", "ProtectSystem": "strict", "Restart": "on-failure"}
    assert {key: unit[f"Service.{key}"][0] for key in hardened} == hardened


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text(encoding="utf-8").replace(PROGRAM, "/bin/true"))
    for words in (["verify"], ["security", "--offline=yes", "--threshold=20"]):
        done = subprocess.run(
            ["systemd-analyze", *words, copy], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout


def read_nginx(text: str) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield each directive with the blocks around it."""
    blocks: list[str] = []
    words: list[str] = []
    for token in re.findall(r'"[^"]*"|[{};]|[^\s{};"]+', re.sub(r"#.*", "", text)):
        if token == "{":
            blocks.append(" ".join(words))
            words = []
        elif token == "}":
            assert not words, words  # a semicolon is missing
            blocks.pop()
        elif token == ";":
            yield tuple(blocks), words
            words = []
        else:
            words.append(token)
    assert not blocks
    assert not words


def test_nginx_forwards_to_the_service_within_its_limits(tiny_run: Path) -> None:
    directives = [*read_nginx((FOLDER / "nginx.conf").read_text(encoding="utf-8"))]
    first = {words[0]: words[1:] for _, words in reversed(directives)}
    limits = Limits()
    assert (("upstream transduce",), ["server", "127.0.0.1:8000"]) in directives
    assert first["proxy_pass"] == ["http://transduce"]
    assert ["proxy_set_header", "Host", "$host"] in [words for _, words in directives]
    # Only the address that nginx sees is trusted.
    assert ["proxy_set_header", "X-Forwarded-For", "$remote_addr"] in [w for _, w in directives]
    assert (
        int(first["client_max_body_size"][0].removesuffix("m")) * 2**20
        >= limits.document_bytes + limits.body
    )
    assert int(first["proxy_read_timeout"][0].removesuffix("s")) > limits.timeout
    assert int(first["keepalive_timeout"][0].removesuffix("s")) < limits.receiving
    assert first["large_client_header_buffers"] == ["4", f"{limits.head // 1024}k"]
    paths = {route.path for route in scripted_app(tiny_run).routes if hasattr(route, "path")}
    locations = {block.split()[-1] for blocks, _ in directives for block in blocks[1:]}
    assert locations - {"/"} <= paths
    closed = {blocks[-1].split()[-1] for blocks, words in directives if words == ["deny", "all"]}
    assert closed == {"/metrics", "/api/reload"}


@pytest.mark.skipif(shutil.which("nginx") is None, reason="there is no nginx")
def test_nginx_accepts_the_configuration(tmp_path: Path) -> None:
    text = (FOLDER / "nginx.conf").read_text(encoding="utf-8")
    text = re.sub(r"\n *ssl_certificate.*", "", text).replace("443 ssl", "443")
    main = tmp_path / "nginx.conf"
    main.write_text(f"pid {tmp_path}/pid;\nevents {{}}\nhttp {{\n{text}\n}}\n")
    subprocess.run(["nginx", "-t", "-q", "-p", tmp_path, "-c", main], check=True)


def test_prometheus_finds_the_metrics_that_its_rules_name(tiny_run: Path) -> None:
    configuration = yaml.safe_load((FOLDER / "prometheus.yml").read_text(encoding="utf-8"))
    (job,) = configuration["scrape_configs"]
    app = scripted_app(tiny_run)
    assert ask(app, "GET", "/health").status_code == 200  # requests are counted from the first on
    answer = ask(app, "GET", job["metrics_path"])
    families = text_string_to_metric_families(answer.text)
    labels: dict[str, set[str]] = {"up": set()}
    for family in families:
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    assert job["static_configs"] == [{"targets": ["127.0.0.1:8000"]}]
    assert (FOLDER / configuration["rule_files"][0]).is_file()
    paths = {route.path for route in app.routes if hasattr(route, "path")}
    rules = yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    for rule in (rule for group in rules for rule in group["rules"]):
        expression = rule["expr"]
        assert expression.count("(") == expression.count(")"), rule["alert"]
        names = re.findall(
            r"\b(?:transduce|process)_\w+\b|\bup\b", re.sub('"[^"]*"', "", expression)
        )
        assert names
        assert set(names) <= labels.keys(), rule["alert"]
        used = set().union(*(labels[name] for name in names)) | {"instance", "job"}
        selected = re.findall(r'(\w+)[!=]~?="?|(\w+)=~?"', re.sub(r'"[^"]*"', '""', expression))
        grouped = re.findall(r"by \(([^)]*)\)", expression)
        mentioned = {left or right for left, right in selected}
        mentioned |= {label for group in grouped for label in group.split(", ")}
        mentioned |= set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert mentioned <= used, rule["alert"]
        for path in re.findall(r'"(/[^"]*)"', expression):
            assert set(path.split("|")) <= paths
    assert app.state.service.close()


def test_the_compose_file_starts_the_service(serve: Any) -> None:
    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
    service = compose["services"]["transduce"]
    (network,) = compose["networks"]["inner"]["ipam"]["config"]
    assert_behind_proxy(serve(service["command"], "/run/secrets"), network["gateway"])
    assert "--port=8000" in service["command"]
    assert service["ports"] == ["127.0.0.1:8000:8000"]
    secrets = set(service["secrets"])
    assert secrets == compose["secrets"].keys()
    assert {
        f"--{'key-file' if name == 'keys' else 'admin-key-file'}=/run/secrets/{name}"
        for name in secrets
    } <= set(service["command"])
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "EXPOSE 8000" in image
    assert 'ENTRYPOINT ["transduce"]' in image
    assert "--home-dir /home/transduce" in image
    assert "USER 10001:10001" in image
    assert service["read_only"] is True
    assert service["ulimits"]["nofile"] >= server.FILES
