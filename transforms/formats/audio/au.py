"""AU (Sun, NeXT): 24 bytes of header, a comment, and samples."""

from __future__ import annotations

import struct
from typing import ClassVar

from ...rejects import Reason, RejectError
from .chunks import Bytes
from .container import ContainerReader
from .pcm import A_LAW, MU_LAW, Encoding, Layout, ieee, lay_out, pcm

_ORDERS = {b".snd": ">", b"dns.": "<"}
_OPEN = 0xFFFFFFFF


class AuReader(ContainerReader):
    """AU files of both byte orders."""

    name: ClassVar[str] = "au"
    suffixes: ClassVar[tuple[str, ...]] = (".au", ".snd")

    @staticmethod
    def matches(head: bytes) -> bool:
        """By the marker, and a header of a possible length."""
        order = _ORDERS.get(head[:4])
        if order is None or len(head) < 24:
            return False
        offset, _, code = struct.unpack_from(f"{order}III", head, 4)
        return 24 <= offset <= 1 << 20 and 1 <= code <= 32

    def layout(self, data: Bytes, size: int, *, strict: bool) -> Layout:
        """From the header."""
        head = data.at(0, 24)
        order = _ORDERS.get(head[:4])
        if order is None:
            raise RejectError(Reason.BAD_FORMAT, "it is no AU file: it does not begin with .snd")
        if len(head) < 24:
            raise RejectError(Reason.EMPTY, f"the file ends ({size} bytes) within its header of 24 bytes")
        offset, length, code, rate, channels = struct.unpack_from(f"{order}IIIII", head, 4)
        if offset < 24:
            raise RejectError(
                Reason.BAD_FORMAT, f"samples begin at byte {offset}, within the header of 24 bytes"
            )
        encoding = _encoding(code, order)
        declared = None if length > max(size, _OPEN - 4096) else length
        codec = "" if encoding else f"AU encoding {code}"
        return lay_out(encoding, channels, float(rate), offset, declared, size, strict=strict, codec=codec)

    def tail_warnings(self, data: Bytes, layout: Layout, size: int) -> tuple[str, ...]:
        """Where bytes follow the samples: AU has no place for any."""
        follow = size - layout.offset - (layout.declared_bytes or size)
        return (
            (f"{follow} bytes after the samples that the header declares are left out",) if follow > 0 else ()
        )


def _encoding(code: int, order: str) -> Encoding | None:
    if 2 <= code <= 5:
        return pcm(8 * (code - 1), code - 1, order)
    if code in (6, 7):
        return ieee(4 if code == 6 else 8, order)
    return {1: MU_LAW, 27: A_LAW}.get(code)
