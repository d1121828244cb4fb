"""Reads, scales and writes PNG images with nothing but the standard library: 8 bits, RGB, not interlaced.

For other images use Pillow; what concerns the jobs in thumbnailer.py stays as it is.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MAX_PIXELS = 40_000_000


@dataclass
class Image:
    width: int
    height: int
    rows: list[bytes]
    """Three bytes for each pixel."""


def read(data: bytes) -> Image:
    """Raises ValueError if this is no image that it can read."""
    if not data.startswith(SIGNATURE):
        raise ValueError("not a PNG image")
    at, header, content = len(SIGNATURE), b"", b""
    while at + 8 <= len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            header = body
        elif kind == b"IDAT":
            content += body
        at += length + 12
    if len(header) != 13:
        raise ValueError("a PNG image without a header")
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    if (depth, colour, interlaced) != (8, 2, 0):
        raise ValueError("only RGB images with 8 bits, not interlaced, are supported")
    if width * height > MAX_PIXELS:
        raise ValueError(f"{width} x {height} pixels, the limit is {MAX_PIXELS}")
    return Image(width, height, _unfilter(_inflate(content, (width * 3 + 1) * height), width * 3))


def _inflate(content: bytes, size: int) -> bytes:
    """The pixels. A small file may claim to hold gigabytes: only what the header says is unpacked."""
    try:
        raw = zlib.decompressobj().decompress(content, size)
    except zlib.error as error:
        raise ValueError(f"damaged image: {error}") from None
    if len(raw) != size:
        raise ValueError("the image ends too early")
    return raw


def _unfilter(raw: bytes, stride: int) -> list[bytes]:
    rows: list[bytes] = []
    above = bytes(stride)
    for start in range(0, len(raw), stride + 1):
        row = bytearray(raw[start + 1 : start + 1 + stride])
        kind = raw[start]
        if kind > 4:
            raise ValueError(f"damaged image: no filter {kind}")
        for at in range(stride if kind else 0):
            left = row[at - 3] if at >= 3 else 0
            corner = above[at - 3] if at >= 3 else 0
            guess = (left, above[at], (left + above[at]) // 2, _paeth(left, above[at], corner))[kind - 1]
            row[at] = (row[at] + guess) & 255
        above = bytes(row)
        rows.append(above)
    return rows


def _paeth(left: int, above: int, corner: int) -> int:
    estimate = left + above - corner
    return min((left, above, corner), key=lambda value: abs(estimate - value))


def scale_row(image: Image, row: int, width: int, height: int) -> bytes:
    """One row of the image in another size: each pixel is the mean of those that it covers."""
    top = row * image.height // height
    rows = image.rows[top : max(top + 1, (row + 1) * image.height // height)]
    scaled = bytearray()
    for column in range(width):
        left = column * image.width // width
        right = max(left + 1, (column + 1) * image.width // width)
        count = (right - left) * len(rows)
        for channel in range(3):
            covered = (sum(line[left * 3 + channel : right * 3 : 3]) for line in rows)
            scaled.append(sum(covered) // count)
    return bytes(scaled)


def write(image: Image) -> bytes:
    """The image as a PNG file."""
    header = struct.pack(">IIBBBBB", image.width, image.height, 8, 2, 0, 0, 0)
    content = zlib.compress(b"".join(b"\0" + row for row in image.rows))
    chunks = [(b"IHDR", header), (b"IDAT", content), (b"IEND", b"")]
    return SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )
