"""Host names, origins, security headers and files of the service."""

from pathlib import Path
from urllib.parse import urlencode

import pytest

from serving import GETS, KEY, POSTS, ask, bearer, error, scripted, scripted_app
from transduce.errors import BadInput
from transduce.serving.app import create_app
from transduce.serving.keys import Keys
from transduce.serving.origins import parse_origins

FOREIGN = {
    "another site": {"Origin": "https://evil.example"},
    "a sandboxed page": {"Origin": "null"},
    "another port": {"Origin": "http://localhost:3000"},
    "a name with the same beginning": {"Origin": "http://localhost.evil.example"},
    "a cross-site request": {"Sec-Fetch-Site": "cross-site"},
    "a same-site request": {"Sec-Fetch-Site": "same-site"},
    "a submitted form": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
def test_requests_from_pages_of_other_sites_are_refused(
    tiny_run: Path, name: str, kind: str
) -> None:
    served, engine = scripted(tiny_run)
    app = create_app([served])
    form = urlencode(POSTS["/translate"]).encode()
    answer = ask(
        app, "POST", "/translate", content=form, headers={"Content-Type": kind, **FOREIGN[name]}
    )
    assert "another site" in error(answer, 403)
    assert engine.batches == []
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_requests_of_programs_own_pages_and_links_are_answered(tiny_run: Path) -> None:
    app = scripted_app(tiny_run)
    same_site = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    for headers in ({}, same_site, {"Origin": "http://localhost"}, {"Sec-Fetch-Site": "none"}):
        response = ask(app, "POST", "/api/translate", json={"text": "a dog."}, headers=headers)
        assert response.status_code == 200
    proxied = {"Origin": "https://translate.example", "Sec-Fetch-Site": "same-origin"}
    response = ask(app, "POST", "/api/translate", json={"text": "a dog."}, headers=proxied)
    assert response.status_code == 200  # behind a proxy, the host has another name
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert ask(app, "GET", "/", headers=link).status_code == 200
    image = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    error(ask(app, "GET", "/api/runs", headers=image), 403)
    assert app.state.service.close()


def test_allowed_origins_get_cors_headers(tiny_run: Path) -> None:
    origin = "https://app.example"
    app = scripted_app(tiny_run, origins=parse_origins([origin + "/"]), keys=Keys([KEY]))
    request = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-api-key",
    }
    preflight = ask(app, "OPTIONS", "/api/translate", headers={"Origin": origin, **request})
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == origin
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert "x-api-key" in preflight.headers["access-control-allow-headers"].lower()
    assert "access-control-allow-credentials" not in preflight.headers
    site = {"Origin": origin, "Sec-Fetch-Site": "cross-site"}
    response = ask(
        app, "POST", "/api/translate", json={"text": "a dog."}, headers={**site, **bearer(KEY)}
    )
    assert response.headers["access-control-allow-origin"] == origin
    assert response.headers["vary"] == "Origin"
    assert response.headers["access-control-expose-headers"] == "Retry-After, Content-Disposition"
    refused = ask(app, "POST", "/api/translate", json={"text": "a dog."}, headers=site)
    error(refused, 401)
    assert (
        refused.headers["access-control-allow-origin"] == origin
    )  # so its page can read the error
    for other in ("https://evil.example", "http://app.example", "https://app.example.evil"):
        for method, status in (("OPTIONS", 400), ("POST", 403)):
            response = ask(app, method, "/api/translate", headers={"Origin": other, **request})
            assert response.status_code == status
            assert "access-control-allow-origin" not in response.headers
    assert app.state.service.close()


@pytest.mark.parametrize("origin", ["*", "null", "example.org", "https://a.org/path", "https://*"])
def test_a_wildcard_is_not_an_origin(origin: str) -> None:
    with pytest.raises(BadInput, match="--allow-origin"):
        parse_origins([origin])


def test_every_page_file_answer_and_error_has_security_headers(tiny_run: Path) -> None:
    from transduce.serving import static_files
    from transduce.serving.middleware import HEADERS

    app = scripted_app(tiny_run, names={"localhost"}, keys=Keys([KEY]))
    files = list(static_files.files())
    answers = {path: ask(app, "GET", path) for path in files}
    answers |= {path: ask(app, "GET", path, headers=bearer(KEY)) for path in GETS}
    for path, body in POSTS.items():
        answers[path] = ask(app, "POST", path, json=body, headers=bearer(KEY))
    answers["401"] = ask(app, "GET", "/api/models")
    answers["404"] = ask(app, "GET", "/<script>", headers=bearer(KEY))
    answers["405"] = ask(app, "PUT", "/api/models", headers=bearer(KEY))
    answers["400"] = ask(app, "GET", "/", headers={"Host": "evil.example"})
    answers["403"] = ask(app, "GET", "/api/models", headers={"Origin": "null"})
    for name, answer in answers.items():
        for header, value in HEADERS:
            assert answer.headers[header.decode()] == value.decode(), (name, header)
        stored = "no-cache" if name in files else "no-store"
        assert answer.headers["cache-control"] == stored, name
        assert "access-control-allow-origin" not in answer.headers
        assert "server" not in answer.headers
        if name.isdecimal():
            assert answer.status_code == int(name)
            assert answer.headers["content-type"] == "application/json"
    assert "unsafe" not in answers["/"].headers["content-security-policy"]
    assert app.state.service.close()


@pytest.mark.parametrize(
    "path",
    ["/../keys.py", "/..%2fkeys.py", "/%2e%2e/%2e%2e/app.py", "//etc/passwd", "/base.css/..",
     "/base.css%00.js", "/page/../base.css", "/....//base.css", "/C:/x", "/./base.css"],
)  # fmt: skip
def test_no_path_leads_outside_the_files(tiny_run: Path, path: str) -> None:
    from transduce.serving import static_files

    response = ask(scripted_app(tiny_run), "GET", path)
    known = {
        file.content for file in static_files.files().values()
    }  # clients resolve dots themselves
    assert response.status_code == 404 or response.content in known
