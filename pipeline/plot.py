"""One example of a dataset as a picture: its features on their axes, and its waveform where it was kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .settings import SettingsError

_WIDTH, _HEIGHT = 10.0, 2.6  # inches, of one panel


def plot_example(values: Mapping[str, Any], metadata: Mapping[str, Any], path: str, title: str) -> None:
    """Writes a picture; its format follows from the name.

    Args:
      values: key to value of one example.
      metadata: the content of spectrabeam.json.
      path: of the picture, such as example.png.
      title: above it.

    Raises:
      SettingsError: matplotlib is not installed, or cannot write such a picture.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise SettingsError("plot: needs matplotlib: pip install 'spectrabeam[plot]'") from None
    keys = [*(["waveform"] if "waveform" in values else []), *metadata["axes"]]
    if not keys:
        raise SettingsError("plot: the example has neither features nor a waveform")
    figure = Figure((_WIDTH, _HEIGHT * len(keys) + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    for panel, key in zip(figure.subplots(len(keys), squeeze=False)[:, 0], keys, strict=True):
        value = np.asarray(values[key])
        if key == "waveform":
            _waveform(panel, value, metadata)
        else:
            _feature(figure, panel, key, value, metadata["axes"][key])
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise SettingsError(f"plot={path} cannot be written: {error}") from None


def _waveform(panel: Any, samples: np.ndarray, metadata: Mapping[str, Any]) -> None:
    if metadata.get("is_complex"):  # both parts as lines; of stacked channels the first
        samples = (samples[0] if samples.ndim > 2 else samples).T
    time = np.arange(samples.shape[-1]) / metadata["sample_rate"]
    panel.plot(time, np.atleast_2d(samples).T, linewidth=0.6)
    panel.set(xlabel="time / s", ylabel=f"waveform / {metadata.get('unit') or '1'}", xlim=(0, time[-1] or 1))


def _feature(figure: Any, panel: Any, key: str, value: np.ndarray, axes: Sequence[Mapping[str, Any]]) -> None:
    """Lines of features with one axis, an image of those with two; of stacked channels all lines, or the first image."""
    labels: Sequence[str] = ()
    if axes[-1]["name"] == "part":
        if len(axes) == 2:
            labels, value = axes[-1]["values"], np.moveaxis(value, -1, 0)
            value = value[:, 0] if value.ndim > 2 else value  # of stacked channels the first
        else:
            value, key = np.hypot(value[..., 0], value[..., 1]), f"|{key}|"
        axes = axes[:-1]
    if len(axes) == 2:
        if value.ndim > 2:
            value, key = value[0], f"{key}, first channel"
        mesh = panel.pcolormesh(
            _places(axes[0]), _places(axes[1]), value.T, shading="nearest", rasterized=True
        )
        panel.set(xlabel=_label(axes[0]), ylabel=_label(axes[1]))
        figure.colorbar(mesh, ax=panel, label=key)
        return
    places, rows = _places(axes[0]), np.atleast_2d(value)
    if isinstance(axes[0].get("values", [0])[0], str):
        panel.bar(axes[0]["values"], rows[0])
    else:
        for row, label in zip(rows, labels or [None] * len(rows), strict=True):
            panel.plot(places, row, linewidth=0.8, label=label)
        if "values" in axes[0]:  # bands, whose widths grow with their frequencies
            panel.set_xscale("log")
    if labels:
        panel.legend()
    panel.set(xlabel=_label(axes[0]), ylabel=key)


def _places(axis: Mapping[str, Any]) -> np.ndarray:
    if "values" in axis:
        values = axis["values"]
        return np.arange(len(values)) if isinstance(values[0], str) else np.asarray(values)
    return axis["first"] + axis["step"] * np.arange(axis["count"])


def _label(axis: Mapping[str, Any]) -> str:
    return f"{axis['name']} / {axis['unit']}" if axis["unit"] else axis["name"]
