"""Files as they are written: what the declared options mean, and that nothing is guessed (F2, F4)."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from people_tables import CANARY, KEY, WORD, one, refusal, values, write

from noisewise.errors import InvalidArgument, InvalidData
from noisewise.holder.table import Table
from noisewise.schema import Bounded, Levels, Schema

WIDE = Bounded(-1e9, 1e9)


def read(path: object, column: Bounded | Levels, n: int, reader: dict[str, Any], **changes: Any) -> list[Any]:
    return [x for (x,) in values(Table.read(path, one(column, n, **changes), reader=reader))]


# --- numbers ----------------------------------------------------------------------------------------------------------

WRITTEN = {
    "decimal comma": ({"decimal": ","}, {"1,5": 1.5, "-0,25": -0.25, "+3": 3.0, ",5": 0.5, "7,": 7.0, "1,5e2": 150.0}),
    "points and comma": ({"decimal": ",", "thousands": "."}, {"1.234,5": 1234.5, "1.234.567": 1234567.0, "12": 12.0}),
    "commas": ({"thousands": ","}, {"1,234.5": 1234.5, "999": 999.0, "-1,000,000": -1e6}),
    "spaces": ({"thousands": " "}, {"1 234": 1234.0, " 12.5 ": 12.5}),
    "underscores": ({"thousands": "_"}, {"1_000": 1000.0}),
    "no-break spaces": ({"decimal": ",", "thousands": "\u202f"}, {"12\u202f345,5": 12345.5}),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_numbers_are_read_as_declared(name: str, tmp_path: Path) -> None:
    reader, fields = WRITTEN[name]
    path = write(tmp_path / "r.csv", "x;y\n" + "".join(f"{text};0\n" for text in fields))
    assert read(path, WIDE, len(fields), reader | {"delimiter": ";"}) == list(fields.values())


MISWRITTEN = {
    "groups that are not of three": ({"thousands": ","}, ["1,5", "12,34", ",123", "1,2345", "1234,567", "1,,234"]),
    "a point beside a decimal comma": ({"decimal": ","}, ["1.5", "1.000,5", "1,5,5"]),
    "an underscore": ({}, ["1_000", "1e1_0", "_1"]),
    "an underscore beside a decimal comma": ({"decimal": ","}, ["1_000", "1_000,5"]),
    "letters": ({"decimal": ","}, ["1,5 EUR", "0x10", "1d", ""[:0] + "--5"]),
}


@pytest.mark.parametrize("name", MISWRITTEN)
def test_what_is_not_written_as_declared_is_refused_not_repaired(name: str, tmp_path: Path) -> None:
    reader, fields = MISWRITTEN[name]
    path = write(tmp_path / "r.csv", "x;y\n" + "".join(f"{text};0\n" for text in fields))
    error = refusal(path, one(WIDE, len(fields)), reader=reader | {"delimiter": ";"})
    assert (error.fault, error.rows) == ("unparsable", len(fields))


def test_an_underscore_is_no_part_of_a_number_in_a_frame_either() -> None:
    assert refusal({"x": ["1_000", "2"]}, one(WIDE, 2)).fault == "unparsable"


def test_infinities_and_nan_mean_the_same_under_every_decimal_sign(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", "x;y\ninf;0\nNaN;0\n1,5;0\n")
    error = refusal(path, one(WIDE, 3), reader={"delimiter": ";", "decimal": ","})
    assert "infinite: 1 row" in str(error)
    assert "missing: 1 row" in str(error)


# --- words ------------------------------------------------------------------------------------------------------------


def test_missing_words_and_codes_count_as_missing(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", "x,g\nNA,a\n 1 ,b\n-200,NA\n-200.00,a\n n/a ,b\n,a\n")
    columns = {"x": Bounded(-500, 500), "g": Levels(["a", "b"])}
    declared = Schema(columns, n=6, neighbours="change-one", missing={"x": 7, "g": "b"})
    table = Table.read(path, declared, reader={"missing": ["NA", "n/a", -200]})
    assert values(table) == [(7.0, 0), (1.0, 1), (7.0, 1), (7.0, 0), (7.0, 1), (7.0, 0)]
    only_x = Table.read(path, declared, reader={"missing": {"x": ["NA", "n/a"], "g": ["NA"]}})
    assert values(only_x) == [(7.0, 0), (1.0, 1), (-200.0, 1), (-200.0, 0), (7.0, 1), (7.0, 0)]
    error = refusal(path, Schema(columns, n=6, neighbours="change-one"), reader={"missing": ["NA", "n/a", -200]})
    assert (error.fault, error.rows) == ("missing", 5)


@pytest.mark.parametrize("source", [[-200, 3, 4], [-200.0, 3.0, 4.0], ["-200", "3", "4"], [Decimal("-200.00"), 3, 4]])
def test_a_code_means_missing_whatever_the_type_of_the_column(source: list[Any]) -> None:
    assert read({"x": source}, Bounded(-500, 500), 3, {"missing": [-200]}, missing={"x": 0}) == [0.0, 3.0, 4.0]


def test_yes_and_no_become_one_and_zero(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", "x,y\nja,0\n nein ,0\nJ,0\n1,0\n")
    reader = {"yes": ["ja", "J"], "no": ["nein"]}
    assert read(path, Bounded(0, 1), 4, reader) == [1.0, 0.0, 1.0, 1.0]
    assert read({"x": ["ja", "nein", "J", "1"]}, Levels([0, 1]), 4, reader) == [1, 0, 1, 1]


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ({"x": Levels(["0", "1", "ja"])}, {"yes": ["ja"]}),
        ({"x": Levels([0, 1, 2])}, {"no": [2]}),
        ({"x": Levels(["0", "1"])}, {"yes": ["0"]}),
        ({"x": Bounded(0, 9)}, {"yes": [5]}),
        ({"x": Bounded(0, 9)}, {"no": ["5,0"], "decimal": ","}),
        ({"x": Bounded(0, 1), "age": Bounded(0, 99)}, {"yes": [1], "no": [2]}),
    ],
    ids=str,
)
def test_a_word_for_yes_or_no_that_is_a_declared_value_is_refused(columns: dict[str, Any], options: Any) -> None:
    declared = Schema(columns, n=1, neighbours="change-one")
    error = refusal({name: ["1"] for name in columns}, declared, reader=options)
    assert isinstance(error, InvalidArgument)
    assert error.argument in ("yes", "no")
    assert str(error).endswith("Nothing was spent.")


def test_words_for_yes_and_no_that_override_nothing_are_taken() -> None:
    assert read({"x": ["2", "1"]}, Bounded(0, 1), 2, {"yes": [1], "no": [2]}) == [0.0, 1.0]
    assert read({"x": ["yes", "no"]}, Levels(["yes", "no"]), 2, {"yes": ["yes"], "no": ["no"]}) == [0, 1]


def test_levels_are_recoded_everywhere_or_in_one_column(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", "s,g\nM,M\nw,x\nm,M\n")
    columns = {"s": Levels(["m", "w"]), "g": Levels(["x", "m"])}
    declared = Schema(columns, n=3, neighbours="change-one")
    assert values(Table.read(path, declared, reader={"recode": {"M": "m"}})) == [(0, 1), (1, 0), (0, 1)]
    own = {"recode": {"s": {"M": "w"}, "M": "m"}}  # a column's own map is the stronger
    assert values(Table.read(path, declared, reader=own)) == [(1, 1), (1, 0), (0, 1)]
    error = refusal(path, declared, reader={"recode": {"s": {"M": "m"}}})
    assert (error.column, error.fault, error.rows) == ("g", "unknown level", 2)
    assert read({"x": [1, 2, 1]}, Levels(["m", "f"]), 3, {"recode": {"1": "m", "2": "f"}}) == [0, 1, 0]


def test_dates_become_days_since_1970(tmp_path: Path) -> None:
    days = [date(1970, 1, 2), date(1969, 12, 31), date(2024, 2, 29), date(1900, 3, 1)]
    expected = [float((day - date(1970, 1, 1)).days) for day in days]
    bounds = Bounded(-40_000, 40_000)
    for form in ("%d.%m.%Y", "%Y-%m-%d", "%m/%d/%Y"):
        path = write(tmp_path / "r.csv", "x;y\n" + "".join(f"{day.strftime(form)};0\n" for day in days))
        assert read(path, bounds, 4, {"delimiter": ";", "dates": {"x": form}}) == expected
    moments = [datetime(1970, 1, 1, 12), datetime(1969, 12, 31, 18)]
    for source in ({"x": moments}, pd.DataFrame({"x": moments}), pa.table({"x": moments})):
        assert read(source, bounds, 2, {"dates": {"x": "%Y-%m-%d"}}) == [0.5, -0.25]
    path = write(tmp_path / "r.csv", f"x;y\n31.02.2020;0\n{WORD};0\n01.01.1970;0\n")
    assert refusal(path, one(bounds, 3), reader={"delimiter": ";", "dates": {"x": "%d.%m.%Y"}}).rows == 2
    refused = refusal(pa.table({"x": moments}), one(bounds, 2))
    assert "dates" in str(refused)
    assert "[data]" in refused.fields["toml"]


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-32", "utf-8", "mac-roman"])
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_every_encoding_gives_the_same_records_and_fingerprint(encoding: str, suffix: str, tmp_path: Path) -> None:
    text = 'größe;ort\r\n1,5;Zürich\r\n2,5;"Saint-Étienne; Loire"\r\n'
    columns = {"größe": Bounded(0, 9), "ort": Levels(["Zürich", "Saint-Étienne; Loire"])}
    declared = Schema(columns, n=2, neighbours="change-one")
    path = write(tmp_path / f"r{suffix}", text.encode(encoding))
    table = Table.read(path, declared, reader={"delimiter": ";", "decimal": ",", "encoding": encoding})
    assert values(table) == [(1.5, 0), (2.5, 1)]
    plain = Table.read({"größe": [1.5, 2.5], "ort": ["Zürich", "Saint-Étienne; Loire"]}, declared)
    assert table.fingerprint(KEY) == plain.fingerprint(KEY)


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r", "mixed"])
def test_every_line_end_gives_the_same_rows_in_the_same_places(ends: str, tmp_path: Path) -> None:
    rows = ["x,y", "1,a", '2,"b, c"', "3,", '4,"two\nlines"', "5,e"]
    joints = ["\r\n", "\n", "\r", "\r\n", "\n", "\r"] if ends == "mixed" else [ends] * 6
    path = tmp_path / "r.csv"
    path.write_bytes("".join(row + end for row, end in zip(rows, joints, strict=True)).encode())
    table = Table.read(path, one(Bounded(0, 9), 5))
    assert values(table) == [(float(k),) for k in range(1, 6)]
    assert [x for (x,) in values(table, table.rows(("0", "2/5")))] == [1.0, 2.0]


@pytest.mark.parametrize("ends", [("\n", "\r\n"), ("\r\n", "\n"), ("\r\n", "\r"), ("\r", "\n")])
def test_no_row_is_lost_where_line_ends_change_far_down(ends: tuple[str, str], tmp_path: Path) -> None:
    """After eight million bytes: where DuckDB's next reader starts, which leaves out such rows without a word."""
    first, last = ends
    path = tmp_path / "r.csv"
    rows = 800_000 if len(first) == 2 else 888_889
    path.write_bytes((f"y,x{first}" + f"123456,7{first}" * rows + f"123456,8{last}" * 3).encode())
    declared = Schema({"x": Bounded(0, 9)}, n_max=10**6, neighbours="add-remove")
    table = Table.read(path, declared)
    every = table.expression
    assert values(table, every.aggregate(n=every.count(), total=every["x"].sum())) == [(rows + 3, 7.0 * rows + 24)]


