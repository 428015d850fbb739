"""What the readers see in one waveform file."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..transforms.features.base import hidden_by
from ..transforms.features.sizes import slow_length
from ..transforms.features.spectrum import LogSpectrum
from ..transforms.formats.choose import Readers, open_recording
from ..transforms.frontend import feature_settings, features_of
from ..transforms.rejects import RejectError, text
from ..transforms.segment import count_segments
from .byteorder import maybe_byteswapped
from .describe import Described, describe
from .match import match
from .recording import Recording
from .settings import Settings
from .times import to_iso
from .words import printable

_SHOWN = 8
_SAMPLES = 1 << 20
_PEAKS = 6
_PEAK_LENGTH = 1 << 14
_AROUND_BINS = 129
_STANDS_OUT_DB = 12.0


def inspect_file(path: str, settings: Settings) -> str:
    """Its recordings, with levels and strongest spectral lines of the first ones."""
    matches = match((path,), settings)
    lines = [f"File        {path}, {sum(found.size for found in matches.found):,} bytes"]
    described = describe(matches.found, settings)
    rejects = [*matches.rejects, *described.rejects]
    if len(described.recordings) + len(rejects) > 1:
        lines.append(f"Recordings  {len(described.recordings):,}, and {len(rejects):,} that cannot be used")
    for recording in described.recordings[:_SHOWN]:
        lines += _show(recording, settings, alone=len(described.recordings) == 1)
    if len(described.recordings) > _SHOWN:
        lines.append(f"…           and {len(described.recordings) - _SHOWN:,} more")
    for reject in rejects[:_SHOWN]:
        where = "" if reject.recording == _file_id(described) else f" ({printable(text(reject.recording))})"
        lines.append(f"Rejected    {reject.reason.value}: {reject.message}{where}")
    return "\n".join(lines)


def _file_id(described: Described) -> bytes | None:
    return described.unread[0][1].recording if described.unread else None


def _show(recording: Recording, settings: Settings, *, alone: bool) -> list[str]:
    description = recording.description
    rate = recording.sample_rate
    lines = [] if alone and description.member is None else [f"Recording   {printable(text(recording.id))}"]
    names = f" ({', '.join(map(printable, description.channel_names))})" if description.channel_names else ""
    channels = f"{description.channels} channel" + ("s" if description.channels > 1 else "")
    parts = ", complex" if description.is_complex else ""
    lines.append(f"Format      {description.format}, {description.dtype}{parts}, {channels}{names}")
    at = f"at {rate:.12g} Hz, {description.frames / rate:.3f} s" if rate else "at a rate that nothing states"
    if rate and description.sample_rate is None:
        at += " (the rate is stated, not in the file)"
    lines.append(f"Samples     {description.frames:,} {at}")
    if recording.unit:
        lines.append(f"Unit        {printable(recording.unit)}")
    if recording.start_time_ns is not None:
        lines.append(f"Start       {to_iso(recording.start_time_ns)}")
    if description.attributes:
        values = ", ".join(f"{key}={value}" for key, value in list(description.attributes.items())[:_SHOWN])
        lines.append(f"Attributes  {printable(values)}")
    count = count_segments(description.frames, settings)
    lines.append(
        f"Segments    {count.used} a channel, of {settings.segment_length} samples every {settings.hop}"
    )
    try:
        lines += _levels(recording, settings)
    except (RejectError, OSError) as error:
        lines.append(f"Unreadable  {error}")
    lines += [f"Warning     {warning}" for warning in description.warnings]
    return lines


def _levels(recording: Recording, settings: Settings) -> list[str]:
    """Range, mean, RMS and strongest lines of each channel; and what is odd about the samples."""
    description = recording.description
    source = dataclasses.replace(recording, sample_rate=recording.sample_rate or 1.0).source()
    count = min(description.frames, _SAMPLES)
    part = "" if count == description.frames else f", in the first {count:,} samples"
    lines, warnings = [], []
    reader = Readers(settings).get(source.format, source.overrides)
    with open_recording(source) as file:
        for channel in range(min(description.channels, _SHOWN)):
            values = np.empty(count, np.complex64 if description.is_complex else np.float32)
            reader.read(file, source.locator, channel, 0, values)
            source.scale(values, channel)
            finite = values[np.isfinite(values)]
            lost = len(values) - len(finite)
            level = _level(finite) if len(finite) else "no finite sample"
            lines.append(f"Channel {channel}   {level}{f', {lost} not finite' if lost else ''}{part}")
            if not lost and recording.sample_rate:
                lines += _peaks(values, recording.sample_rate)
            warnings += _near_epsilon(values, settings)
    warnings += _slow_lengths(recording.sample_rate, settings, is_complex=description.is_complex)
    warnings += [
        warning for warning in [maybe_byteswapped(source, recording.found.show, settings)] if warning
    ]
    return lines + [f"Warning     {warning}" for warning in dict.fromkeys(warnings)]


def _level(samples: np.ndarray) -> str:
    rms = float(np.sqrt(np.mean(np.abs(samples).astype(np.float64) ** 2)))
    reach = f"up to {np.abs(samples).max():.6g} in magnitude"
    if samples.dtype.kind != "c":
        reach = f"from {samples.min():.6g} to {samples.max():.6g}"
    return f"{reach}, mean {samples.mean():.4g}, RMS {rms:.4g}"


def _peaks(values: np.ndarray, sample_rate: float) -> list[str]:
    """The lines of the averaged spectrum (Welch, Hann) that stand out most from what is around them."""
    from scipy import ndimage, signal

    length = min(_PEAK_LENGTH, len(values))
    if length < 256:
        return []
    is_complex = values.dtype.kind == "c"
    wide = values.astype(np.complex128 if is_complex else np.float64)
    _, power = signal.welch(wide, nperseg=length, return_onesided=not is_complex)
    first = -(length // 2) if is_complex else 0
    power = np.fft.fftshift(power) if is_complex else power
    level = 10 * np.log10(power + power.max() * 1e-15 + 1e-300)
    above = level - ndimage.median_filter(level, _AROUND_BINS)
    tops = signal.find_peaks(above[1:-1], height=_STANDS_OUT_DB)[0] + 1
    if not len(tops):
        return ["            no spectral line stands out"]
    lines = []
    for top in sorted(tops[np.argsort(-above[tops], kind="stable")][:_PEAKS].tolist()):
        before, here, after = level[top - 1 : top + 2]
        bend = before - 2 * here + after
        place = (
            first + top + (0.5 * (before - after) / bend if bend else 0.0)
        )  # of the parabola through the three
        lines.append(f"{place * sample_rate / length:,.2f} Hz (+{above[top]:.0f} dB)")
    return [f"            lines that stand out: {', '.join(lines)}"]


def _slow_lengths(sample_rate: float | None, settings: Settings, *, is_complex: bool) -> list[str]:
    """Warnings for FFTs of an awkward length."""
    length, rate = settings.segment_length, sample_rate or 1.0
    try:
        features = features_of(settings, length, rate, is_complex=is_complex)
    except ValueError:  # which `plan` and `extract` refuse
        return []
    found = (slow_length(points) for points in {each.fft_length for each in features.values()} if points)
    return [warning for warning in found if warning]


def _near_epsilon(samples: np.ndarray, settings: Settings) -> list[str]:
    """Warnings for a channel's first segment."""
    segment, length = samples[: settings.segment_length], settings.segment_length
    transform = np.fft.fft if segment.dtype.kind == "c" else np.fft.rfft
    magnitude = np.abs(transform(segment, length))
    warnings = (
        (key, hidden_by(kind.epsilon)(np.log(magnitude + kind.epsilon)))
        for key, kind in feature_settings(settings).items()
        if isinstance(kind, LogSpectrum)
    )
    return [f"{key}: {warning}" for key, warning in warnings if warning]
