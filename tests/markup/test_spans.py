"""Protected spans are found in running text, and ordinary words are not taken for spans."""

import signal
import time

import pytest

from transduce.errors import BadInput
from transduce.markup import SpanRules, find_spans, has_words
from transduce.markup.protected import find_literal, protect


def found(text: str, rules: SpanRules | None = None) -> list[str]:
    spans = rules.find(text) if rules else find_spans(text)
    return [text[span.start : span.end] for span in spans]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Click {name} or {0:d}, {{ x }} and ${HOME}.", ["{name}", "{0:d}", "{{ x }}", "${HOME}"]),
        ("%s of %d files, %1$s, %(user)s, %.2f %%", ["%s", "%d", "%1$s", "%(user)s", "%.2f", "%%"]),
        ("Replace $1 with $name.", ["$1", "$name"]),
        ("See https://a.b/c(d)?e=f#g. Now.", ["https://a.b/c(d)?e=f#g"]),
        ("(see www.example.org/x)", ["www.example.org/x"]),
        ("HTTPS://X.ORG and WWW.X.ORG", ["HTTPS://X.ORG", "WWW.X.ORG"]),
        ("Mail me.too+x@mail.example.org.", ["me.too+x@mail.example.org"]),
        ("Run `ls -l` and ``a ` b``.", ["`ls -l`", "``a ` b``"]),
        ("Open /usr/local/bin, ~/notes and ../x.", ["/usr/local/bin", "~/notes", "../x"]),
        (r"In C:\Program\x.exe or \\server\share.", [r"C:\Program\x.exe", r"\\server\share"]),
        ("Edit config.json and src/main.py.", ["config.json", "src/main.py"]),
        ("A <b>bold</b> &nbsp; <br/> <!-- x -->", ["<b>", "</b>", "&nbsp;", "<br/>", "<!-- x -->"]),
        ("Call foo_bar() with --out=x.", ["foo_bar()", "--out=x"]),
        ("It has 5 km, 64GB, 20% and 90 °C.", ["5 km", "64GB", "20%", "90 °C"]),
        ("private \U000f0001 use", ["\U000f0001"]),
    ],
)
def test_spans_are_found(text: str, expected: list[str]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{name}さん、こんにちは", ["{name}"]),
        ("用户%s你好，共%1$d个", ["%s", "%1$d"]),
        ("%(name)sさん: $nameさん", ["%(name)s", "$name"]),
        ("%sмир, привет%s, مرحبا%s", ["%s", "%s", "%s"]),
        ("重5kg的，20%です，20％です", ["5kg", "20%", "20％"]),
        ("见http://x.org/a。请看https://x.org看", ["http://x.org/a", "https://x.org"]),
        ("https://x.org에서 http://例え.jp/あ", ["https://x.org", "http://例え.jp/あ"]),
        ("发邮件到me@x.org吧", ["me@x.org"]),
        ("打开/usr/local/bin目录的config.json文件", ["/usr/local/bin", "config.json"]),
        ("调用foo()函数，用--out=x。", ["foo()", "--out=x"]),
        (r"打开C:\Windows文件夹和C:\用户\文档", ["C:\\Windows", "C:\\用户\\文档"]),
    ],
)
def test_spans_beside_other_scripts_are_found(text: str, expected: list[str]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%s%d, %ld%s, %s_%s, %sи%s", ["%s%d", "%ld%s", "%s_%s", "%s", "%s"]),
        ("$1$2, US$5", ["$1$2"]),
        ("{a}{b}{0}/{1} {a}和{b}", ["{a}{b}{0}/{1}", "{a}", "{b}"]),
        ("%d:%02d, {w}x{h}, %s: %s", ["%d:%02d", "{w}x{h}", "%s", "%s"]),
        ("{x}%, {y}%d or %d% a", ["{x}%", "{y}%d", "%d%"]),
        ("%-5.2f%%, %5.1f%%%s, 100%%", ["%-5.2f%%", "%5.1f%%%s", "100%%"]),
        ("%dMB, %username", ["%dMB", "%username"]),
        ("%{name} #{name} { name } ${{ x }}", ["%{name}", "#{name}", "{ name }", "${{ x }}"]),
        ("${a.{{x}}} {{{x}}} ${a ? {b} : 1}", ["${a.{{x}}}", "{{{x}}}", "${a ? {b} : 1}"]),
        ("<%= a.b %> <?php echo 1 ?> $t(a.b)", ["<%= a.b %>", "<?php echo 1 ?>", "$t(a.b)"]),
        ("$HOME/.x/y.json. ${A}/b, %TEMP%\\x", ["$HOME/.x/y.json", "${A}/b", "%TEMP%\\x"]),
        ("{dir}/x.txt, %s/%s.html, file%d.txt", ["{dir}/x.txt", "%s/%s.html", "file%d.txt"]),
        ('<a href="a>b">x</a> <i disabled/>', ['<a href="a>b">', "</a>", "<i disabled/>"]),
        ("<video controls loop> <p hidden x>", ["<video controls loop>", "<p hidden x>"]),
        ("It is -5 °C (−3 °C), 10-15 km", ["-5 °C", "−3 °C", "15 km"]),
    ],
)
def test_adjacent_and_nested_spans_are_found(text: str, expected: list[str]) -> None:
    assert found(text) == expected


def test_a_message_of_icu_is_one_span() -> None:
    """Its branches are texts, but what is around them is a program."""
    message = "{n, plural, =0 {no files} other {{g, select, a {# of {x}} other {#}}}}"
    assert found(f"You have {message}.") == [message]
    assert found("{n, plural, one {# file}") == ["{# file}"]


