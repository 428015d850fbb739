"""Splits: by hash of the group, by value, by time, stratified, as the manifest says; and what is told of them."""

import hashlib
import itertools
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from spectrabeam.pipeline.cut import cut_all
from spectrabeam.pipeline.labels import Facts
from spectrabeam.pipeline.settings import SettingsError
from spectrabeam.pipeline.splits import SplitError, assign_splits
from spectrabeam.transforms.segment import SegmentSettings, count_segments
from tests.helpers.plans import SEGMENT_LENGTH as L
from tests.helpers.plans import found, names, plan, settings, split_of
from tests.helpers.recordings import recording
from tests.helpers.settings import load

DAY_NS = 86_400 * 10**9
BY_PATH = r"path:^(?P<speaker>[a-z]+)/(?P<load>\d)"


def assign(recordings, **values):
    chosen = settings(**values)
    return assign_splits(recordings, Facts(chosen).fields, chosen, sample_rate=1000.0, gap=0)


def splits_by_id(recordings, **values):
    result = assign(recordings, **values)
    return {
        each.id.decode(): result.names[split] for each, split in zip(recordings, result.split_of, strict=True)
    }


def test_splits_get_their_share_of_the_recordings():
    assigned = list(split_of(plan(found(*names(4000)))).values())
    for split, share in (("train", 0.8), ("validation", 0.1), ("test", 0.1)):
        spread = np.sqrt(share * (1 - share) * 4000)  # of a binomial distribution
        assert abs(assigned.count(split) - share * 4000) < 4 * spread


def test_split_of_a_recording_does_not_depend_on_the_others_nor_on_its_place_or_size():
    whole = split_of(plan(found(*names(200))))
    some = split_of(plan(found(*names(200)[::3], frames=3 * L), num_shards=7, shard_size=1000))
    assert some == {name: whole[name] for name in some}


def by_hand(name, seed, fractions):
    """The split that datasets made so far have: the hash as a fraction, the names in alphabetical order."""
    text = unicodedata.normalize("NFC", name)
    digest = hashlib.blake2b(b"split:%d\0" % seed + text.encode(), digest_size=8).digest()
    place, upto = int.from_bytes(digest, "big") / 2.0**64, 0.0
    for split in sorted(fractions):
        upto += fractions[split]
        if place < upto:
            return split
    return max(fractions)


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize(
    "fractions",
    [{"train": 0.8, "validation": 0.1, "test": 0.1}, {"b": 0.25, "a": 0.25, "c": 0.5}, {"all": 1.0}],
)
def test_splits_by_hash_are_those_of_datasets_made_so_far(seed, fractions):
    ids = [*names(300), *(f"day{number}/é{number}.raw" for number in range(50))]
    assigned = splits_by_id([recording(name) for name in ids], splits=fractions, seed=seed)
    assert assigned == {name: by_hand(name, seed, fractions) for name in ids}


def test_composed_and_decomposed_names_fall_into_the_same_split():
    composed, decomposed = [f"caf\u00e9{number}.raw" for number in range(60)], []
    decomposed = [name.replace("\u00e9", "e\u0301") for name in composed]
    one, other = split_of(plan(found(*composed))), split_of(plan(found(*decomposed)))
    assert [one[name] for name in composed] == [other[name] for name in decomposed]
    assert len(set(one.values())) > 1


def test_members_of_a_file_stay_together_unless_recordings_may_part():
    members = [recording(f"{file}.h5", member=str(number)) for file in "abcdef" for number in range(30)]
    together = splits_by_id(members)
    of_file = {}
    for name, split in together.items():
        of_file.setdefault(name.partition("//")[0], set()).add(split)
    assert {len(each) for each in of_file.values()} == {1}
    apart = splits_by_id(members, split_by="recording")
    assert apart == {name: by_hand(name, 0, settings().splits) for name in apart}
    assert len({split for name, split in apart.items() if name.startswith("a.h5")}) > 1


def test_recordings_of_equal_fields_stay_together():
    recordings = [
        recording(f"{speaker}/{load}x{n}.raw")
        for speaker in ("ann", "bob", "eve")
        for load in range(9)
        for n in range(5)
    ]
    for split_by in ("speaker", "speaker,load"):
        assigned = splits_by_id(recordings, split_by=split_by, fields_from=BY_PATH)
        keys = {}
        for name, split in assigned.items():
            speaker, _, rest = name.partition("/")
            keys.setdefault((speaker, rest[0] if "," in split_by else ""), set()).add(split)
        assert {len(each) for each in keys.values()} == {1}
        assert len(keys) == (3 if split_by == "speaker" else 27)
    assert len(set(assigned.values())) == 3


