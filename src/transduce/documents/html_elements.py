"""The elements of HTML: which separate texts, have no content, or are not translated."""


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


# All other elements, also unknown ones, are inline.
BLOCKS = _names(
    "address article aside audio base blockquote body canvas caption center col colgroup datalist "
    "dd details dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 "
    "h3 h4 h5 h6 head header hgroup hr html iframe legend li link listing main menu meta nav "
    "noembed noframes noscript object ol optgroup option p plaintext pre search section select "
    "slot source summary table tbody td template textarea tfoot th thead title tr track ul video "
    "xmp"
)
# Without content and end tag.
VOID = _names(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source "
    "track wbr"
)
# Not translated.
PROTECTED = _names(
    "code iframe kbd listing math noembed noframes plaintext pre samp script style svg textarea "
    "var xmp"
)
# Elements whose end tag may be missing: a start tag ends these, unless one of those is between.
ENDS = {
    **dict.fromkeys(("dd", "dt"), (("dd", "dt"), ("dl",))),
    **dict.fromkeys(("td", "th"), (("td", "th"), ("tr", "table"))),
    "li": (("li",), ("ul", "ol", "menu", "dir")),
    "option": (("option",), ("select", "datalist", "optgroup")),
    "tr": (("tr",), ("table",)),
}
PARAGRAPH = (
    ("p",),
    ("button", "caption", "foreignobject", "object", "table", "td", "th", "template"),
)
FOREIGN = ("svg", "math")  # their title is not that of a page
# Blocks that may be inside a paragraph, or in the head.
IN_PARAGRAPH = _names(
    "audio canvas datalist iframe link meta noscript object option optgroup select slot source "
    "template textarea track video"
)
