"""Beam options: the local runner by default, and nothing unknown passed on."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from apache_beam.options.pipeline_options import PipelineOptions

from ..transforms.declare import suggest
from .settings import SettingsError

# "DirectRunner" would first try Prism, a program that it downloads.
LOCAL_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
_LOCAL_NAMES = {
    "",
    "direct",
    "directrunner",
    "fnapi",
    "fnapirunner",
    LOCAL_RUNNER.lower(),
}  # Beam looks at no case


def beam_options(
    flags: Sequence[str], mapping: Mapping[str, Any], our_flags: Sequence[str]
) -> PipelineOptions:
    """Options from the YAML's `beam` mapping, with command-line flags above it.

    Raises:
      SettingsError: neither Spectrabeam nor Beam knows a flag or key.
    """
    parser = _beam_parser()
    switched_off = {
        option.removeprefix("--no_"): option
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--no_")
    }
    known = {action.dest for action in parser._actions}
    for key in mapping:
        if key not in known:
            raise SettingsError(f"beam.{key}: Beam has no such option{suggest(key, known)}")
    # Beam itself drops what it does not know, with a log line at most.
    _, unknown = parser.parse_known_args(list(flags))
    if unknown and not unknown[0].startswith("-"):
        raise SettingsError(f"{unknown[0]!r}: a value without a flag; inputs are given as --input PATH …")
    if unknown:
        flag = unknown[0].partition("=")[0]
        candidates = [*our_flags, *(option for action in parser._actions for option in action.option_strings)]
        raise SettingsError(
            f"{flag}: neither Spectrabeam nor Beam has such a flag{suggest(flag, candidates)}"
        )
    arguments = [*_as_flags(mapping, switched_off), *flags]
    options = PipelineOptions(arguments)
    if str(options.get_all_options()["runner"] or "").lower() in _LOCAL_NAMES:
        options = PipelineOptions([*arguments, f"--runner={LOCAL_RUNNER}"])
    return options


def _beam_parser() -> argparse.ArgumentParser:
    """Every option that Beam knows, its add-ons' included, as they declare them."""
    parser = _Parser(allow_abbrev=False, add_help=False, conflict_handler="resolve")
    for options in PipelineOptions.__subclasses__():
        options._add_argparse_args(parser)  # type: ignore[arg-type]
    return parser


class _Parser(argparse.ArgumentParser):
    """argparse, but for what Beam's declarations ask of their parser, and with errors of ours."""

    def add_value_provider_argument(self, *names: str, **options: Any) -> None:
        """A template's argument; here it is an argument like any other."""
        self.add_argument(*names, **options)

    def error(self, message: str) -> NoReturn:
        """A flag of Beam's without its value, or with a wrong one."""
        raise SettingsError(message)


def is_local(options: PipelineOptions) -> bool:
    """Whether everything runs on this machine."""
    return options.get_all_options()["runner"] == LOCAL_RUNNER


def is_in_process(options: PipelineOptions) -> bool:
    """Whether the workers are threads of this process."""
    return is_local(options) and options.get_all_options()["direct_running_mode"] != "multi_processing"


def _as_flags(mapping: Mapping[str, Any], switched_off: Mapping[str, str]) -> list[str]:
    """The mapping as command-line flags; a switch that is false becomes its --no_… flag where there is one."""
    flags = []
    for key, value in mapping.items():
        if value is True:
            flags.append(f"--{key}")
        elif value is False:
            flags += [switched_off[key]] if key in switched_off else []
        elif isinstance(value, list):
            flags += [f"--{key}={item}" for item in value]
        elif value is not None:
            flags.append(f"--{key}={value}")
    return flags
