"""Frontends: the graph from waveforms to features, the same in the pipeline and in the exported model."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pydantic

from .declare import setting, settings_group, suggest
from .device import load_tensorflow
from .features.base import Band, Feature, FeatureKind, FftLength, TakesComplex, Window
from .features.frames import FRAMED, LogMel, Mfcc, Pcen, Psd, Stft
from .features.signals import OTHERS, EnvelopeSpectrum, Indicators, OctaveBands
from .features.spectrum import ONE_FFT, Cepstrum, Complex, Db, LogSpectrum, Magnitude, Phase, Power
from .normalization import Normalization, normalized
from .schema import RESERVED, FeatureSpec

ALGORITHM_VERSION = 1  # raised when the same settings come to mean other numbers

KINDS: dict[str, Any] = {kind.kind: kind for kind in (*ONE_FFT, *FRAMED, *OTHERS)}
AnyKind = Annotated[
    LogSpectrum
    | Magnitude
    | Power
    | Db
    | Complex
    | Phase
    | Cepstrum
    | Stft
    | Psd
    | LogMel
    | Mfcc
    | Pcen
    | EnvelopeSpectrum
    | OctaveBands
    | Indicators,
    pydantic.Field(discriminator="kind"),
]

_TWO_SIDED = [name for name, kind in KINDS.items() if issubclass(kind, TakesComplex)]
DEFAULT_KEYS = {"log_spectrum": "spectrum"}
FEATURE_FLAGS = ("epsilon", "band", "window", "fft_length", "detrend", "amplitude")


def unknown_kind(kind: Any) -> str:
    """The message for a kind that there is not."""
    return f"there is no kind {kind}{suggest(str(kind), KINDS, ', ')}; there are {', '.join(KINDS)}"


def _kind_of(key: Any, value: Mapping[str, Any]) -> str:
    """The kind that a key of `features` stands for where its settings name none."""
    if "kind" in value or key in KINDS:
        return str(value.get("kind", key))
    kind = next((kind for kind, usual in DEFAULT_KEYS.items() if usual == key), None)
    if kind is None:
        raise ValueError(
            f"{key}: {unknown_kind(key)}; or set its kind, such as {key}: {{kind: log_spectrum}}"
        )
    return kind


@settings_group
class FrontendSettings:
    """Which features, and how they are computed."""

    features: dict[str, AnyKind] | None = setting(
        None,
        f"kinds of features, comma-separated, of {', '.join(KINDS)}; in YAML a mapping from key to kind and settings",
        metavar="KIND,…",
    )
    epsilon: float | None = setting(
        None,
        "added before the logarithm (1e-6), in the kinds that take one; in a YAML mapping of features it stands there",
        ge=1e-37,
        le=1e30,
    )
    band: Band = setting(
        None, "frequencies to keep, low and high in Hz, in the kinds that take a band", metavar="LOW,HIGH"
    )
    window: Window | None = setting(
        None,
        "window of a segment or frame by scipy's name, in the kinds that take one",
        metavar="hann|kaiser:14|…",
    )
    fft_length: FftLength = setting(
        None,
        "points of the FFT, in the kinds that take it; fast: the next length without a prime factor above 5",
        metavar="N|fast",
    )
    detrend: Literal["none", "constant", "linear"] | None = setting(
        None,
        "taken off each segment's real samples: nothing, their mean, or the straight line that fits best",
    )
    amplitude: Literal["none", "peak"] | None = setting(
        None, "peak: spectra read A for a sine of amplitude A; none: the transform as it is"
    )
    precision: Literal["float32", "float64"] = setting(
        "float32", "in which features are computed; they are stored as float32"
    )
    batch_size: int = setting(64, "segments computed at once; the last batch of a shard is padded", ge=1)
    jit: Literal["auto", "on", "off"] = setting("auto", "XLA: auto uses it where a start-up check passes")
    device: Literal["auto", "cpu", "gpu"] = setting("auto", "where the graph runs", content=False)

    @pydantic.field_validator("features", mode="before")
    @classmethod
    def _by_name(cls, features: Any) -> Any:
        if isinstance(features, str):
            features = [kind.strip() for kind in features.split(",") if kind.strip()]
        if isinstance(features, Mapping):  # the key may say the kind
            return {
                key: {"kind": _kind_of(key, value or {})} | dict(value or {})
                if value is None or isinstance(value, Mapping)
                else value
                for key, value in features.items()
            }
        if not isinstance(features, (list, tuple)):
            return features
        for kind in features:
            if kind not in KINDS:
                raise ValueError(unknown_kind(kind))
        if len(set(features)) < len(features):
            raise ValueError(f"{','.join(features)} names a kind twice: give keys of your own in YAML")
        return {DEFAULT_KEYS.get(kind, kind): {"kind": kind} for kind in features}

    @pydantic.model_validator(mode="before")
    @classmethod
    def _no_flags_beside_a_mapping(cls, values: Any) -> Any:
        given = values.kwargs or {}
        flags = [name for name in FEATURE_FLAGS if given.get(name) is not None]
        if isinstance(given.get("features"), Mapping) and flags:
            raise ValueError(
                f"{flags[0]}: is for features that are only named; where features is a mapping, set it in there"
            )
        return values

    @pydantic.field_validator("features")
    @classmethod
    def _key_names(cls, features: Any) -> Any:
        for key in features or ():
            if key in RESERVED or not key.isidentifier() or not key.isascii():
                raise ValueError(
                    f"{key!r} cannot be a feature's key: use letters, digits and _, and none of {sorted(RESERVED)}"
                )
        return features

    @property
    def feature_flags(self) -> dict[str, Any]:
        """The settings of features that are given beside their names."""
        return {name: getattr(self, name) for name in FEATURE_FLAGS if getattr(self, name) is not None}


def feature_settings(settings: FrontendSettings) -> dict[str, Any]:
    """Key to kind, sorted, with the default spectrum where nothing is said.

    Raises:
      ValueError: a setting is given that none of the kinds takes.
    """
    features = {"spectrum": LogSpectrum()} if settings.features is None else settings.features
    flags, taken, changed = settings.feature_flags, set(), {}
    for key, kind in sorted(features.items()):
        own = {each.name for each in dataclasses.fields(kind)} & set(flags)
        taken |= own
        changed[key] = dataclasses.replace(kind, **{name: flags[name] for name in own}) if own else kind
    for name in sorted(set(flags) - taken):
        raise ValueError(f"{name}: none of the features {', '.join(features)} takes it: leave it out")
    return changed


def build_features(
    features: Mapping[str, FeatureKind], segment_length: int, sample_rate: float, *, is_complex: bool = False
) -> dict[str, Feature]:
    """Each feature for segments of this length and rate in Hz, of real or complex samples.

    Raises:
      ValueError: settings that do not go with them; the message names feature, setting, value, rule and cure.
    """
    built = {}
    for key, kind in features.items():
        try:
            built[key] = _build(kind, segment_length, sample_rate, is_complex=is_complex)
        except ValueError as error:
            raise ValueError(f"features.{key}: {error}") from None
    return built


def features_of(
    settings: FrontendSettings,
    segment_length: int,
    sample_rate: float,
    *,
    is_complex: bool = False,
    normalization: Normalization | None = None,
) -> dict[str, Feature]:
    """What the settings ask for, for segments of this length and rate in Hz.

    Args:
      settings: the features.
      segment_length, sample_rate, is_complex: of the segments.
      normalization: key to the statistics by which a feature is normalised.

    Raises:
      ValueError: see `build_features`.
    """
    features = build_features(feature_settings(settings), segment_length, sample_rate, is_complex=is_complex)
    for key, each in (normalization or {}).items():
        features[key] = normalized(features[key], each)
    return features


def _build(kind: Any, segment_length: int, sample_rate: float, *, is_complex: bool) -> Feature:
    if not is_complex:
        return kind.build(segment_length, sample_rate)
    if not isinstance(kind, TakesComplex):
        raise ValueError(
            f"{kind.kind} takes real samples, and these are complex: use one of {', '.join(_TWO_SIDED)}"
        )
    return kind.build(segment_length, sample_rate, is_complex=True)


def feature_specs(features: Mapping[str, Feature]) -> dict[str, FeatureSpec]:
    """Key to shape and type, without TensorFlow."""
    return {key: feature.spec for key, feature in features.items()}


def settings_json(features: Mapping[str, FeatureKind]) -> dict[str, dict]:
    """Key to kind, ε and whatever is not as it is by default, for metadata."""
    stored = {}
    for key, kind in features.items():
        adapter = pydantic.TypeAdapter(type(kind))
        every = adapter.dump_python(kind, mode="json")
        named = {name: every[name] for name in ("kind", "epsilon") if name in every}
        stored[key] = named | adapter.dump_python(kind, mode="json", exclude_defaults=True)
    return stored


def frontend_id(
    features: Mapping[str, FeatureKind],
    segment_length: int,
    sample_rate: float,
    precision: str,
    *,
    is_complex: bool = False,
    normalized_by: str | None = None,
) -> str:
    """Names what is computed: kinds, settings and algorithm version, never a hash of model files."""
    what = {
        "version": ALGORITHM_VERSION,
        "segment_length": segment_length,
        "sample_rate": sample_rate,
        "precision": precision,
        "features": settings_json(features),
        **({"is_complex": True} if is_complex else {}),
        **({"normalized_by": normalized_by} if normalized_by else {}),
    }
    return hashlib.blake2b(json.dumps(what, sort_keys=True).encode(), digest_size=16).hexdigest()


def needs_valid(features: Mapping[str, Feature]) -> bool:
    """Whether any graph tells real samples from padding."""
    return any(feature.needs_valid for feature in features.values())


def compute_features(
    features: Mapping[str, Feature],
    waveform: Any,
    valid: Any = None,
    precision: str = "float32",
    banks: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The graph of every feature.

    Args:
      features: key to feature.
      waveform: float32 or complex64 [batch, segment_length].
      valid: int [batch], samples of each row that are no padding; all of them if not given.
      precision: float32 or float64, in which everything is computed.
      banks: key to filters [bins, bands] that take the place of a feature's own.

    Returns:
      key to [batch, …], in that precision.
    """
    tf = load_tensorflow()
    if waveform.dtype.is_complex:
        precision = {"float32": "complex64", "float64": "complex128"}[precision]
    samples = tf.cast(waveform, precision)
    if valid is None:
        valid = tf.fill([tf.shape(waveform)[0]], waveform.shape[-1])
    own = {key: (bank,) for key, bank in (banks or {}).items()}
    return {key: feature.graph(samples, valid, *own.get(key, ())) for key, feature in features.items()}


