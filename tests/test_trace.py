"""Reading requests: exact times, three formats, nothing dropped, bounded memory."""
import contextlib
import gzip
import json
import math
import random
import re
import tracemalloc
from array import array
from decimal import Decimal
from fractions import Fraction

import pytest

from tickwheel.trace import CHUNK_ROWS, Trace, TraceError
from tickwheel.units import MAX_NS, MIN_NS, NEVER, UNITS, from_ns, to_ns, unit_of

EPOCH = 1661145978876979240     # a nanosecond time that no float holds


def write(path, text, *, packed=False):
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    return str(path)


def read(path, **options):
    """(label, arrival, completion) of every request."""
    return [
        request
        for chunk in Trace(path, **options)
        for request in zip(chunk.labels, chunk.arrivals, chunk.completions, strict=True)
    ]


@pytest.mark.parametrize(
    ("text", "unit", "ns"),
    [
        ("1.5", "s", 1_500_000_000),
        ("1661145978.876979240", "s", EPOCH),
        ("1.66114597887697924e18", "ns", EPOCH),
        (".000001", "ms", 1),
        ("-0.5", "us", -500),
        ("+7", "ms", 7_000_000),
        (" 7 ", "ms", 7_000_000),
        ("12.", "ns", 12),
        ("1.000", "ns", 1),
        (str(MAX_NS), "ns", MAX_NS),
        (str(MIN_NS), "ns", MIN_NS),
        ("0" * 30 + "1", "s", 10**9),
    ],
)
def test_text_becomes_exact_nanoseconds(text, unit, ns):
    """No digit of a time passes through a float."""
    assert to_ns(text, unit) == ns


@pytest.mark.parametrize(
    "text", ["", "abc", "1_000", "0x10", "nan", "inf", "1e", "1,5", "1 2", "\u0661\u0662", "1e9999", "--1"]
)
def test_what_is_not_a_number_is_refused(text):
    """What Python's int and Decimal take beyond plain numbers is damage in a data file."""
    with pytest.raises(ValueError, match="must be a number"):
        to_ns(text, "ms")


@pytest.mark.parametrize("text", [str(NEVER), str(MIN_NS - 1), "1e999", "9" * 5000])
def test_times_outside_64_bits_are_refused(text):
    """2 ** 63 - 1 itself stands for never."""
    with pytest.raises(ValueError, match="must fit in 64 bits"):
        to_ns(text, "ns")


@pytest.mark.parametrize(("text", "unit"), [("0.5", "ns"), ("0.0000001", "ms"), ("1e-999", "s")])
def test_a_fraction_of_a_nanosecond_is_refused(text, unit):
    """Nothing is rounded in silence."""
    with pytest.raises(ValueError, match="must be a whole number of nanoseconds"):
        to_ns(text, unit)


def test_text_and_nanoseconds_are_inverse(rng):
    """from_ns writes the shortest exact decimal: to_ns reads it back, and Fraction agrees."""
    for _ in range(2000):
        ns = rng.choice([1, -1]) * rng.getrandbits(rng.randrange(1, 63))
        unit = rng.choice(list(UNITS))
        text = from_ns(ns, unit)
        assert to_ns(text, unit) == ns
        assert Fraction(Decimal(text)) * UNITS[unit] == ns
        assert "." not in text or not text.endswith("0")


@pytest.mark.parametrize(
    ("column", "unit"),
    [("arrival_ms", "ms"), ("start_ns", "ns"), ("a_b_s", "s"), ("_ms", None), ("ms", None), ("t", None)],
)
def test_a_name_tells_its_unit(column, unit):
    """arrival_ms is in ms; a name that is nothing but a suffix tells nothing."""
    assert unit_of(column) == unit


ROWS = "arrival_ms,kind,completion_ms\n0,a,1.5\n2,b,\n2,a,2\n"
REQUESTS = [(1, 0, 1_500_000), (2, 2_000_000, NEVER), (3, 2_000_000, 2_000_000)]


@pytest.mark.parametrize("packed", [False, True])
def test_csv(tmp_path, packed):
    """An empty completion means never; equal times are in order; labels are row numbers from 1."""
    assert read(write(tmp_path / f"t.csv{'.gz' * packed}", ROWS, packed=packed)) == REQUESTS


