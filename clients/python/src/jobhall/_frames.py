"""Frames of pandas and polars as Parquet, CSV, JSON and HTML.

An index of pandas is written as columns if it has a name, or if it is not of integers; otherwise it is only a number of
rows and left out.
"""

from __future__ import annotations

import html
import importlib
import importlib.util
import io
import json
from collections.abc import Callable, Iterable
from typing import Any

from ._codecs import Codec, Form
from .errors import ConfigurationError

PARQUET = "application/vnd.apache.parquet"
CSV = "text/csv; charset=utf-8"
JSON = "application/json"
HTML = "text/html; charset=utf-8"


def _package(name: str, use: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"{use} needs {name}, which is not installed", fix=f"pip install {name}") from error


def _guess(content: bytes) -> str | None:
    """What bytes without a useful media type are: Parquet begins with a mark, and a table of text is taken for CSV."""
    return "parquet" if content[:4] == b"PAR1" else "csv"


def _table(columns: Iterable[Any], rows: Iterable[Iterable[Any]]) -> bytes:
    """A table of HTML; cells are text, whatever they contain."""

    def line(cells: Iterable[Any], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>\n"

    body = "".join(line(row, "td") for row in rows)
    text = f"<thead>\n{line(columns, 'th')}</thead>\n<tbody>\n{body}</tbody>"
    return f'<!doctype html>\n<meta charset="utf-8">\n<table>\n{text}\n</table>\n'.encode()


def _buffered(write: Callable[[Any], Any]) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def _flat(frame: Any) -> Any:
    """The frame with its index as columns, if the index says something."""
    index = frame.index
    named = any(name is not None for name in index.names)
    if named or index.nlevels > 1 or index.dtype.kind not in "iu":
        return frame.reset_index()
    return frame


def pandas_frame() -> Codec:
    pandas = _package("pandas", "a value that is a pandas.DataFrame")

    def to_html(frame: Any) -> bytes:
        flat = _flat(frame)
        return _table(flat.columns, flat.itertuples(index=False))

    def to_json(frame: Any) -> bytes:
        text: str = _flat(frame).to_json(orient="records", date_format="iso", force_ascii=False)
        return text.encode()

    def to_csv(frame: Any) -> bytes:
        text: str = _flat(frame).to_csv(index=False, lineterminator="\n")
        return text.encode()

    def from_json(content: bytes) -> Any:
        return pandas.DataFrame(json.loads(content))

    parquet = Form(
        PARQUET,
        "parquet",
        lambda frame: _buffered(lambda to: _flat(frame).to_parquet(to, index=False)),
        lambda content: pandas.read_parquet(io.BytesIO(content)),
    )
    csv = Form(CSV, "csv", to_csv, lambda content: pandas.read_csv(io.BytesIO(content)))
    rest = (Form(JSON, "json", to_json, from_json), Form(HTML, "html", to_html))
    has_arrow = importlib.util.find_spec("pyarrow") is not None
    return Codec("pandas.DataFrame", (parquet, csv, *rest) if has_arrow else (csv, parquet, *rest), _guess)


def pandas_series() -> Codec:
    """A series is written as a frame with one column, and is never read."""

    def framed(encode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
        return lambda series: encode(series.to_frame("value" if series.name is None else series.name))

    of_frame = pandas_frame()
    forms = [Form(form.media_type, form.extension, form.encode and framed(form.encode)) for form in of_frame.forms]
    return Codec("pandas.Series", tuple(forms))


def polars_frame() -> Codec:
    polars = _package("polars", "a value that is a polars.DataFrame")
    return Codec(
        "polars.DataFrame",
        (
            Form(
                PARQUET,
                "parquet",
                lambda frame: _buffered(frame.write_parquet),
                lambda content: polars.read_parquet(io.BytesIO(content)),
            ),
            Form(
                CSV,
                "csv",
                lambda frame: frame.write_csv().encode(),
                lambda content: polars.read_csv(io.BytesIO(content), try_parse_dates=True),
            ),
            Form(
                JSON,
                "json",
                lambda frame: frame.write_json().encode(),
                lambda content: polars.read_json(io.BytesIO(content)),
            ),
            Form(HTML, "html", lambda frame: _table(frame.columns, frame.iter_rows())),
        ),
        _guess,
    )


def read_frame(content: bytes, media_type: str, kind: str) -> Any:
    """Bytes as a frame of this package."""
    makers = {"pandas": pandas_frame, "polars": polars_frame}
    if kind not in makers:
        raise ValueError(f"a frame is one of pandas or polars, not of {kind!r}")
    return makers[kind]().decode(content, media_type)
