"""What one would write instead: three programs for the same job, each on one folder.

    python benchmarks/baselines loop RAW_DIR OUT_DIR      numpy, one file after another, an .npy file each
    python benchmarks/baselines tfdata RAW_DIR OUT_DIR    tf.data, MirroredStrategy, tf.train.Example
    python benchmarks/baselines beam RAW_DIR OUT_DIR      ReadMatches, BatchElements, a DoFn, WriteToTFRecord

RAW_DIR holds headerless little-endian float32 files `*.raw` of 16384 samples. The last line printed is
`NAME examples seconds examples/s`; imports and the listing of the folder are not in these seconds.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from pathlib import Path

MODULES = {"loop": "numpy_loop", "tfdata": "tf_data", "beam": "plain_beam"}


def main(name: str, raw: Path, out: Path) -> None:
    """Runs one baseline and prints what it did in which time."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    extract = importlib.import_module(MODULES[name]).extract
    files = sorted(raw.glob("*.raw"))
    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    examples = extract(files, out)
    seconds = time.perf_counter() - began
    print(f"{name} {examples} {seconds:.3f} {examples / seconds:.0f}")


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in MODULES:
        sys.exit(__doc__)
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
