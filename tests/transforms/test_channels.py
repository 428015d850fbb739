"""Which channels become examples: by number, by name, each, mixed or stacked."""

import pytest

from spectrabeam.transforms.channels import ChannelSettings, channel_lists, parse_channels
from spectrabeam.transforms.elements import Description
from spectrabeam.transforms.rejects import Reason, RejectError


def lists(value, names=(), channels=3):
    description = Description("raw", None, channels, 10, "<f4", channel_names=names)
    return channel_lists(description, parse_channels(ChannelSettings(channels=value).channels))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("each", [(0,), (1,), (2,)]),
        ("mix", [(0, 1, 2)]),
        ("stack", [(0, 1, 2)]),
        ("2,0", [(2,), (0,)]),
        ("each:1", [(1,)]),
        ("mix:2,0", [(2, 0)]),
        ("stack:1", [(1,)]),
        ("1", [(1,)]),
        (1, [(1,)]),
        ([0, 2], [(0,), (2,)]),
        (" 0 , 1 ", [(0,), (1,)]),
    ],
)
def test_channels_are_picked_by_number(value, expected):
    assert lists(value) == expected


def test_channels_are_picked_by_name_and_a_name_goes_before_a_number():
    assert lists("right,left", ("left", "right", "rear")) == [(1,), (0,)]
    assert lists("mix:rear,0", ("left", "right", "rear")) == [(2, 0)]
    assert lists("0", ("2", "1", "0")) == [(2,)]


@pytest.mark.parametrize(
    ("value", "names", "message"),
    [
        ("3", (), "there is no channel 3: pick among its 3, from 0"),
        ("-1", (), "there is no channel -1: pick among its 3, from 0"),
        ("left", (), "there is no channel left: pick among its 3, from 0"),
        (
            "Left",
            ("left", "b", "c"),
            "there is no channel Left: pick among its 3, from 0, named left, b, c",
        ),
    ],
)
def test_a_channel_that_is_not_there_is_a_reject(value, names, message):
    with pytest.raises(RejectError) as caught:
        lists(value, names)
    assert (caught.value.reason, str(caught.value)) == (Reason.CHANNEL_MISMATCH, message)


@pytest.mark.parametrize("value", ["", "mix:", "each: ,", ",", []])
def test_a_choice_without_a_channel_is_refused(value):
    with pytest.raises(
        ValueError, match="picks no channel: write each, mix or stack, or channels such as 0,2"
    ):
        ChannelSettings(channels=value)


@pytest.mark.parametrize("value", ["0,0", "mix:left,right,left", [1, 1]])
def test_a_channel_that_is_named_twice_is_refused(value):
    with pytest.raises(ValueError, match="names a channel twice"):
        ChannelSettings(channels=value)


def test_a_channel_that_is_picked_by_name_and_by_number_is_not_taken_twice():
    with pytest.raises(RejectError, match=r"left,0|twice"):
        lists("left,0", ("left", "right", "rear"))