@pytest.mark.parametrize(
    "text",
    [
        ROWS.replace("\n", "\r\n"),
        "\ufeff" + ROWS,
        ROWS.rstrip("\n"),
        ROWS + "\n\r\n\n",
        ROWS.replace("a", '"a"').replace('"a"rriv', "arriv").replace('v"a"l', "val"),
    ],
    ids=["crlf", "byte order mark", "no last newline", "blank lines at the end", "quotes"],
)
def test_csv_as_other_programs_write_it(tmp_path, text):
    """Line ends, a byte order mark, quotes and blank lines at the end change nothing."""
    assert read(write(tmp_path / "t.csv", text)) == REQUESTS


def test_quoted_newlines_belong_to_their_row(tmp_path):
    """Rows are counted, not lines."""
    path = write(tmp_path / "t.csv", 'arrival_ms,completion_ms,note\n1,,"two\n\nlines"\nx,,\n')
    with pytest.raises(TraceError, match=r"row 2: arrival_ms must be a number, got 'x'"):
        read(path, id="note")


def test_where_keeps_the_rows_that_match(tmp_path):
    """All conditions hold; rows that do not match may hold anything, but labels count them."""
    text = "arrival_ms,completion_ms,kind,parent\n5,6,a,\nbroken,,b,\n7,8,a,9\n3,4,b,9\n9,9,a,\n"
    path = write(tmp_path / "t.csv", text)
    assert [row for row, *_ in read(path, where=[("kind", "a")])] == [1, 3, 5]
    assert [row for row, *_ in read(path, where=[("kind", "a"), ("parent", "")])] == [1, 5]
    assert read(path, where=[("kind", "z")]) == []


def test_id_names_the_requests(tmp_path):
    """Labels are the column's text, whatever it is."""
    path = write(tmp_path / "t.csv", 'id,arrival_ms,completion_ms\n007,1,\n"a,b",2,\n,3,\n')
    assert [label for label, *_ in read(path, id="id")] == ["007", "a,b", ""]


def test_each_column_has_the_unit_of_its_name(tmp_path):
    """Without a unit the names decide; a unit given is that of both."""
    path = write(tmp_path / "t.csv", "a_s,c_us\n1,1000001\n")
    assert read(path, arrival="a_s", completion="c_us") == [(1, 10**9, 1_000_001_000)]
    assert read(path, arrival="a_s", completion="c_us", unit="ns") == [(1, 1, 1_000_001)]


def test_a_header_alone_is_a_trace_without_requests(tmp_path):
    """No rows, no requests; an empty file is another matter."""
    assert read(write(tmp_path / "t.csv", "arrival_ms,completion_ms\n")) == []


JSON_ROWS = [
    '{"arrival_ms": 0, "completion_ms": 1.5, "kind": "a"}',
    '{"completion_ms": null, "arrival_ms": "2"}',
    '{"arrival_ms": 2.0, "completion_ms": 2, "kind": null, "deep": {"er": [1]}}',
]


@pytest.mark.parametrize("name", ["t.jsonl", "t.ndjson", "t.json", "t.jsonl.gz"])
def test_json_lines(tmp_path, name):
    """Numbers may be text; a missing key is null."""
    path = write(tmp_path / name, "\n".join(JSON_ROWS) + "\n", packed=name.endswith(".gz"))
    assert read(path) == REQUESTS
    assert [row for row, *_ in read(path, where=[("kind", "")])] == [2, 3]


def test_json_numbers_are_exact(tmp_path):
    """19 digits of an integer, 9 decimals of a float."""
    path = write(tmp_path / "t.jsonl", f'{{"a_ns": {EPOCH}, "c_ns": {EPOCH + 1}}}\n')
    assert read(path, arrival="a_ns", completion="c_ns") == [(1, EPOCH, EPOCH + 1)]
    path = write(tmp_path / "t.jsonl", '{"a_s": 1661145978.876979240, "c_s": null}\n')
    assert read(path, arrival="a_s", completion="c_s") == [(1, EPOCH, NEVER)]


def test_json_values_compare_as_they_are_written(tmp_path):
    """where and id see 1 as 1, true as true."""
    path = write(tmp_path / "t.jsonl", '{"arrival_ms": 1, "completion_ms": 2, "n": 1, "b": true}\n')
    assert read(path, where=[("n", "1"), ("b", "true")], id="b") == [("true", 10**6, 2 * 10**6)]


def test_json_keys_that_no_row_has_are_unknown_columns(tmp_path):
    """A misspelt completion must not look like a trace that nothing completes."""
    path = write(tmp_path / "t.jsonl", "\n".join(JSON_ROWS))
    with pytest.raises(TraceError, match="no column 'end_ms'; the columns are arrival_ms, completion_ms"):
        read(path, completion="end_ms")


def parquet(path, **columns):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table(columns), path)
    return str(path)


def test_parquet(tmp_path):
    """Integers, decimals, floats and text; null means never."""
    pa = pytest.importorskip("pyarrow")
    path = parquet(
        tmp_path / "t.parquet",
        start_ns=[EPOCH, EPOCH + 1],
        end_ns=pa.array([EPOCH + 5, None], pa.int64()),
        exact_s=pa.array([Decimal("1661145978.876979240")] * 2, pa.decimal128(19, 9)),
        float_ms=[0.25, 1e3],
        text_s=["1.5", None],
        parent=pa.array([None, 7], pa.int32()),
    )
    times = {"arrival": "start_ns", "completion": "end_ns"}
    assert read(path, **times) == [(1, EPOCH, EPOCH + 5), (2, EPOCH + 1, NEVER)]
    assert read(path, **times, where=[("parent", "7")], id="parent") == [("7", EPOCH + 1, NEVER)]
    assert read(path, **times, where=[("parent", "")]) == [(1, EPOCH, EPOCH + 5)]
    assert read(path, arrival="exact_s", completion="exact_s")[0] == (1, EPOCH, EPOCH)
    mixed = [(1, 250_000, 1_500_000_000), (2, 10**9, NEVER)]
    assert read(path, arrival="float_ms", completion="text_s") == mixed


def told(path, **options):
    """What is read of a file, or how it is refused, without its name."""
    try:
        return read(path, **options)
    except TraceError as error:
        return str(error).replace(path, "FILE")


def random_column(pa, rng, rows):
    """Values of one type, mostly in order; now and then one that is null, back, or no time at all."""
    numbers = sorted(rng.randrange(10**rng.choice([3, 6, 12])) for _ in range(rows))
    for row in range(rows):
        if rng.random() < 0.3 / rows:
            numbers[row] = rng.choice([-5, 0, 10**13 + 1, 2**62, None])
    kind = rng.choice(["int64", "int32", "double", "double", "float", "decimal", "string", "string", "null"])
    if kind == "double":
        places = rng.choice([0, 1, 3, 3, 6, 7])
        values = [None if n is None else n / 10**places for n in numbers]
        if rng.random() < 0.1:
            values[rng.randrange(rows)] = rng.choice([float("nan"), float("inf"), -0.0, 1e22, rng.random()])
        return pa.array(values, pa.float64(), from_pandas=False)
    if kind == "float":
        return pa.array([None if n is None else n % 2**20 / 8 for n in numbers], pa.float32())
    if kind == "decimal":
        return pa.array([None if n is None else Decimal(n).scaleb(-4) for n in numbers], pa.decimal128(24, 4))
    if kind == "string":
        words = ["" if n is None else str(n) for n in numbers]
        if rng.random() < 0.1:
            words[rng.randrange(rows)] = rng.choice(["1e3", "x", "0x10", "1_0", " 7 "])
        return pa.array(words)
    if kind == "null":
        return pa.nulls(rows)
    small = [None if n is None else n % 2**31 if kind == "int32" else n for n in numbers]
    return pa.array(small, pa.int32() if kind == "int32" else pa.int64())


def test_columns_are_decided_as_rows_are(tmp_path, rng):
    """Parquet of any types gives the requests, or the very error, of its cells written as text."""
    pa = pytest.importorskip("pyarrow")
    refused = 0
    for _ in range(600):
        rows = rng.randrange(1, 12)
        columns = {name: random_column(pa, rng, rows) for name in ("a_ms", "c_us", "t_ms")}
        columns["k"] = pa.array([rng.choice(["x", "", None]) for _ in range(rows)])
        columns["n"] = pa.array([rng.choice([7, 70, None]) for _ in range(rows)], pa.int16())
        options = {
            "arrival": "a_ms",
            "completion": rng.choice(["c_us", "a_ms"]),
            "timeout": rng.choice([None, "t_ms"]),
            "unit": rng.choice([None, "s", "ns"]),
            "id": rng.choice([None, "n"]),
            "where": rng.choice([[], [("k", "x")], [("k", ""), ("n", "7")], [("n", "")]]),
            "latest_ns": rng.choice([MAX_NS, 10**15]),
        }
        cells = [column.to_pylist() for column in columns.values()]
        lines = [
            ",".join("" if value is None else f'"{value}"' for value in row)
            for row in zip(*cells, strict=True)
        ]
        text = write(tmp_path / "t.csv", "\n".join([",".join(columns), *lines]))
        expected = told(text, **options)
        assert told(parquet(tmp_path / "t.parquet", **columns), **options) == expected, (columns, options)
        refused += isinstance(expected, str)
    assert 100 < refused < 500


def test_a_float_is_the_decimal_that_it_shows(tmp_path, rng):
    """0.1 is a tenth: also where it is large, fine, or next to such a number."""
    pytest.importorskip("pyarrow")
    for unit in UNITS:
        values = []
        for _ in range(3000):
            value = rng.randrange(10 ** rng.randrange(1, 19)) / 10 ** rng.randrange(10)
            values += [value, math.nextafter(value, math.inf)]
        exact = sorted(value for value in values if whole(value, unit))
        path = parquet(tmp_path / "t.parquet", t=exact)
        expected = [to_ns(repr(value), unit) for value in exact]
        assert [arrival for _, arrival, _ in read(path, arrival="t", completion="t", unit=unit)] == expected


def whole(value, unit):
    """Whether its decimal is a whole number of nanoseconds, in 64 bits."""
    with contextlib.suppress(ValueError):
        return to_ns(repr(value), unit) is not None
    return False


def test_timestamps_and_durations_have_their_own_unit(tmp_path):
    """Nanoseconds since the epoch, whatever the unit of the rest; messages show them in that unit."""
    pa = pytest.importorskip("pyarrow")
    path = parquet(
        tmp_path / "t.parquet",
        a=pa.array([1, 2, 2], pa.timestamp("s", "UTC")),
        c=pa.array([1_000_001, None, 2_500_000], pa.timestamp("us")),
        early=pa.array([None, 1_000_000, None], pa.timestamp("ns")),
        t=pa.array([30, 40, 50], pa.duration("ms")),
        far=pa.array([1, 10**12, None], pa.timestamp("s")),
    )
    (chunk,) = Trace(path, arrival="a", completion="c", timeout="t", unit="ms")
    assert chunk.arrivals.tolist() == [10**9, 2 * 10**9, 2 * 10**9]
    assert chunk.completions.tolist() == [1_000_001_000, NEVER, 2_500_000_000]
    assert chunk.timeouts.tolist() == [30_000_000, 40_000_000, 50_000_000]
    with pytest.raises(TraceError, match=r"row 2: far must fit in 64 bits as nanoseconds, got '10{12}'$"):
        read(path, arrival="far", completion="c", unit="s")
    with pytest.raises(TraceError, match=r"row 2: early must not be before a, got '0.001' before '2'$"):
        read(path, arrival="a", completion="early", unit="s")


def test_where_sees_every_type_as_text(tmp_path):
    """True, 1.5, and what str() shows of anything else; a row left out may hold any time."""
    pa = pytest.importorskip("pyarrow")
    path = parquet(
        tmp_path / "t.parquet",
        arrival_ms=[1.0, float("nan"), 3.0],
        completion_ms=pa.nulls(3),
        flag=[True, False, True],
        float=[1.5, None, 1e22],
        list=[[1], [], None],
    )
    assert [row for row, *_ in read(path, where=[("flag", "True")])] == [1, 3]
    assert [row for row, *_ in read(path, where=[("float", "1e+22")])] == [3]
    assert [row for row, *_ in read(path, where=[("list", "[1]")])] == [1]
    assert read(path, where=[("flag", "true")]) == []
    assert [label for label, *_ in read(path, where=[("flag", "True")], id="float")] == ["1.5", "1e+22"]


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet"])
def test_each_request_may_have_its_own_timeout(tmp_path, name):
    """A column of them, never empty, never negative, and no deadline past what a time can be."""

    def file(*timeouts):
        rows = [(row, row + 1, timeout) for row, timeout in enumerate(timeouts)]
        if name.endswith("csv"):
            lines = [f"{a},{c},{'' if t is None else t}" for a, c, t in rows]
            return write(tmp_path / name, "\n".join(["arrival_ms,completion_ms,patience_s", *lines]))
        names = ("arrival_ms", "completion_ms", "patience_s")
        if name.endswith("jsonl"):
            lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
            return write(tmp_path / name, "\n".join(lines))
        return parquet(tmp_path / name, **dict(zip(names, zip(*rows, strict=True), strict=True)))

    (chunk,) = Trace(file(0, 2, 1), timeout="patience_s")
    assert chunk.timeouts == array("q", [0, 2 * 10**9, 10**9])
    assert [chunk.timeouts for chunk in Trace(file(0, 2, 1))] == [None]
    for timeouts, problem in {
        (1, None): "row 2: patience_s is missing",
        (1, 2, -3): "row 3: patience_s must be >= 0, got '-3'",
        (1, 9): "row 2: arrival_ms + patience_s must be <= 5000, to leave room for the timeout in 64 bits, "
                "got '1' and '9'",
    }.items():
        with pytest.raises(TraceError, match=re.escape(problem) + "$"):
            read(file(*timeouts), timeout="patience_s", latest_ns=5 * 10**9)
    with pytest.raises(ValueError, match=r"unit must be given unless a column ends in it, .* got 'p'$"):
        Trace("t.csv", timeout="p")


