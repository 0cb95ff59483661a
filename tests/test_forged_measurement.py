"""A measurement file that somebody made up: whatever stands in it, it is read or refused in a sentence (G2, F3).

Every entry of four files is replaced by every hostile value, and the hash is made to fit: whoever forges can do that.
"""

import copy
import json

import pytest

import noisewise as nw
from noisewise.noisy_value import digest
from noisewise.report.words import describe_release

COLUMNS = {"age": nw.Bounded(0, 50), "smoker": nw.Levels(["no", "yes"]), "region": nw.Levels(["n", "e", "s"])}
SCHEMA = nw.Schema(COLUMNS, n=1000, neighbours="change-one")
IS_SMOKER = nw.column("smoker").equals("yes")
MADE = {
    "a mean": nw.measurement(nw.Mean("age"), SCHEMA, 19.7, noise=nw.laplace_noise(scale=0.15), dataset="a", source="r"),
    "a table": nw.measurement(
        nw.Histogram("region"), SCHEMA, [330, 340, 331], noise=nw.gaussian_noise(sd=[2, 2, 3], discrete=True),
        guarantee=nw.PureDP(1),
    ),
    "answers": nw.measurement(
        nw.Records("smoker"), SCHEMA, [700, 300], noise=nw.randomized_response(keep="3/4", cells=2)
    ),
    "a count": nw.measurement(nw.Count(IS_SMOKER), SCHEMA, 301, noise=nw.geometric_noise(scale=2)),
}  # fmt: skip
HOSTILE = [
    None, True, "", "x" * 10**5, "\x1b[2J\x07", "\u202eabc", 10**400, -(10**400), 1e308, 1e-308, 0, -1, 10**18,
    [], {}, [[]] * 100, {"a": 1}, "1/0", "nan", "inf", "1e999", "9" * 5000, 2**63, 0.5, "__import__('os')",
]  # fmt: skip


def places(plain, path=()):
    """The path of every entry, of the first three of a list."""
    members = plain.items() if isinstance(plain, dict) else enumerate(plain[:3]) if isinstance(plain, list) else ()
    for key, value in members:
        yield (*path, key)
        yield from places(value, (*path, key))


def forged(plain, path, value):
    changed = copy.deepcopy(plain)
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return json.dumps({**changed, "hash": digest(changed)}).encode()


@pytest.mark.parametrize("name", MADE)
def test_a_forged_file_is_read_or_refused_in_a_sentence(name):
    plain = {key: value for key, value in MADE[name].to_dict().items() if key != "hash"}
    refused = []
    for path in list(places(plain)):
        for value in HOSTILE:
            try:
                found = nw.Measurement.from_bytes(forged(plain, path, value))
            except nw.InvalidRelease as error:
                refused.append(str(error))
                continue
            told = describe_release(found) + str(found) + repr(found)
            assert all(letter.isprintable() or letter == "\n" for letter in told), path
    assert len(refused) > 400
    assert all(10 < len(sentence) < 5000 for sentence in refused)


@pytest.mark.parametrize("entry", ["dataset", "source"])
@pytest.mark.parametrize("words", ["a\nb", "\x1b[2J", "a\tb", "\u202eabc", "x" * 301])
def test_words_that_would_move_a_terminal_are_refused(entry, words):
    plain = {key: value for key, value in MADE["a mean"].to_dict().items() if key != "hash"}
    with pytest.raises(nw.InvalidRelease):
        nw.Measurement.from_bytes(forged(plain, (entry,), words))
    with pytest.raises(nw.InvalidArgument, match=entry):
        nw.measurement(nw.Mean("age"), SCHEMA, 19.7, noise=nw.laplace_noise(scale=0.15), **{entry: words})


def test_a_file_that_is_no_json_says_what_is_wrong():
    for data in (
        b"",
        b"[" * 10**6,
        b'{"a": NaN}',
        b'{"a": 1, "a": 2}',
        b"\xff\xfe",
        b'{"value": ' + b"9" * 10**5 + b"}",
    ):
        with pytest.raises(nw.InvalidRelease):
            nw.Measurement.from_bytes(data)
    with pytest.raises(nw.InvalidRelease, match="bytes"):
        nw.Measurement.from_bytes("text")
