"""A picture in a file of its own."""

from __future__ import annotations

import importlib
from pathlib import Path

from cutaway.errors import CutawayError
from cutaway.trace.files import write_private

from .svg import Picture

KINDS = (".svg", ".png", ".pdf")


def write(path: Path, picture: Picture) -> None:
    """Write a picture as SVG, PNG or PDF, by the ending of its name."""
    kind = path.suffix.lower()
    if kind not in KINDS:
        remedy = "use a name that ends in .svg, .png or .pdf"
        raise CutawayError(f"{path} is not a figure Cutaway can write; {remedy}.")
    drawn = picture.alone()
    try:
        if kind == ".svg":
            write_private(path, drawn)
        else:
            cairosvg = importlib.import_module("cairosvg")
            if kind == ".png":
                convert = cairosvg.svg2png
            else:
                convert = cairosvg.svg2pdf
            write_private(path, convert(bytestring=drawn.encode()))
    except ImportError:
        remedy = "pip install cairosvg, or write an .svg"
        raise CutawayError(f"{kind[1:].upper()} needs CairoSVG: {remedy}.") from None
    except OSError as error:
        remedy = "write an .svg, or choose another folder"
        raise CutawayError(f"{path} cannot be written: {error}; {remedy}.") from None