def test_a_file_without_a_header_takes_the_names_it_is_given(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", "1,8,a\n2,9,b\n")
    reader = {"header": False, "names": ["x", "", "z"]}
    assert read(path, Bounded(0, 9), 2, reader) == [1.0, 2.0]
    renamed = write(tmp_path / "s.csv", "Größe in cm,b,c\n1,8,a\n2,9,b\n")
    assert read(renamed, Bounded(0, 9), 2, {"names": ["x", "", ""]}) == [1.0, 2.0]
    assert refusal(path, one(Bounded(0, 9), 2), reader={"header": False, "names": ["x", "y"]}).fault == "ragged rows"


def test_readers_of_a_file_and_of_a_frame_agree(tmp_path: Path) -> None:
    """A sheet read by pandas has numbers beside words; it means what the same cells mean in a file."""
    cells = ["12", "NA", "7.5", "ja", "nein", "-200"]
    reader = {"missing": ["NA", -200], "yes": ["ja"], "no": ["nein"]}
    mixed = pd.DataFrame({"x": [12, "NA", 7.5, "ja", "nein", -200.0]}, dtype=object)
    path = write(tmp_path / "r.csv", "y,x\n" + "".join(f"0,{cell}\n" for cell in cells))
    parquet = tmp_path / "r.parquet"
    pa.parquet.write_table(pa.table({"x": cells}), parquet)
    expected = [12.0, 3.0, 7.5, 1.0, 0.0, 3.0]
    for source in (mixed, path, parquet, {"x": cells}):
        assert read(source, Bounded(0, 99), 6, reader, missing={"x": 3}) == expected


def test_options_change_nothing_for_files_that_are_plain(tmp_path: Path) -> None:
    rng = np.random.default_rng()
    numbers = rng.standard_cauchy(500)
    path = write(tmp_path / "r.csv", "x,y\n" + "".join(f"{v!r},0\n" for v in numbers.tolist()))
    declared = one(Bounded(-5, 5), 500)
    plain = Table.read(path, declared)
    for reader in ({}, {"delimiter": ","}, {"thousands": " "}, {"missing": ["NA"]}, {"yes": ["ja"], "no": ["nein"]},
                   {"encoding": "latin-1"}):  # fmt: skip
        table = Table.read(path, declared, reader=reader)
        assert values(table) == values(plain)
        assert table.fingerprint(KEY) == plain.fingerprint(KEY)


# --- suggestions, never applied ---------------------------------------------------------------------------------------

SEEMS = {
    "semicolons": (f"x;y\n1;{WORD}\n", "missing column", "seems to use ';'", 'delimiter = ";"'),
    "tabs": (f"x\ty\n1\t{WORD}\n", "missing column", "seems to use '\\t'", 'delimiter = "\\t"'),
    "bars": (f"x|y\n1|{WORD}\n", "missing column", "seems to use '|'", 'delimiter = "|"'),
    "quoted names": (f'"x";"y"\n1;"{WORD}"\n', "missing column", "seems to use ';'", 'delimiter = ";"'),
    "many long names": (
        ",".join(f"{WORD}{k:0200d}" for k in range(2000)) + "\n1\n",
        "missing column",
        "letter by letter",
        "",
    ),
    "no header": ("83751.90642,2\n3,4\n", "missing column", "no header", "header = false"),
    "other letters": (f" X,y\n1,{WORD}\n", "missing column", "upper and lower case", "name the columns"),
    "latin-1": (f"x,y\n1,{WORD}é\n".encode("latin-1"), "wrong encoding", "seems to be cp1252", 'encoding = "cp1252"'),
    "utf-16": (f"x,y\n1,{WORD}\n".encode("utf-16"), "wrong encoding", "seems to be utf-16", 'encoding = "utf-16"'),
    "decimal commas": (
        f'y,x\n0,"1,5"\n0,"{CANARY.replace(".", ",")}"\n',
        "unparsable",
        "decimal comma",
        'decimal = ","',
    ),
    "groups": ('y,x\n0,"1,500,000"\n', "unparsable", "groups of three", "thousands"),
    "dates": ("y,x\n0,2020-01-31\n", "unparsable", "dates", "dates = {"),
    "words": ("y,x\n0,yes\n0,no\n", "unparsable", "yes and no", 'yes = ["yes"]'),
    "nothing": ("y,x\n0,n/a\n0,NA\n", "unparsable", "NA for nothing", 'missing = ["NA"]'),
}


@pytest.mark.parametrize("name", SEEMS)
def test_what_a_file_seems_to_be_is_suggested_and_never_applied(name: str, tmp_path: Path) -> None:
    content, fault, reason, toml = SEEMS[name]
    error = refusal(write(tmp_path / "r.csv", content), one(Bounded(0, 10), 1))
    assert error.fault == fault
    assert reason in str(error)
    assert "[data]" not in str(error)
    told = error.fields.get("toml", str(error))
    assert toml in told
    assert told.endswith("Nothing was spent.")


BAD_OPTIONS = [
    {"delimiter": ";;"}, {"delimiter": ""}, {"delimiter": "a"}, {"delimiter": '"'}, {"delimiter": "\n"},
    {"delimiter": True}, {"decimal": ";"}, {"decimal": ",", "thousands": ","}, {"thousands": "x"},
    {"encoding": "nonsense"}, {"encoding": "punycode"}, {"encoding": "rot13"}, {"encoding": "a\0b"}, {"encoding": 8},
    {"header": 1}, {"header": False}, {"names": "x"}, {"names": [1]}, {"missing": "NA"}, {"missing": 3},
    {"missing": {"z": ["NA"]}}, {"missing": [None]}, {"missing": [True]}, {"dates": "%Y"}, {"dates": {"x": "%Q"}},
    {"dates": {"x": ""}}, {"dates": {"z": "%Y"}}, {"yes": "ja"}, {"yes": ["a"], "no": ["a"]}, {"recode": ["M"]},
    {"recode": {"M": "no such level"}}, {"recode": {"x": {"M": "m"}}}, {"recode": {"M": None}}, {"sniff": True},
]  # fmt: skip


@pytest.mark.parametrize("options", BAD_OPTIONS, ids=str)
def test_bad_options_are_refused_by_name(options: dict[str, Any], tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", "x,y\n1,2\n")
    error = refusal(path, one(Bounded(0, 9), 1), reader=options)
    assert isinstance(error, InvalidArgument)
    assert error.argument in {*options, "reader"}
    for word in ("nput should", "String", "at most 1 ", "valid ", "xtra", "nstance"):  # pydantic's own
        assert word not in str(error)


@pytest.mark.parametrize("reader", ["x", 3, ["delimiter"], {1: 2}])
def test_a_reader_is_a_mapping(reader: Any) -> None:
    assert isinstance(refusal({"x": [1]}, one(Bounded(0, 9), 1), reader=reader), InvalidArgument)


def test_options_that_a_source_cannot_have_are_refused() -> None:
    declared = one(Bounded(0, 9), 1)
    assert "only text files" in str(refusal({"x": [1]}, declared, reader={"delimiter": ";"}))
    table = ibis.duckdb.connect().create_table("t", pa.table({"x": [1]}))
    assert "Ibis expression" in str(refusal(table, declared, reader={"missing": [-200]}))


def test_a_sheet_goes_by_way_of_a_frame(tmp_path: Path) -> None:
    """A real workbook, read by pandas, with text, dates, empty cells and a code in it."""
    pytest.importorskip("openpyxl")
    sheet = pd.DataFrame(
        {
            "income": [10.5, -200, None, 42.0],
            "born": pd.to_datetime(["1990-01-01", "1970-01-01", "1970-01-02", "2000-06-01"]),
            "region": ["north", "south", "south", "north"],
        }
    )
    sheet.to_excel(tmp_path / "r.xlsx", index=False)
    columns = {"income": Bounded(0, 250), "born": Bounded(0, 20_000), "region": Levels(["north", "south"])}
    declared = Schema(columns, n=4, neighbours="change-one", missing={"income": 30})
    reader = {"missing": {"income": [-200]}, "dates": {"born": "%Y-%m-%d"}}
    frame = pd.read_excel(tmp_path / "r.xlsx")
    assert values(Table.read(frame, declared, reader=reader)) == [
        (10.5, 7305.0, 0), (30.0, 0.0, 1), (30.0, 1.0, 1), (42.0, 11109.0, 0)
    ]  # fmt: skip
    check = Table.check(frame, declared, reader=reader)
    assert (check.rows, check.column("income").missing) == (4, 2)


def test_a_sheet_is_refused_with_the_way_to_read_it(tmp_path: Path) -> None:
    for name in ("r.xlsx", "r.ods"):
        assert "pandas.read_excel" in str(refusal(tmp_path / name, one(Bounded(0, 9), 1)))
    disguised = write(tmp_path / "r.csv", b"PK\x03\x04\xff\xfe")
    error = refusal(disguised, one(Bounded(0, 9), 1))
    assert isinstance(error, InvalidData)
    assert "Excel" in str(error)