def test_groups_of_a_manifest_stay_together():
    recordings = [recording(name, said={"group": f"g{number % 5}"}) for number, name in enumerate(names(100))]
    result = assign(recordings)
    assert result.groups[:5] == [b"g0", b"g1", b"g2", b"g3", b"g4"]
    of_group = {}
    for group, split in zip(result.groups, result.split_of.tolist(), strict=True):
        of_group.setdefault(group, set()).add(split)
    assert {len(each) for each in of_group.values()} == {1}


def test_values_come_first_and_the_rest_is_shared_by_hash():
    recordings = [
        recording(f"{speaker}/{load}x{n}.raw")
        for speaker in ("ann", "bob")
        for load in range(4)
        for n in range(50)
    ]
    splits = {
        "test": {"load": [3], "speaker": "bob"},
        "odd": {"load": ["1", "3"]},
        "train": 0.9,
        "validation": 0.1,
    }
    assigned = splits_by_id(recordings, splits=splits, fields_from=BY_PATH)
    rest = {"train": 0.9, "validation": 0.1}
    for name, split in assigned.items():
        speaker, load = name.split("/")[0], name.split("/")[1][0]
        if load == "3" and speaker == "bob":
            assert split == "test"
        elif load in "13":
            assert split == "odd"
        else:
            assert split == by_hand(name, 0, rest)


@pytest.mark.parametrize("wanted", [3, "3", 3.0])
def test_numbers_of_files_and_of_settings_are_the_same_value(wanted):
    recordings = [
        recording("a", attributes={"load": 3.0}),
        recording("b", attributes={"load": 3}),
        recording("c", fields={"load": "4"}),
    ]
    assert splits_by_id(recordings, splits={"test": {"load": [wanted]}, "train": 1.0}) == {
        "a": "test",
        "b": "test",
        "c": "train",
    }


def test_labels_and_groups_are_fields_too():
    recordings = [recording("a", label="x"), recording("b", label="y")]
    assert splits_by_id(recordings, splits={"test": {"label": "x"}, "train": 1.0}) == {
        "a": "test",
        "b": "train",
    }


def test_the_split_of_a_manifest_stands_before_everything():
    recordings = [
        recording(name, said={"split": split}) for name, split in (("a", "dev"), ("b", None), ("c", "train"))
    ]
    result = assign(recordings, splits={"train": 1.0})
    assert result.names == ["dev", "train"]
    assert [result.names[split] for split in result.split_of] == ["dev", "train", "train"]


def test_where_the_manifest_decides_all_only_its_splits_are_there():
    recordings = [recording("a", said={"split": "fold1"}), recording("b", said={"split": "fold2"})]
    assert assign(recordings).names == ["fold1", "fold2"]


@pytest.mark.parametrize("name", ["../up", "a b", "0", "x" * 65, "a-b", "é"])
def test_a_split_of_a_manifest_that_cannot_be_a_name_is_refused(name):
    with pytest.raises(ValueError, match="cannot be a split's name"):
        assign([recording("a", said={"split": name})])


def test_groups_that_are_torn_are_a_warning():
    torn = [recording("a", said={"split": "test", "group": "g"}), recording("b", said={"group": "g"})]
    whole = [
        recording("a", said={"split": "test", "group": "g"}),
        recording("b", said={"split": "test", "group": "g"}),
    ]
    (warning,) = assign(torn).warnings
    assert warning.startswith("1 group")
    assert (
        "in several splits, such as g in test, train: the manifest's split column or the values of" in warning
    )
    assert assign(whole).warnings == []
    apart = [recording(name, said={"split": name, "group": "g"}) for name in ("x", "y")]
    assert "such as g in x, y: " in assign(apart).warnings[0]


def test_a_group_that_is_fixed_for_one_and_open_for_others_is_not_called_torn_where_the_hash_agrees():
    for name in names(20):
        mates = [
            recording(name, said={"split": "train", "group": name}),
            recording("b", said={"group": name}),
        ]
        result = assign(mates)
        same = len(set(result.split_of.tolist())) == 1
        assert (result.warnings == []) == same