def test_a_folder_is_its_files_in_the_order_of_their_names(tmp_path):
    """As Spark writes it; what is hidden or starts with an underscore is none of it; rows count anew."""
    pytest.importorskip("pyarrow")
    write(tmp_path / "part-00001.csv", "arrival_ms,completion_ms\n5,\n6,9\n")
    parquet(tmp_path / "part-00000.parquet", arrival_ms=[1, 2], completion_ms=[3, None])
    write(tmp_path / "part-00002.jsonl", '{"arrival_ms": 6, "completion_ms": 7}')
    for name in ("_SUCCESS", ".part-00000.parquet.crc"):
        write(tmp_path / name, "no trace")
    ms = 10**6
    assert read(str(tmp_path)) == [
        (1, ms, 3 * ms), (2, 2 * ms, NEVER), (1, 5 * ms, NEVER), (2, 6 * ms, 9 * ms), (1, 6 * ms, 7 * ms)
    ]
    trace = Trace(str(tmp_path))
    fractions = [trace.fraction for _ in trace]
    assert sorted(fractions) == fractions
    assert fractions[-1] == trace.fraction == 1


@pytest.mark.parametrize("name", ["b.csv", "b.parquet"])
def test_order_is_checked_from_file_to_file(tmp_path, name):
    """The error names the file and the row in it."""
    pytest.importorskip("pyarrow")
    write(tmp_path / "a.csv", "arrival_ms,completion_ms\n5,\n")
    if name == "b.csv":
        write(tmp_path / name, "arrival_ms,completion_ms\n4,\n")
    else:
        parquet(tmp_path / name, arrival_ms=[4], completion_ms=[4])
    with pytest.raises(TraceError, match=rf"{name}, row 1: arrival_ms must not go back, got '4' after 5$"):
        read(str(tmp_path))


def test_a_folder_without_files_or_with_folders_is_no_trace(tmp_path):
    """Shards each ascend for themselves: they are traces one by one."""
    write(tmp_path / "_SUCCESS", "")
    with pytest.raises(TraceError, match=f"{tmp_path}: the folder holds no files$"):
        read(str(tmp_path))
    (tmp_path / "shard=0").mkdir()
    with pytest.raises(TraceError, match=r": the folder must hold files alone, got folder 'shard=0'$"):
        read(str(tmp_path))


def test_many_rows_of_parquet_come_in_batches(tmp_path):
    """No more than 65,536 at once, in order from one to the next; a damaged file says so."""
    pytest.importorskip("pyarrow")
    count = 150_000
    path = parquet(tmp_path / "t.parquet", arrival_ms=range(count), completion_ms=range(count))
    trace = Trace(path)
    chunks, fractions = [], []
    for chunk in trace:
        chunks.append(chunk)
        fractions.append(trace.fraction)
    assert [len(chunk.arrivals) for chunk in chunks] == [65_536, 65_536, count - 2 * 65_536]
    assert [label for chunk in chunks for label in chunk.labels] == list(range(1, count + 1))
    assert all(isinstance(chunk.labels, range) for chunk in chunks)
    assert sorted(fractions) == fractions
    assert fractions[-1] == 1
    back = parquet(tmp_path / "b.parquet", arrival_ms=[*range(65_536), 7], completion_ms=[None] * 65_537)
    with pytest.raises(TraceError, match=r"row 65537: arrival_ms must not go back, got '7' after 65535$"):
        read(back)
    with open(path, "r+b") as file:
        file.seek(1000)
        file.write(b"\xff" * 5000)
    with pytest.raises(TraceError, match=r"t\.parquet, row \d+: the Parquet file is damaged here: "):
        read(path)


def test_many_rows_come_in_chunks(tmp_path):
    """Each chunk is full but the last, and holds int64 arrays; progress is the share of the file read."""
    count = 2 * CHUNK_ROWS + 1
    lines = "".join(f"{i},{i}\n" for i in range(count))
    trace = Trace(write(tmp_path / "t.csv", "arrival_ms,completion_ms\n" + lines))
    chunks, fractions = [], []
    for chunk in trace:
        chunks.append(chunk)
        fractions.append(trace.fraction)
    assert [len(chunk.labels) for chunk in chunks] == [CHUNK_ROWS, CHUNK_ROWS, 1]
    assert sum((chunk.arrivals for chunk in chunks), array("q")) == array("q", range(0, count * 10**6, 10**6))
    assert all(chunk.arrivals == chunk.completions for chunk in chunks)
    assert sorted(fractions) == fractions
    assert fractions[-1] == trace.fraction == 1


def test_memory_is_bounded(tmp_path):
    """A file twice as long needs no more memory, packed or not."""

    def peak(rows, name):
        lines = "".join(f"{i},{i + 50},{'x' * 1000}\n" for i in range(rows))
        path = write(tmp_path / name, "arrival_ms,completion_ms,note\n" + lines, packed=name.endswith(".gz"))
        del lines
        tracemalloc.start()
        try:
            assert sum(len(chunk.labels) for chunk in Trace(path)) == rows
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    for name in ("t.csv", "t.csv.gz"):
        assert peak(8_000, name) < 1.1 * peak(4_000, name)


def test_every_cut_of_a_gzip_file_is_noticed(tmp_path):
    """However short the file was cut, it is never taken for a whole one."""
    text = "arrival_ms,completion_ms\n" + "".join(f"{i},{i + 7}\n" for i in range(300))
    whole = gzip.compress(text.encode())
    path = tmp_path / "t.csv.gz"
    for size in range(2, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(TraceError, match="truncated"):
            read(str(path))
    path.write_bytes(whole)
    assert len(read(str(path))) == 300


def test_random_damage_is_an_error_or_a_trace(tmp_path, rng):
    """Whatever bytes a file has: requests or one TraceError, nothing else."""
    seeds = {
        "t.csv": ROWS.encode(),
        "t.jsonl": "\n".join(JSON_ROWS).encode(),
        "t.csv.gz": gzip.compress(ROWS.encode()),
    }
    for name, data in seeds.items():
        for _ in range(100):
            damaged = bytearray(data)
            for _ in range(rng.randrange(1, 4)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            path = write(tmp_path / name, bytes(damaged[: rng.randrange(len(damaged) + 1)]))
            with contextlib.suppress(TraceError):
                assert all(arrival <= completion for _, arrival, completion in read(path))


def test_json_written_by_python_is_read_back(tmp_path):
    """What json.dumps writes of a random trace comes back, request by request."""
    random_ = random.Random(7)
    clock, requests, lines = 0, [], []
    for row in range(1, 500):
        clock += random_.randrange(10**6)
        completion = None if random_.random() < 0.1 else clock + random_.randrange(10**9)
        requests.append((row, clock, NEVER if completion is None else completion))
        lines.append(json.dumps({"a_ns": clock, "c_ns": completion}))
    path = write(tmp_path / "t.jsonl", "\n".join(lines))
    assert read(path, arrival="a_ns", completion="c_ns") == requests


def test_a_time_may_be_a_condition_too(tmp_path):
    """It is compared as the file shows it, whether or not a row of its batch breaks a rule."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = str(tmp_path / "t.parquet")
    starts = pa.array([1_000_000, 2_000_000, 3_000_000], pa.timestamp("us"))
    pq.write_table(pa.table({"start": starts, "end_ms": [None, 5000.0, float("nan")]}), path)
    where = [("start", "1970-01-01 00:00:03")]
    trace = Trace(path, arrival="start", completion="end_ms", unit="ms", where=where)
    with pytest.raises(TraceError, match="row 3: end_ms must be a number, got 'nan'"):
        list(trace)


def test_an_empty_name_is_no_column(tmp_path):
    """It does not stand for another one."""
    path = tmp_path / "t.csv"
    path.write_text("arrival_ms,completion_ms\n1,2\n")
    for option in ("timeout", "id"):
        with pytest.raises(TraceError, match="no column ''"):
            list(Trace(str(path), unit="ms", **{option: ""}))
