"""TFRecord files of tf.train.Example: each record is a recording."""

from __future__ import annotations

import dataclasses
import io
import struct
from typing import BinaryIO, ClassVar, cast

import numpy as np

from ...elements import Description
from ...rejects import Reason, RejectError
from ..attributes import Value, find_rate, find_start, kept, plain_value
from ..base import ReadSettings, choose_members, empty, short_read
from ..samples import scaling, store
from ..whole import DecodedCache, require_decodable
from .tfrecord_example import Feature, MalformedError, Stream, parse_example
from .tfrecord_framing import (
    CHECKSUM_BYTES,
    checksum_of,
    corrupt,
    data_fits,
    find_records,
    open_records,
    release,
    starts_records,
)

_SMALL_BYTES = 4 << 20  # below it a record is read and checked again for each block, above it is kept
_VARINT_BYTES = 32  # that decoding takes for each number
# What `extract --keep-waveform` writes; a stacked example has no channel.
_SEGMENT_KEYS = frozenset({"recording", "start", "valid", "waveform"})


@dataclasses.dataclass(frozen=True)
class _Waveform:
    """The samples of a record: `frames` of `dtype` under `key`."""

    key: str
    feature: Feature
    dtype: np.dtype
    frames: int


class TfrecordReader:
    """TFRecord files, plain or compressed, of tf.train.Example, and Spectrabeam's own with waveforms."""

    name: ClassVar[str] = "tfrecord"
    suffixes: ClassVar[tuple[str, ...]] = (".tfrecord", ".tfrecords", ".tfrec")
    needs_header: ClassVar[bool] = True
    takes_folder: ClassVar[bool] = False

    def __init__(self, settings: ReadSettings):
        self._settings = settings
        self._cache = DecodedCache()

    @staticmethod
    def matches(head: bytes) -> bool:
        """By the first record's length, whose checksum follows it; in a compressed file after inflating."""
        return starts_records(head)

    def describe(self, file: BinaryIO | None, size: int) -> list[Description | RejectError]:
        """One description a record, from its keys; the checksums of the data are held when they are read.

        Raises:
          RejectError: the file is no TFRecord file, strict and it is cut short, or no record can be used and all
            for one cause.
        """
        assert file is not None
        if size == 0:
            raise empty("the file has 0 bytes")
        stream, inflated = open_records(file, self._cache, self._settings.decode_limit)
        try:
            return self._describe(stream, size if inflated is None else inflated)
        finally:
            release(stream)

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """Seeks to the record, holds its checksum, and takes the range; records above 4 MiB are kept decoded."""
        offset, length = map(int, locator.split(" "))

        def decode() -> np.ndarray:
            require_decodable(length, self._settings.decode_limit)
            stream, _ = open_records(file, self._cache, self._settings.decode_limit)
            try:
                return self._decode(stream, offset, length)
            finally:
                release(stream)

        samples = decode() if length <= _SMALL_BYTES else self._cache.get(file, locator, decode)
        found = samples[start : start + len(out)]
        if len(found) < len(out):
            raise short_read(start, len(out), len(found))
        store(found, out, *scaling(self._settings.scale, samples.dtype))

    def _describe(self, stream: Stream, end: int) -> list[Description | RejectError]:
        spans, fault = find_records(stream, end)
        if fault is not None and (self._settings.strict or not spans):
            raise RejectError(fault.reason, str(fault))
        names = [str(index) for index in range(len(spans))]
        chosen = choose_members(names, self._settings.members)
        entries: list[Description | RejectError] = []
        for name in chosen:
            try:
                entries.append(self._describe_record(stream, name, *spans[int(name)]))
            except RejectError as error:
                entries.append(RejectError(error.reason, f"record {name}: {error}", name))
        rejects = [entry for entry in entries if isinstance(entry, RejectError)]
        if (
            len(rejects) == len(entries) > 1 and len({each.reason for each in rejects}) == 1
        ):  # one line says it for all
            raise RejectError(rejects[0].reason, f"none of {len(entries)} records can be used; {rejects[0]}")
        if fault is not None and fault.reason == Reason.TRUNCATED:
            for index in reversed(range(len(entries))):
                entry = entries[index]
                if isinstance(entry, Description):
                    entries[index] = dataclasses.replace(entry, warnings=(*entry.warnings, str(fault)))
                    break
        elif fault is not None:
            entries.append(fault)
        return entries

    def _describe_record(self, stream: Stream, name: str, offset: int, length: int) -> Description:
        settings = self._settings
        try:
            features = parse_example(stream, offset, offset + length)
        except MalformedError as error:
            if not data_fits(stream, offset, length):
                raise corrupt(length) from error
            raise RejectError(Reason.BAD_FORMAT, f"it is no tf.train.Example: {error}") from error
        waveform = self._find_waveform(stream, features)
        values = _single_values(features, waveform.key)
        warnings: tuple[str, ...] = ()
        rate_key = settings.rate_key or "sample_rate"
        if settings.time_key is None and isinstance(values.get("start_time_ns"), int):
            start_ns: int | None = cast(int, values["start_time_ns"])
        else:
            start_ns, warnings = find_start(values, settings.time_key)
        return Description(
            format=self.name,
            sample_rate=find_rate(values, rate_key),
            channels=1,
            frames=waveform.frames,
            dtype=waveform.dtype.str,
            warnings=warnings,
            member=name,
            locator=f"{offset} {length}",
            is_complex=waveform.dtype.kind == "c",
            start_time_ns=start_ns,
            attributes=kept(values),
        )

    def _find_waveform(self, stream: Stream, features: dict[str, Feature]) -> _Waveform:
        """Which key holds the samples, and as what.

        Raises:
          RejectError: none does, several may, or its values are no samples.
        """
        settings = self._settings
        key = self._find_key(features)
        feature = features[key]
        own = features.keys() >= _SEGMENT_KEYS and key == "waveform"
        if own and "channel" not in features:
            raise RejectError(
                Reason.BAD_FORMAT,
                "its keys are those of a Spectrabeam example with stacked channels, which cannot be told apart again: "
                "extract from the original recordings",
            )
        if feature.kind == "bytes":
            dtype = np.dtype("<i2") if own else self._bytes_dtype(key)
            num_bytes = feature.spans[0][1] if feature.count == 1 else 0
            if feature.count > 1 or num_bytes % dtype.itemsize:
                what = "several values" if feature.count > 1 else f"{num_bytes} bytes"
                raise RejectError(
                    Reason.DTYPE_MISMATCH,
                    f"key {key} holds {what}, and {dtype.str} samples are one value of a multiple of "
                    f"{dtype.itemsize} bytes: check tfrecord_dtype",
                )
            frames = num_bytes // dtype.itemsize
        else:
            dtype, frames = np.dtype("<f4" if feature.kind == "float" else "<i8"), feature.count
            if feature.kind == "int64":
                require_decodable(frames * _VARINT_BYTES, settings.decode_limit)
        if own:
            valid = features["valid"]
            real = int(valid.numbers(stream)[0]) if (valid.kind, valid.count) == ("int64", 1) else -1
            if not 0 <= real <= frames:
                raise RejectError(Reason.BAD_FORMAT, f"valid={real} is not within its {frames} samples")
            frames = real  # what follows was added to fill the segment
        if frames == 0:
            raise empty(f"key {key} holds no sample")
        return _Waveform(key, feature, dtype, frames)

    def _find_key(self, features: dict[str, Feature]) -> str:
        wanted = self._settings.waveform_key or ("waveform" if "waveform" in features else None)
        if wanted is not None:
            candidates = [wanted] if wanted in features else []
        else:
            candidates = [
                key for key, each in features.items() if each.kind in ("float", "int64") and each.count > 1
            ]
            if not candidates and self._settings.tfrecord_dtype is not None:
                candidates = [
                    key for key, each in features.items() if (each.kind, each.count) == ("bytes", 1)
                ]
        if len(candidates) == 1:
            return candidates[0]
        listed = ", ".join(
            f"{key} ({each.count if each.kind != 'bytes' or each.count < 2 else 'several'} {each.kind or 'empty'})"
            for key, each in sorted(features.items())[:20]
        )
        problem = (
            f"no key {wanted}"
            if wanted
            else "several lists may be the samples"
            if candidates
            else "no samples"
        )
        cure = "set waveform_key to the one that holds the samples"
        raise RejectError(Reason.NO_MEMBER, f"{problem} among its keys {listed or '(none)'}: {cure}")

    def _bytes_dtype(self, key: str) -> np.dtype:
        if self._settings.tfrecord_dtype is None:
            raise RejectError(
                Reason.DTYPE_MISMATCH,
                f"key {key} holds bytes, which do not say what numbers they are: set tfrecord_dtype, such as <i2",
            )
        return np.dtype(self._settings.tfrecord_dtype)

    def _decode(self, stream: Stream, offset: int, length: int) -> np.ndarray:
        """The samples of a record, [frames] as stored."""
        stream.seek(offset)
        record, checksum = stream.read(length), stream.read(CHECKSUM_BYTES)
        if len(record) < length or len(checksum) < CHECKSUM_BYTES:
            raise RejectError(Reason.TRUNCATED, f"a record of {length} bytes is cut short")
        if checksum_of(record) != struct.unpack("<I", checksum)[0]:
            raise corrupt(length)
        content = io.BytesIO(record)
        try:
            waveform = self._find_waveform(content, parse_example(content, 0, length))
            if waveform.feature.kind != "bytes":
                return waveform.feature.numbers(content)[: waveform.frames]
            return np.frombuffer(waveform.feature.read(content), waveform.dtype)[: waveform.frames]
        except MalformedError as error:
            raise RejectError(Reason.BAD_FORMAT, f"the record is no tf.train.Example: {error}") from error


def _single_values(features: dict[str, Feature], waveform_key: str) -> dict[str, Value]:
    """The single values of an example, by key: text, integers, floats."""
    values: dict[str, Value] = {}
    for key, feature in sorted(features.items()):
        if key == waveform_key or feature.count != 1 or feature.small is None:
            continue
        if feature.kind == "bytes":
            try:
                value = plain_value(feature.small.decode())
            except UnicodeDecodeError:  # an image or the like
                continue
        else:
            value = plain_value(feature.numbers(io.BytesIO()))
        if value is not None:
            values[key] = value
    return values
