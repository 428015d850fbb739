"""The main verb: match, plan, run on Beam, tell what came out."""

from __future__ import annotations

import datetime
import json
import logging
import os
import re
import socket
import time
from typing import Any

from ..transforms import schema
from ..transforms.dataset import Layout, read_json
from ..transforms.metrics import STAGES
from . import folder, progress
from .plan import Plan, plan_inputs
from .settings import Settings, SettingsError
from .summary import extraction_summary


class RunError(Exception):
    """A run that ended without a dataset, with its exit code."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code


def extract(settings: Settings, options: Any) -> str:
    """Makes the dataset.

    Args:
      settings: what to do; input and output are set.
      options: Beam's pipeline options.

    Returns:
      what to tell the user.

    Raises:
      SettingsError, NoMatchError, FolderError: the run cannot start.
      RunError: it ended without a dataset.
    """
    assert settings.output is not None
    layout = Layout(os.path.abspath(settings.output))
    began, started = time.monotonic(), datetime.datetime.now(datetime.timezone.utc)
    folder.refuse_others(layout)
    plan = plan_inputs(settings, layout.root)
    if settings.device == "gpu":
        _require_gpu(options)
    with folder.claim(layout):
        if settings.overwrite:
            folder.clear(layout)
        work = folder.prepare(layout, plan, settings)
        if work.committed:
            return f"nothing to do: {layout.root} holds these {plan.segments:,} segments already{work.note}"
        planned_s = time.monotonic() - began
        error: RunError | None = RunError("interrupted", 1)  # what is told of an attempt that does not end
        try:
            error = _run_beam(layout, plan, work, settings, options)
        finally:
            run = {
                "started": started.isoformat(timespec="seconds"),
                "host": socket.gethostname(),
                "runner": str(options.get_all_options()["runner"]).rsplit(".", 1)[-1],
                "plan_s": round(planned_s, 3),
                "total_s": round(time.monotonic() - began, 3),
                "shards_kept": len(work.kept),
                **_stage_costs(layout, plan, work),
                "outcome": "done" if error is None else f"exit {error.exit_code}: {error}",
            }
            with open(layout.runs, "a", encoding="utf-8") as file:
                file.write(json.dumps(run, sort_keys=True) + "\n")
        if error is not None:
            raise error
        return extraction_summary(read_json(layout.metadata), run, layout)


def _require_gpu(options: Any) -> None:
    """Fails before anything is removed or written, where the workers are in this process."""
    from ..transforms import device
    from .runners import is_in_process

    if is_in_process(options):
        try:
            device.set_up("gpu")
        except RuntimeError as error:
            raise RunError(str(error), 1) from error


def _run_beam(
    layout: Layout, plan: Plan, work: folder.Work, settings: Settings, options: Any
) -> RunError | None:
    import apache_beam as beam

    from .build import build
    from .runners import is_in_process, is_local

    if is_in_process(options):
        from ..transforms import device

        device.load_tensorflow()  # before the bar, since its chatter is kept from stderr
    if is_local(options) and not settings.verbose:  # what fails is told in one line below
        logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    counter = progress.ShardsOnDisk(layout, schema.example_bytes(plan.specs))
    try:
        pipeline = beam.Pipeline(options=options)
    except ValueError as error:  # such as an unknown runner
        raise SettingsError(str(error)) from error
    build(pipeline, layout, plan, work.todo, settings)
    try:
        with progress.shown(counter.examples, plan.segments):
            result = pipeline.run()
            state = str(result.wait_until_finish())
    except Exception as error:
        if _cause(error).startswith("KeyboardInterrupt"):
            raise KeyboardInterrupt from error
        if os.path.exists(layout.outcome):
            return _outcome(layout)
        failure = RunError(f"the pipeline failed: {_cause(error)}", 1)
        failure.__cause__ = error
        return failure
    if os.path.exists(layout.metadata):
        return None
    if os.path.exists(layout.outcome):
        return _outcome(layout)
    return RunError(f"the pipeline ended as {state} without a dataset: see the runner's log", 1)


def _outcome(layout: Layout) -> RunError:
    outcome = read_json(layout.outcome)
    return RunError(outcome["message"], outcome["exit_code"])


def _cause(error: BaseException) -> str:
    """The innermost message; runners wrap a worker's error in their own, as text with its traceback."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    causes = [
        line for line in lines if not line.startswith((" ", "Traceback", "During handling", "The above"))
    ]
    cause = (causes or lines or [type(error).__name__])[-1]
    return re.sub(r" \[while running '.*?'\]$", "", cause)


def _stage_costs(layout: Layout, plan: Plan, work: folder.Work) -> dict[str, Any]:
    """Figures of the shards that this attempt made."""
    totals = dict.fromkeys(STAGES, 0)
    threads: dict[str, int] = {}
    examples = num_bytes = 0
    spans: list[tuple[float, float]] = []
    for number in work.todo:
        path = layout.sidecar(plan.shards[number].name)
        if os.path.exists(path):
            sidecar = read_json(path)
            examples += sidecar["examples"]
            num_bytes += sidecar["bytes"]
            spans.append((sidecar["began_s"], sidecar["began_s"] + sidecar["wall_us"] / 1e6))
            threads = sidecar["threads"]
            for stage in STAGES:
                totals[stage] += sidecar["stage_us"][stage]
    return {
        "examples": examples,
        "bytes_written": num_bytes,
        "shards_s": round(max(end for _, end in spans) - min(begin for begin, _ in spans), 3)
        if spans
        else 0.0,
        "threads": threads,
        "stage_s": {stage: round(us / 1e6, 3) for stage, us in totals.items()},
    }
