"""A shard's part of the plan: the file gives back what was put in, the digest names what decides the content."""

import pyarrow as pa
import pytest

from spectrabeam.transforms.dataset import ShardName
from spectrabeam.transforms.elements import Block
from spectrabeam.transforms.parts import SCHEMA, digest, read_part, write_part

SHARD = ShardName("train", 3)
ROW = {
    "recording": b"a/b\xff.raw",
    "uri": b"/data/a/b\xff.raw",
    "format": "raw",
    "size": 4096,
    "channels": 2,
    "frames": 512,
    "sample_rate": 25600.5,
    "channel": 1,
    "start": 5 << 32,
    "count": 8,
    "label": 0,
}


def table(*rows):
    return pa.Table.from_pylist(list(rows), SCHEMA)


def test_part_comes_back_as_it_was_written(tmp_path):
    path = str(tmp_path / "000000.parquet")
    rows = [ROW, ROW | {"recording": b"c.raw", "label": None}]
    written = write_part(path, SHARD, table(*rows))
    part = read_part(path)
    assert part.shard == SHARD
    assert part.digest == written == digest(SHARD, table(*rows))
    assert part.blocks == [Block(**row) for row in rows]


def test_slice_of_a_plan_has_the_digest_of_its_own_rows():
    others = [ROW | {"recording": b"%d.raw" % number} for number in range(10)]
    assert digest(SHARD, table(*others).slice(4, 3)) == digest(SHARD, table(*others[4:7]))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("recording", b"a/c.raw"),
        ("size", 4097),
        ("channels", 1),
        ("frames", 511),
        ("sample_rate", 25600.0),
        ("channel", 0),
        ("start", 0),
        ("count", 7),
        ("label", 1),
        ("label", None),
    ],
)
def test_digest_differs_where_the_content_would(key, value):
    assert digest(SHARD, table(ROW | {key: value})) != digest(SHARD, table(ROW))


@pytest.mark.parametrize(("key", "value"), [("uri", b"/elsewhere/b.raw")])
def test_digest_does_not_depend_on_where_the_files_lie(key, value):
    assert digest(SHARD, table(ROW | {key: value})) == digest(SHARD, table(ROW))


def test_digest_depends_on_the_shard_and_on_the_order_of_its_blocks():
    one, other = ROW | {"recording": b"1"}, ROW | {"recording": b"2"}
    assert digest(ShardName("train", 4), table(one)) != digest(SHARD, table(one))
    assert digest(ShardName("test", 3), table(one)) != digest(SHARD, table(one))
    assert digest(SHARD, table(one, other)) != digest(SHARD, table(other, one))


def test_digest_keeps_ids_apart_that_join_to_the_same_bytes():
    pairs = [(b"ab", b"c"), (b"a", b"bc")]
    digests = {digest(SHARD, table(*(ROW | {"recording": name} for name in pair))) for pair in pairs}
    assert len(digests) == 2
