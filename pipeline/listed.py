"""The recordings that a manifest lists: opened literally, beside what the inputs hold."""

from __future__ import annotations

import dataclasses
import os
import stat
from collections.abc import Iterable, Sequence

from ..transforms.files import NO_FILE, folder_size
from ..transforms.formats.base import ReadSettings
from ..transforms.formats.choose import READERS, format_by_name
from ..transforms.rejects import Reason, Reject, text
from .match import Found, Matches, NoMatchError, match, split_name


def match_listed(
    names: Iterable[str],
    inputs: tuple[str, ...],
    beside: str,
    settings: ReadSettings,
    output: str | None = None,
) -> Matches:
    """Finds the recordings that a manifest lists, and counts what lies under the inputs beside them.

    Args:
      names: paths as the manifest has them: absolute, or relative to an input or, without one, to the manifest.
      inputs: folders, files or globs; may be empty.
      beside: the manifest's folder.
      settings: which formats to look for.
      output: a folder to leave out.

    Raises:
      NoMatchError: see `match`.
    """
    matched = match(inputs, settings, output, may_be_empty=True) if inputs else Matches([], [], {})
    by_id = {found.recording: found for found in matched.found}
    by_uri = {found.uri: found for found in matched.found}
    roots = [split_name(given) for given in inputs if os.path.isdir(split_name(given)[1])] or [("", beside)]
    found, rejects = [], []
    for name in names:
        known = by_id.get(os.fsencode(name)) or by_uri.get(os.fsencode(name))
        if known is None:
            known = _locate(name, [path for _, path in roots], settings)
        if isinstance(known, Found):
            found.append(dataclasses.replace(known, listed_as=name))
        else:
            rejects.append(known)
    listed = {item.uri for item in found}
    rest = sum(1 for item in matched.found if item.uri not in listed)
    left_out = {**matched.left_out, **({"files not in the manifest": rest} if rest else {})}
    found.sort(key=lambda item: item.recording)
    rejects.sort(key=lambda reject: reject.recording)
    return Matches(found, rejects, dict(sorted(left_out.items())))


def refuse_aliases(found: Sequence[Found]) -> None:
    """One file under two names would be two recordings of the same samples.

    Raises:
      NoMatchError: there is one.
    """
    names: dict[bytes, str] = {}
    for item in found:
        name = str(item.listed_as)
        other = names.setdefault(os.path.realpath(item.uri), name)
        if other != name:
            raise NoMatchError(f"the manifest names one file as {other} and as {name}: write its uri one way")


def _locate(name: str, roots: Sequence[str], settings: ReadSettings) -> Found | Reject:
    """A file by its literal path."""
    path = os.fsencode(name)
    tried = (
        [path]
        if os.path.isabs(path)
        else [os.path.join(os.fsencode(os.path.abspath(root)), path) for root in roots]
    )
    recording = path.lstrip(b"/")
    for uri in tried:
        root = b"/" if os.path.isabs(path) else uri[: len(uri) - len(path)]
        try:
            status = os.stat(uri)
        except (OSError, ValueError):  # a NUL in the name is a ValueError
            continue
        format_name = format_by_name(uri, settings)
        if format_name is None and settings.input_format != "auto":
            format_name = settings.input_format
        is_folder = format_name is not None and READERS[format_name].takes_folder
        if not (stat.S_ISREG(status.st_mode) or (is_folder and stat.S_ISDIR(status.st_mode))):
            return Reject(recording, "match", Reason.NOT_A_FILE, NO_FILE)
        size = folder_size(uri) if is_folder else status.st_size
        return Found(recording, uri, size, status.st_mtime_ns, format_name, root)
    places = " or ".join(text(uri) for uri in tried)
    return Reject(
        recording,
        "match",
        Reason.NOT_FOUND,
        f"the manifest names it, and there is no {places}: correct its uri",
    )
