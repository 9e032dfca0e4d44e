"""Reading requests: exact times, three formats, nothing dropped, bounded memory."""
import contextlib
import gzip
import json
import random
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