def test_a_missing_field_is_an_error_that_names_the_others():
    recordings = [recording("ann/1.raw"), recording("odd.raw", attributes={"rpm": 5})]
    with pytest.raises(SplitError) as caught:
        assign(recordings, split_by="speaker", fields_from=BY_PATH)
    assert str(caught.value) == (
        "odd.raw has no field speaker, which splits need: name one of rpm, or get it by fields_from=path:REGEX or a "
        "manifest"
    )
    with pytest.raises(
        SplitError, match="a has no field x, which splits need: name one of none, or get it by"
    ):
        assign([recording("a")], splits={"test": {"x": 1}, "train": 1.0})


def test_recordings_that_fall_into_no_split_are_an_error():
    recordings = [recording("a", label="x"), recording("b", label="y")]
    with pytest.raises(
        SplitError, match=r"1 recordings? falls? into no split, such as b: add a split with a fraction"
    ):
        assign(recordings, splits={"test": {"label": "x"}})


def test_stratified_splits_keep_their_fractions_for_every_label():
    sizes = {"rare": 10, "usual": 200, "odd": 37}
    recordings = [
        recording(f"{label}/{n}", label=label) for label, size in sizes.items() for n in range(size)
    ]
    assigned = splits_by_id(recordings, stratify=True)
    for label, size in sizes.items():
        own = [split for name, split in assigned.items() if name.startswith(label)]
        for split, share in settings().splits.items():
            assert abs(own.count(split) - share * size) <= 1
    other = splits_by_id(recordings, stratify=True, seed=1)
    assert other != assigned


def test_stratified_splits_need_labels_of_those_that_are_shared_and_no_time():
    with pytest.raises(
        SplitError, match="stratify shares each label's groups, and there are no labels: set "
    ):
        assign([recording("a")], stratify=True)
    with pytest.raises(SettingsError, match="stratify: split_by=time gives every group to all splits"):
        load("--stratify", "true", "--split-by", "time")


def test_stratify_is_no_error_where_the_manifest_decides_all():
    rows = [
        recording("a", label="x", said={"split": "test"}),
        recording("b", label="y", said={"split": "dev"}),
    ]
    assert assign(rows, stratify=True).names == ["dev", "test"]


def test_stratified_groups_stay_together_under_their_commonest_label():
    recordings = [
        recording(f"{group}/{n}", label="xy"[(group + (n == 0)) % 2], said={"group": str(group)})
        for group in range(40)
        for n in range(3)
    ]
    result = assign(recordings, stratify=True, splits={"a": 0.5, "b": 0.5})
    of_group = {}
    for group, split in zip(result.groups, result.split_of.tolist(), strict=True):
        of_group.setdefault(int(group), set()).add(split)
    assert {len(each) for each in of_group.values()} == {1}
    for parity in (0, 1):
        assert sum(0 in split for group, split in of_group.items() if group % 2 == parity) == 10


def segments(recordings, rate=1000.0, **values):
    """(recording, split, first and last sample + 1) of every segment, of recordings cut by time."""
    chosen = settings(split_by="time", **values)
    fields = Facts(chosen).fields
    result = assign_splits(recordings, fields, chosen, sample_rate=rate, gap=chosen.segment_length)
    cuts = cut_all(recordings, result, [], rate, chosen)
    found_ = []
    columns = (cuts.owner, cuts.split, cuts.starts, cuts.counts)
    for owner, split, start, count in zip(*(each.tolist() for each in columns), strict=True):
        for number in range(count):
            first = start + number * chosen.hop
            end = min(first + chosen.segment_length, int(cuts.ends[owner]))
            found_.append((owner, result.names[split], first, end))
    return sorted(found_), cuts, result


