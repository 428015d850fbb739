"""Beam options: the local runner by default, and nothing unknown passed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

from .settings import SettingsError, suggest

# "DirectRunner" would first try Prism, a program that it downloads.
LOCAL_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
_LOCAL_NAMES = {None, "", "DirectRunner", "FnApiRunner", "BundleBasedDirectRunner", LOCAL_RUNNER}


def beam_options(
    flags: Sequence[str], mapping: Mapping[str, Any], our_flags: Sequence[str]
) -> PipelineOptions:
    """Options from the YAML's `beam` mapping, with command-line flags above it.

    Raises:
      SettingsError: neither Spectrabeam nor Beam knows a flag or key.
    """
    known = set(PipelineOptions([]).get_all_options())
    for key in mapping:
        if key not in known:
            raise SettingsError(f"beam.{key}: Beam has no such option{suggest(key, known)}")
    _refuse_unknown(flags, known, our_flags)
    options = PipelineOptions([*_as_flags(mapping), *flags])
    if options.get_all_options()["runner"] in _LOCAL_NAMES:
        options = PipelineOptions([*_as_flags(mapping), *flags, f"--runner={LOCAL_RUNNER}"])
    return options


def is_local(options: PipelineOptions) -> bool:
    """Whether everything runs on this machine."""
    return options.get_all_options()["runner"] == LOCAL_RUNNER


def is_in_process(options: PipelineOptions) -> bool:
    """Whether the workers are threads of this process."""
    return is_local(options) and options.get_all_options()["direct_running_mode"] != "multi_processing"


def _refuse_unknown(flags: Sequence[str], known: set[str], our_flags: Sequence[str]) -> None:
    # Beam itself drops what it does not know, with a log line at most.
    understood = PipelineOptions(list(flags)).get_all_options(retain_unknown_options=True) if flags else {}
    unknown = set(understood) - known
    for flag in flags:
        name = flag.lstrip("-").partition("=")[0].replace("-", "_")
        if flag.startswith("--") and (
            name in unknown or (name not in known and name.removeprefix("no_") not in known)
        ):
            candidates = [*our_flags, *("--" + option for option in sorted(known))]
            raise SettingsError(
                f"{flag.partition('=')[0]}: neither Spectrabeam nor Beam has such a flag{suggest(flag.partition('=')[0], candidates)}"
            )
    if flags and not flags[0].startswith("-"):
        raise SettingsError(f"{flags[0]!r}: a value without a flag; inputs are given as --input PATH …")


def _as_flags(mapping: Mapping[str, Any]) -> list[str]:
    flags = []
    for key, value in mapping.items():
        if isinstance(value, bool):
            flags += [f"--{key}"] if value else [f"--no_{key}"] if key.startswith("use_") else []
        elif isinstance(value, list):
            flags += [f"--{key}={item}" for item in value]
        elif value is not None:
            flags.append(f"--{key}={value}")
    return flags
