"""The page: one HTML file that needs nothing else. Data travels as JSON, text reaches the document as text."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib import resources
from typing import Any

from cutaway.vocabulary import drawn

FIRST, LAST = "base.js", "main.js"  # every other script adds a section
NO_SCRIPT = (
    "<noscript>This report draws itself with JavaScript, which is switched off. "
    "<code>cutaway show</code> prints the same figures.</noscript>"
)


def assemble(title: str, data: dict[str, Any], body: str = NO_SCRIPT) -> str:
    """The whole file; `body` is markup of our own. The policy allows exactly the one style and the one script written here."""
    files = resources.files(__package__)
    names = sorted(file.name for file in files.iterdir() if file.name.endswith(".js"))
    between = [name for name in names if name not in (FIRST, LAST)]
    page, style, *scripts = (
        files.joinpath(name).read_text(encoding="utf-8")
        for name in ("page.html", "page.css", FIRST, *between, LAST)
    )
    shared = f"const VOCABULARY = {json.dumps(drawn())};\n"
    script = '"use strict";\n(() => {\n' + shared + "\n".join(scripts) + "})();\n"
    parts = {
        "@SCRIPT_HASH@": policy_hash(script),
        "@STYLE_HASH@": policy_hash(style),
        "@TITLE@": html.escape(title),
        "@STYLE@": style,
        "@BODY@": body,
        "@DATA@": safe_json(data),
        "@SCRIPT@": script,
    }
    # Split, never replace: what a trace says cannot become a placeholder.
    return "".join(parts.get(piece, piece) for piece in re.split("(@[A-Z_]+@)", page))


def safe_json(data: Any) -> str:
    """JSON that no HTML parser can leave: every sign that could open markup is written as an escape.

    >>> safe_json({"a": "</script><!--&"})
    '{"a":"\\\\u003c/script\\\\u003e\\\\u003c!--\\\\u0026"}'
    """
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def policy_hash(text: str) -> str:
    """What a Content-Security-Policy calls a text that it allows."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
