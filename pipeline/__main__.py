"""The command line: parses, calls a verb, turns errors into one line and an exit code."""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from ..transforms.dataset import DatasetError
from ..transforms.imports import uncollected
from .config import add_flags, load_settings
from .folder import FolderError
from .manifest import ManifestError
from .match import REMOTE, NoMatchError
from .settings import SettingsError
from .splits import SplitError

_USAGE_ERRORS = (SettingsError, NoMatchError, ManifestError, SplitError, FolderError, DatasetError)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{message}: see {self.prog} --help")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb and returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    try:
        return _run(arguments)
    except _USAGE_ERRORS as error:
        return _fail(error, 2)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        goes_on = "extract" in arguments and not any(item.startswith("--overwrite") for item in arguments)
        return _fail("interrupted" + (": start the same command again to go on" if goes_on else ""), 1)
    except Exception as error:
        return _fail(error, getattr(error, "exit_code", 1))


def _fail(error: BaseException | str, exit_code: int) -> int:
    if isinstance(error, BaseException) and logging.getLogger().isEnabledFor(logging.INFO):
        logging.getLogger(__name__).error("traceback", exc_info=error)
    message = str(error) or type(error).__name__
    if isinstance(error, BaseException) and exit_code == 1 and not hasattr(error, "exit_code"):
        message = f"{type(error).__name__}: {message}"
    print(f"spectrabeam: error: {' '.join(message.split())}", file=sys.stderr)
    return exit_code


def _run(arguments: list[str]) -> int:
    code = _run_verb(arguments)
    sys.stdout.flush()
    return code


def _run_verb(arguments: list[str]) -> int:
    parser = _parser()
    known, rest = parser.parse_known_args(_joined([_dashed(argument) for argument in arguments]))
    verb = known.verb
    _set_verbose(getattr(known, "verbose", False) in (True, "true"))
    if verb not in ("extract", "plan") and rest:
        raise SettingsError(f"{rest[0]}: {verb} takes no such argument: see spectrabeam {verb} --help")
    if verb in ("extract", "plan"):
        return _extract_or_plan(known, rest)
    if verb == "sample":
        from .sample import write_sample

        print(write_sample(known.output, known.count, known.seed))
        return 0
    if verb == "inspect":
        from .inspection import inspect

        print(inspect(known))
        return 0
    from .verify import verify

    problems, text = verify(known.dataset)
    print(text)
    return 1 if problems else 0


def _set_verbose(verbose: bool) -> None:
    logging.getLogger().setLevel(logging.INFO if verbose else logging.WARNING)


def _extract_or_plan(known: argparse.Namespace, rest: list[str]) -> int:
    verb = known.verb
    del known.verb
    settings = load_settings(known)
    _set_verbose(settings.verbose)
    options = _beam_options(rest, settings) if verb == "extract" or rest or settings.beam else None
    if not settings.input and settings.manifest is None:
        raise SettingsError("input is not set: name folders, files or globs, such as --input recordings/")
    _check_output(settings.output, needed=verb == "extract")
    if verb == "plan":
        from .estimate import describe_plan

        print(describe_plan(settings))
        return 0
    from .extract import extract

    print(extract(settings, options))
    return 0


def _check_output(output: str | None, *, needed: bool) -> None:
    if not output:
        if needed:
            raise SettingsError("output is not set: name the dataset's folder, such as --output features/")
        return
    if REMOTE.match(output):
        raise SettingsError(f"output={output} is no local path: object stores cannot be written yet")
    if any("\udc80" <= character <= "\udcff" for character in output):  # how Python holds other bytes
        raise SettingsError(
            f"output={output!r} is not UTF-8, which Parquet asks of paths: choose another name"
        )


def _beam_options(rest: list[str], settings):
    with uncollected():
        from .runners import beam_options

    return beam_options(rest, settings.beam, _our_flags())


def _our_flags() -> list[str]:
    parser = argparse.ArgumentParser(add_help=False)
    add_flags(parser)
    return [flag for action in parser._actions for flag in action.option_strings]


def _dashed(argument: str) -> str:
    """Our own flags may come with any mixture of dashes and underscores."""
    name, equals, value = argument.partition("=")
    dashed = name.replace("_", "-")
    return dashed + equals + value if name.startswith("--") and dashed in _DASHED_FLAGS else argument


def _joined(arguments: list[str]) -> list[str]:
    """A band that begins below 0 as one word, since argparse takes it for a flag."""
    joined: list[str] = []
    for argument in arguments:
        before = joined[-1] if joined else ""
        if before == "--band" and _NEGATIVE.match(argument):
            joined[-1] = f"--band={argument}"
        elif before.startswith("--band=-") and "," not in before and _NUMBER.fullmatch(argument):
            joined[-1] += f",{argument}"
        else:
            joined.append(argument)
    return joined


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="spectrabeam",
        description="Turns archives of raw waveforms into training-ready spectra.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=importlib.metadata.version("spectrabeam"))
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=_Parser)
    beam_note = "Beam's own options, such as --runner, are passed on."
    for verb, help_text in (
        ("extract", "make a dataset of features from waveform files"),
        ("plan", "say what extract would do, and write nothing"),
    ):
        sub = verbs.add_parser(
            verb, help=help_text, description=help_text, epilog=beam_note, allow_abbrev=False
        )
        add_flags(sub)
    sub = verbs.add_parser(
        "inspect", help="show a dataset, or what is read of a waveform file", allow_abbrev=False
    )
    sub.add_argument("path", metavar="DATASET|FILE")
    sub.add_argument(
        "--example", type=int, metavar="K", help="of a dataset, the example of this number, from 0 on"
    )
    sub.add_argument("--plot", metavar="FILE.png", help="draw that example, or the first one")
    add_flags(sub)
    sub = verbs.add_parser("verify", help="read a dataset back and check everything", allow_abbrev=False)
    sub.add_argument("dataset", metavar="DATASET")
    sub.add_argument("--verbose", action="store_true", help="show tracebacks")
    sub = verbs.add_parser(
        "sample", help="write simulated bearing vibration to try things with", allow_abbrev=False
    )
    sub.add_argument("--output", required=True, metavar="DIR", help="folder to fill")
    sub.add_argument("--count", type=int, default=2000, metavar="N", help="waveform files (default: 2000)")
    sub.add_argument("--seed", type=int, default=0, metavar="SEED", help="of the noise (default: 0)")
    sub.add_argument("--verbose", action="store_true", help="show tracebacks")
    return parser


_NEGATIVE, _NUMBER = re.compile(r"-[\d.]"), re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?")
_DASHED_FLAGS = set(_our_flags())
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

if __name__ == "__main__":
    sys.exit(main())
