"""Figures of matplotlib as PNG and SVG."""

from __future__ import annotations

import io
import sys
from typing import Any

from ._codecs import Codec, Form


def _write(figure: Any, format: str) -> bytes:
    buffer = io.BytesIO()
    # The same figure is the same bytes: a date would make each file another value.
    figure.savefig(buffer, format=format, metadata={"Date": None} if format == "svg" else None)
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(figure)
    return buffer.getvalue()


CODEC = Codec(
    "matplotlib figure",
    (
        Form("image/png", "png", lambda figure: _write(figure, "png")),
        Form("image/svg+xml", "svg", lambda figure: _write(figure, "svg")),
    ),
)