def make_module(
    features: Mapping[str, Feature],
    segment_length: int,
    precision: str = "float32",
    *,
    is_complex: bool = False,
) -> Any:
    """A `tf.Module` that maps float32 or complex64 [batch, segment_length] to {key: float32 [batch, …]}.

    `__call__(waveform)` takes every sample for a real one; `with_valid(waveform, valid int64 [batch])` is told how
    many are. The signatures leave the batch axis open, so the module can be saved and serve any batch.
    """
    tf = load_tensorflow()
    dtype = tf.complex64 if is_complex else tf.float32
    waveforms = tf.TensorSpec([None, segment_length], dtype, name="waveform")
    counts = tf.TensorSpec([None], tf.int64, name="valid")

    def compute(waveform: Any, valid: Any) -> dict[str, Any]:
        rows = tf.ensure_shape(waveform, [None, segment_length])  # a signature alone is not held to
        values = compute_features(features, rows, valid, precision)
        return {key: tf.cast(value, tf.float32) for key, value in values.items()}

    class Frontend(tf.Module):
        @tf.function(input_signature=[waveforms], autograph=False)
        def __call__(self, waveform: Any) -> dict[str, Any]:
            return compute(waveform, None)

        @tf.function(input_signature=[waveforms, counts], autograph=False)
        def with_valid(self, waveform: Any, valid: Any) -> dict[str, Any]:
            return compute(waveform, valid)

    return Frontend(name="frontend")


def save_module(module: Any, folder: str, *, with_valid: bool = False) -> None:
    """Writes a SavedModel: serving_default(waveform float32 or complex64 [None, segment_length]) → the feature keys.

    Args:
      module: see `make_module`.
      folder: to be made.
      with_valid: whether it has the signature `with_valid`, too, for features that tell samples from padding.
    """
    tf = load_tensorflow()
    signatures = {"serving_default": module.__call__.get_concrete_function()}
    if with_valid:
        signatures["with_valid"] = module.with_valid.get_concrete_function()
    tf.saved_model.save(module, folder, signatures=signatures)