def test_windows_paths_may_have_spaces() -> None:
    text = r"Copy C:\Program Files (x86)\Foo Bar\x.exe to C:\a, or D:\b and \\srv\x."
    expected = [r"C:\Program Files (x86)\Foo Bar\x.exe", r"C:\a", r"D:\b", r"\\srv\x"]
    assert found(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "if a<b and c>d then",
        "Enter <your name here>.",
        "он/она/оно, 中/英/日",
        "eine 20 %ige und eine 20-%ige Lösung",
        "Café or Cafés",
        "見る。第3章、2月5日",
    ],
)
def test_text_beside_marks_is_no_span(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "It's 100 times better, and/or he/she runs 5 m/s.",
        "It costs $20.50 or $5,000 (about 3,5 km).",
        "On 24/7 at 5 p.m., e.g. in the U.S., i.e. there.",
        "If a < b and c > d, then R&D wins.",
        "We are 100% sure of 50%discount words",
        "Zwei Hunde laufen über das nasse Gras: schön!",
    ],
)
def test_ordinary_text_has_none_of_these(text: str) -> None:
    assert all(span.kind == "number" for span in find_spans(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        ("12.5 kg, 3 km/h", False),
        ("-- 12:30 (5%) ²", False),
        ("5 apples", True),
        ("5 m of rope", True),
        ("é", True),
        ("水", True),
        ("kg", True),
    ],
)
def test_units_of_numbers_are_no_words(text: str, expected: bool) -> None:
    assert has_words(text) is expected


def test_numbers_with_separators_are_left_to_the_model() -> None:
    """3.5 km is 3,5 km in German."""
    assert found("It is 3.5 km and 1,000 m.") == []


def test_own_patterns_and_words_are_found() -> None:
    rules = SpanRules([r"ACME-\d+"], ["Data Hub", "Data"])
    text = "ACME-12 moves Data Hub files and Data, not Database."
    assert found(text, rules) == ["ACME-12", "Data Hub", "Data"]


def test_an_own_pattern_inside_a_longer_span_leaves_that_span_whole() -> None:
    rules = SpanRules([r"ACME-\d+", "y z"], ["b"])
    assert found("See https://x.org/ACME-1/a.", rules) == ["https://x.org/ACME-1/a"]
    assert found("In C:\\x\\ACME-1\U000f0000.", rules) == ["C:\\x\\ACME-1\U000f0000"]
    assert found("Run /usr/x/y z now", rules) == ["/usr/x/y z"]
    assert len(protect("A <b>dog</b> runs", SpanRules(["<[^>]+>"])).elements) == 1


def test_a_pattern_that_cannot_be_used_is_refused() -> None:
    with pytest.raises(BadInput, match=r"--keep '\(' is not a regular expression"):
        SpanRules(["("])
    for pattern in ("x*", "", "^"):
        with pytest.raises(BadInput, match="matches the empty text"):
            SpanRules([pattern])
    for pattern in ("a{99999999999999999999}", "(" * 3_000, "(?<=a+)b", "\\"):
        with pytest.raises(BadInput, match=r"^--keep .{1,103} is not a regular expression: "):
            SpanRules([pattern])


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no timers")
def test_a_pattern_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.markup.spans.SECONDS", 0.1)
    start = time.monotonic()
    with pytest.raises(BadInput, match=r"'\(a\+\)\+\$' takes longer than 0.1 s in a text of 41 "):
        found("a" * 40 + "b", SpanRules([r"(a+)+$"]))
    assert time.monotonic() - start < 5
    assert found("a b", SpanRules(["b"])) == ["b"]
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_patterns_that_match_nothing_or_everything_are_used_as_they_are() -> None:
    assert found("Two {a} dogs", SpanRules(["(?<=T)", r"\b", "zebra"])) == ["{a}"]
    assert found("Two {a} dogs", SpanRules([".+"])) == ["Two {a} dogs"]
    assert found("ab", SpanRules(["[[a]"])) == ["a"]


def test_words_are_kept_whatever_form_their_accents_have() -> None:
    rules = SpanRules(words=[" Café \t", "", "  "])
    assert found("Das Cafe\u0301 und Café", rules) == ["Cafe\u0301", "Café"]
    assert found("Cafes Cafe\u0301", SpanRules(words=["Cafe"])) == []


def test_words_are_kept_inside_text_without_spaces() -> None:
    rules = SpanRules(words=["Acme", "东京", "किताब"])
    assert found("在Acme工作、Acmeさん、Acme를, Acmes", rules) == ["Acme"] * 3
    assert found("在东京都, किताब, किताबें", rules) == ["东京", "किताब"]


@pytest.mark.parametrize(
    "part",
    [
        "`",
        "a.",
        "<!-- ",
        "%0",
        "%" + "0" * 9_999,
        "\U000f0001",
        "{x} ",
        "a::",
        "a+b.",
        "<b></i>",
        "${a",
        "{a,plural,",
        "${{a}{b}",
        "{a}",
        "a@",
        "%s/",
        "<a b=",
        '<a ="',
        "C:\\a ",
        "www.a",
        "看http://",
    ],
)
def test_long_hostile_text_takes_linear_time(part: str) -> None:
    text = part * (20_000 // len(part)) + " .py"
    start = time.process_time()
    protect(text, SpanRules(words=["a"]))
    assert time.process_time() - start < 1.5


def test_trailing_brackets_are_counted() -> None:
    assert found("(see http://x.org/a(b))") == ["http://x.org/a(b)"]
    assert found("http://x.org/" + ")" * 50_000) == ["http://x.org/"]


def test_a_span_is_recognised_beside_another_script() -> None:
    """The ends of a word are found in the same way as the spans of a text."""
    assert find_literal("用户%s你好, %sмир, %ss", "%s") == [(2, 4), (8, 10)]
    assert find_literal("重5 km的, 15 km, 5 kms", "5 km") == [(1, 5)]