@hypothesis_settings(max_examples=150, deadline=None)
@given(
    frames=st.lists(st.integers(1, 5000), min_size=1, max_size=4),
    hop=st.integers(1, 150),
    fractions=st.sampled_from(
        [{"train": 0.8, "test": 0.2}, {"b": 0.3, "a": 0.3, "c": 0.4}, {"x": 0.999, "y": 0.001}]
    ),
    gaps=st.lists(st.integers(0, 3000), min_size=4, max_size=4),
    timed=st.booleans(),
)
def test_splits_by_time_follow_one_another_with_a_segment_of_gap(frames, hop, fractions, gaps, timed):
    recordings, begin = [], 0
    for number, (length, gap) in enumerate(zip(frames, gaps, strict=False)):
        start_ns = (begin + gap) * 10**6 if timed else None  # 1000 Hz: a sample is a million ns
        recordings.append(
            recording(f"{number}.raw", frames=length, start_time_ns=start_ns, said={"group": "g"})
        )
        begin += length + (gap if timed else 0)
    found_, cuts, _ = segments(recordings, hop_length=hop, splits=fractions)
    offsets = np.cumsum([0, *frames])
    if timed:
        times = np.array([each.description.start_time_ns // 10**6 for each in recordings])
        offsets = times - times[0]
    spans = {}
    for owner, split, first, end in found_:
        low, high = spans.get(split, (np.inf, -np.inf))
        spans[split] = (min(low, offsets[owner] + first), max(high, offsets[owner] + end))
    order = [split for split in fractions if split in spans]
    for before, after in itertools.pairwise(order):
        assert spans[after][0] - spans[before][1] >= L  # the gap, so no sample is in two splits
    left = cuts.left_out.get("segments between two splits", 0)
    rule = SegmentSettings(segment_length=L, hop_length=hop)
    assert len(found_) + left == sum(count_segments(length, rule).total for length in frames)
    assert {owner for owner, *_ in found_} | {int(each.recording[:1]) for each in cuts.rejects} == set(
        range(len(recordings))
    )


def test_a_recording_cut_by_time_has_its_fractions():
    found_, cuts, result = segments([recording(frames=1000 * L)], splits={"train": 0.8, "test": 0.2})
    test, train = 0, 1
    assert result.names == ["test", "train"]
    assert dict(result.ranges) == {0: [(train, None, 800 * L), (test, 801 * L, None)]}
    counts = {split: sum(each[1] == split for each in found_) for split in ("train", "test")}
    assert counts == {"train": 800, "test": 199}
    assert cuts.left_out == {"segments between two splits": 1}


def test_files_of_a_group_follow_one_another_by_start_time_or_by_id():
    days = [
        recording("b", frames=10 * L, start_time_ns=0, said={"group": "g"}),
        recording("a", frames=10 * L, start_time_ns=DAY_NS, said={"group": "g"}),
    ]
    found_, _, _ = segments(days, splits={"train": 0.5, "test": 0.5})
    assert {(owner, split) for owner, split, _, _ in found_} == {(0, "train"), (1, "test")}
    undated = [
        recording("b", frames=10 * L, said={"group": "g"}),
        recording("a", frames=10 * L, said={"group": "g"}),
    ]
    found_, _, _ = segments(undated, splits={"train": 0.5, "test": 0.5})
    assert {(owner, split) for owner, split, _, _ in found_} == {(1, "train"), (0, "test")}


def test_channels_of_one_file_that_are_rows_of_a_manifest_are_cut_at_the_same_time():
    rows = [recording("a", id=b"a//%d" % n, frames=100 * L) for n in range(2)]
    found_, _, _ = segments(rows, splits={"train": 0.5, "test": 0.5})
    one, other = ([each[1:] for each in found_ if each[0] == owner] for owner in (0, 1))
    assert one == other
    assert len(one) == 99


def test_files_can_be_cut_by_time_each_on_its_own():
    rows = [recording(name, frames=10 * L) for name in "ab"]
    chosen = settings(split_by="file,time", splits={"train": 0.5, "test": 0.5})
    result = assign_splits(rows, Facts(chosen).fields, chosen, sample_rate=1000.0, gap=L)
    test, train = 0, 1
    assert dict(result.ranges) == {key: [(train, None, 5 * L), (test, 6 * L, None)] for key in (0, 1)}


def test_some_of_the_recordings_keep_their_splits_groups_and_ranges():
    rows = [
        recording("a", frames=10 * L, said={"split": "dev"}),
        *(recording(n, frames=10 * L) for n in "bc"),
    ]
    result = assign(rows, split_by="time", splits={"train": 0.5, "test": 0.5})
    some = result.only([0, 2])
    assert (some.names, some.groups) == (result.names, [b"a", b"c"])
    assert some.names[some.split_of[0]] == "dev"
    assert dict(some.ranges) == {1: result.ranges[2]}


def test_a_split_of_the_manifest_is_not_cut():
    rows = [recording("a", frames=10 * L, said={"split": "dev"}), recording("b", frames=10 * L)]
    found_, _, _ = segments(rows, splits={"train": 0.5, "test": 0.5})
    assert {split for owner, split, _, _ in found_ if owner == 0} == {"dev"}
    assert {split for owner, split, _, _ in found_ if owner == 1} == {"train", "test"}
