"""The frame of every page: one HTML file that needs nothing else. It sets what the page may do, its style, dark colours and paper."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib import resources
from typing import Any

from .markup import Markup

NOTHING = "'none'"


def document(title: str, body: Markup, script: str = "", data: Any = None) -> str:
    """The whole file. The policy allows exactly the one style written here, and the script, if there is one; it finds its
    data as JSON in the element `data`."""
    files = resources.files(__package__)
    shell, style = (
        files.joinpath(f"shell.{kind}").read_text(encoding="utf-8")
        for kind in ("html", "css")
    )
    parts = {
        "@SCRIPT_POLICY@": policy(script) if script else NOTHING,
        "@STYLE_POLICY@": policy(style),
        "@TITLE@": html.escape(title),
        "@STYLE@": style,
        "@BODY@": body,
        "@SCRIPTS@": _scripts(script, data) if script else "",
    }
    # Split, never replace: what a trace says cannot become a placeholder.
    return "".join(parts.get(piece, piece) for piece in re.split("(@[A-Z_]+@)", shell))


def _scripts(script: str, data: Any) -> str:
    stored = f'<script type="application/json" id="data">{safe_json(data)}</script>'
    return f"{stored}\n<script>{script}</script>"


def safe_json(data: Any) -> str:
    """JSON that no HTML parser can leave: every sign that could open markup is written as an escape.

    >>> safe_json({"a": "</script><!--&"})
    '{"a":"\\\\u003c/script\\\\u003e\\\\u003c!--\\\\u0026"}'
    """
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def policy(text: str) -> str:
    """What a Content-Security-Policy calls a text that it allows."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
