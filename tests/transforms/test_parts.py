"""A shard's part of the plan: the file gives back what was put in, the digest names what decides the content."""

import dataclasses

import pyarrow as pa
import pytest

from spectrabeam.transforms.dataset import ShardName
from spectrabeam.transforms.elements import Block, Origin, Source
from spectrabeam.transforms.parts import digest, read_part, schema, write_part

SHARD = ShardName("train", 3)
SMALL = pa.struct([("rpm", pa.float32()), ("site", pa.binary())])
VECTORS = pa.struct([("target", pa.list_(pa.float32()))])
SOURCE = Source(b"/data/a/b\xff.raw", b"a/b\xff.raw", "raw", 4096, "at 7", "", 512, 25600.5, (0.5, 2.0))
ORIGIN = Origin(b"old/x.raw", 1, 77)
BLOCK = Block(
    recording=b"a/b\xff.raw",
    source=SOURCE,
    paired=None,
    sample_rate=25600.5,
    channels=(1,),
    start=5 << 32,
    end=6 << 32,
    count=8,
    label=0,
    context={"rpm": 1.5, "site": b"\xff"},
    vectors={"target": (0.5, -1.0)},
    start_time_ns=1_700_000_000_123_456_789,
)


def table(*blocks):
    return pa.Table.from_pylist([dataclasses.asdict(each) for each in blocks], schema(SMALL, VECTORS))


def changed(**values):
    return dataclasses.replace(BLOCK, **values)


def of_source(**values):
    return changed(source=dataclasses.replace(SOURCE, **values))


def test_part_comes_back_as_it_was_written(tmp_path):
    path = str(tmp_path / "000000.parquet")
    plain = dataclasses.replace(SOURCE, factors=())
    blocks = [
        BLOCK,
        changed(
            recording=b"c.raw", source=plain, paired=SOURCE, label=None, start_time_ns=None, origin=ORIGIN
        ),
    ]
    written = write_part(path, SHARD, table(*blocks))
    part = read_part(path)
    assert part.shard == SHARD
    assert part.digest == written == digest(SHARD, table(*blocks))
    assert list(part.blocks()) == blocks


def test_part_without_small_values_and_vectors_comes_back(tmp_path):
    path = str(tmp_path / "000000.parquet")
    bare = changed(context={}, vectors={})
    rows = pa.Table.from_pylist([dataclasses.asdict(bare)], schema(pa.struct([]), pa.struct([])))
    written = write_part(path, SHARD, rows)
    part = read_part(path)
    assert part.digest == written == digest(SHARD, rows)
    assert list(part.blocks()) == [bare]


def test_slice_of_a_plan_has_the_digest_of_its_own_rows():
    others = [
        changed(recording=b"%d.raw" % number, vectors={"target": (number,) * 2}) for number in range(10)
    ]
    others[5] = dataclasses.replace(others[5], paired=SOURCE, origin=ORIGIN, label=None, start_time_ns=None)
    assert digest(SHARD, table(*others).slice(4, 3)) == digest(SHARD, table(*others[4:7]))


@pytest.mark.parametrize(
    "other",
    [
        changed(recording=b"a/c.raw"),
        of_source(name=b"a/c.raw"),
        of_source(size=4097),
        of_source(frames=511),
        of_source(sample_rate=25600.0),
        of_source(format="wav"),
        of_source(overrides='{"scale": 2.0}'),
        of_source(factors=(0.5,)),
        of_source(factors=(2.0, 0.5)),
        of_source(factors=()),
        changed(paired=SOURCE),
        changed(sample_rate=25600.0),
        changed(channels=(0,)),
        changed(channels=(1, 0)),
        changed(channels=(0, 1)),
        changed(start=0),
        changed(end=7 << 32),
        changed(count=7),
        changed(label=1),
        changed(label=None),
        changed(context={"rpm": 1.25, "site": b"\xff"}),
        changed(context={"rpm": 1.5, "site": b""}),
        changed(vectors={"target": (0.5, 1.0)}),
        changed(vectors={"target": (0.5,)}),
        changed(start_time_ns=None),
        changed(start_time_ns=0),
        changed(origin=ORIGIN),
    ],
)
def test_digest_differs_where_the_content_would(other):
    assert digest(SHARD, table(other)) != digest(SHARD, table(BLOCK))


def test_digest_keeps_nothing_and_zero_apart_and_looks_into_the_paired():
    none, zero = changed(start_time_ns=None), changed(start_time_ns=0)
    assert digest(SHARD, table(none)) != digest(SHARD, table(zero))
    one = changed(paired=SOURCE)
    other = changed(paired=dataclasses.replace(SOURCE, size=1))
    assert digest(SHARD, table(one)) != digest(SHARD, table(other))


@pytest.mark.parametrize("other", [of_source(uri=b"/elsewhere/b.raw"), of_source(locator="at 8")])
def test_digest_does_not_depend_on_where_the_samples_lie(other):
    assert digest(SHARD, table(other)) == digest(SHARD, table(BLOCK))


def test_digest_depends_on_the_shard_and_on_the_order_of_its_blocks():
    one, other = changed(recording=b"1"), changed(recording=b"2")
    assert digest(ShardName("train", 4), table(one)) != digest(SHARD, table(one))
    assert digest(ShardName("test", 3), table(one)) != digest(SHARD, table(one))
    assert digest(SHARD, table(one, other)) != digest(SHARD, table(other, one))


def test_digest_keeps_ids_and_lists_apart_that_join_to_the_same():
    pairs = [(b"ab", b"c"), (b"a", b"bc")]
    digests = {digest(SHARD, table(*(changed(recording=name) for name in pair))) for pair in pairs}
    assert len(digests) == 2
    splits = [((0, 1), (2,)), ((0,), (1, 2))]
    digests = {digest(SHARD, table(*(changed(channels=each) for each in split))) for split in splits}
    assert len(digests) == 2
