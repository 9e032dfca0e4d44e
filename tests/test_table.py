"""TimerTable, on both cores, against a sorted list and against each other."""

import ctypes
import struct
import sys
import threading
from array import array

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tickwheel import _table
from tickwheel._reference.table import TimerTable as ReferenceTable

CORES = {"cython": _table.TimerTable, "python": ReferenceTable}
LEAST, GREATEST = -(2**63), 2**63 - 1
SIZES = [2, 3, 5, 8, 20, 64, 100, 512, 1000, 4096]
SWAPPED = ctypes.c_int64.__ctype_be__ if sys.byteorder == "little" else ctypes.c_int64.__ctype_le__


@pytest.fixture(params=CORES)
def name(request):
    return request.param


@pytest.fixture
def make(name):
    return CORES[name]


def q(items):
    return array("q", items)


def advanced(table, now):
    ids, deadlines = table.advance(now)
    assert (ids.typecode, deadlines.typecode) == ("q", "q")
    table._check()
    return list(zip(ids, deadlines, strict=True))


# What a table is.


def test_it_fires_in_order(make):
    """Ids and deadlines in ascending order of ticks; what is not due stays."""
    table = make()
    table.schedule_many(q([30, 10, 20, 700]), q([3, 1, 2, 7]))
    assert len(table) == 4
    assert advanced(table, 9) == []
    assert advanced(table, 20) == [(1, 10), (2, 20)]
    assert (len(table), table.current_tick, table.next_expiration()) == (2, 20, 30)
    assert advanced(table, 10**12) == [(3, 30), (7, 700)]
    assert (len(table), table.next_expiration()) == (0, None)


def test_without_ids_the_handle_is_the_id(make):
    """A handle is positive, and comes back as the id."""
    table = make()
    handles = table.schedule_many(q([5, 5, 5]))
    assert min(handles) > 0
    assert advanced(table, 5) == [(handle, 5) for handle in handles]


def test_what_is_already_due_comes_first(make):
    """A deadline at or before the current tick keeps its own value and is out at the next advance."""
    table = make(8, 100)
    table.schedule_many(q([101, 100, 7, LEAST, 102]), q(range(5)))
    assert table.next_expiration() == 100
    assert advanced(table, 99) == []  # an earlier tick changes nothing
    assert (len(table), table.current_tick) == (5, 100)
    assert advanced(table, 100) == [(1, 100), (2, 7), (3, LEAST)]
    assert table.next_expiration() == 101
    table.schedule_many(q([0]), q([9]))
    assert advanced(table, 102) == [(9, 0), (0, 101), (4, 102)]


def test_what_is_due_can_be_cancelled(make):
    """Until the next advance has handed it out."""
    table = make(8, 100)
    handles = table.schedule_many(q([50, 60]))
    assert table.cancel_many(handles[:1]) == 1
    assert advanced(table, 100) == [(handles[1], 60)]


def test_time_never_goes_back(make):
    """R6: an earlier tick returns nothing and moves nothing."""
    table = make()
    table.schedule_many(q([50]))
    table.advance(40)
    assert advanced(table, -(10**9)) == []
    assert table.current_tick == 40


def test_handles_are_good_once(make):
    """Stale, repeated, unknown and made-up handles are counted out and harm nothing."""
    table = make()
    a, b, c, d = table.schedule_many(q([10, 20, 30, 40]))
    assert c == b + 1
    assert table.cancel_many(q([b, b, 0, -1, LEAST, GREATEST, b + 1, b + (1 << 32), 1 << 32 | 99])) == 2
    assert table.cancel_many(q([b, c])) == 0
    assert advanced(table, 10) == [(a, 10)]
    assert table.cancel_many(q([a])) == 0
    fresh = table.schedule_many(q([15, 16, 17]))  # in the same slots
    assert {handle & 0xFFFFFFFF for handle in fresh} == {handle & 0xFFFFFFFF for handle in (a, b, c)}
    assert not {*fresh} & {a, b, c}
    assert table.cancel_many(q([a, b, c, d])) == 1
    assert advanced(table, 100) == [(fresh[0], 15), (fresh[1], 16), (fresh[2], 17)]


def test_a_free_slot_has_no_handle(make):
    """A handle made up from a free slot's coming generation is unknown."""
    table = make()
    (handle,) = table.schedule_many(q([10]))
    table.cancel_many(q([handle]))
    assert table.cancel_many(q([handle + (1 << 32)])) == 0
    table._check()
    assert table.schedule_many(q([10])).tolist() == [handle + (1 << 32)]


def test_empty_batches(make):
    """Nothing in, nothing out."""
    table = make()
    assert table.schedule_many(q([])).tolist() == []
    assert table.schedule_many(q([]), q([])).tolist() == []
    assert table.cancel_many(q([])) == 0
    assert advanced(table, 0) == []


def test_growth_keeps_every_timer(make, rng):
    """The slots move while timers are linked to buckets, to each other and to the due list."""
    table = make(8, 1000)
    expected = []
    for batch in range(200):
        deadlines = [rng.randint(990, 1400) for _ in range(rng.randint(1, 30))]
        ids = [batch * 100 + i for i in range(len(deadlines))]
        table.schedule_many(q(deadlines), q(ids))
        expected += zip(ids, deadlines, strict=True)
    table._check()
    assert sorted(advanced(table, 1400)) == sorted(expected)


# What it takes.


def test_any_int64_buffer(make):
    """array, memoryview, ctypes, numpy, Arrow; also read-only."""
    buffers = [
        q([5, 6]),
        memoryview(q([5, 6])),
        memoryview(struct.pack("=2q", 5, 6)).cast("q"),
        (ctypes.c_int64 * 2)(5, 6),
    ]
    for buffer in buffers:
        table = make()
        handles = table.schedule_many(buffer, buffer)
        assert advanced(table, 9) == [(5, 5), (6, 6)]
        assert table.cancel_many(memoryview(handles)) == 0


def test_numpy_and_arrow(make):
    """Their int64 columns are such buffers, and so are the results."""
    numpy = pytest.importorskip("numpy")
    pyarrow = pytest.importorskip("pyarrow")
    table = make()
    table.schedule_many(numpy.array([3, 4]), numpy.array([8, 9]))
    column = pyarrow.array([5, 6]).buffers()[1]
    handles = table.schedule_many(memoryview(column).cast("q")[:2])
    assert table.cancel_many(numpy.frombuffer(handles, numpy.int64)) == 2
    ids, deadlines = table.advance(10)
    assert numpy.asarray(ids).tolist() == [8, 9]
    assert numpy.asarray(deadlines).dtype == numpy.int64


@pytest.mark.parametrize(
    ("error", "message", "buffer"),
    [
        (TypeError, "must be a buffer of int64, got list", [1, 2]),
        (TypeError, "must be a buffer of int64, got NoneType", None),
        (ValueError, r"must be a buffer of int64 \(format 'q'\), got format 'B'", bytes(16)),
        (ValueError, r"must be a buffer of int64 \(format 'q'\), got format 'd'", array("d", [1.0])),
        (ValueError, r"must be a buffer of int64 \(format 'q'\), got format 'Q'", array("Q", [1])),
        (ValueError, r"must be a buffer of int64 \(format 'q'\), got format 'i'", array("i", [1])),
        (
            ValueError,
            "must be contiguous and have one dimension, got 1, strides",
            memoryview(array("q", range(9)))[::2],
        ),
        (
            ValueError,
            "must be contiguous and have one dimension, got 2, strides",
            memoryview(bytes(32)).cast("q", (2, 2)),
        ),
        (ValueError, r"must be a buffer of int64 \(format 'q'\), got format '[<>]q'", (SWAPPED * 2)()),
    ],
)
def test_other_buffers_are_refused(make, error, message, buffer):
    """One line that names the argument, the rule and the value seen; nothing is scheduled."""
    table = make()
    with pytest.raises(error, match="^deadline_ticks " + message):
        table.schedule_many(buffer)
    if buffer is not None:
        with pytest.raises(error, match="^ids " + message):
            table.schedule_many(q([1]), buffer)
    with pytest.raises(error, match="^handles " + message):
        table.cancel_many(buffer)
    assert len(table) == 0


def test_lengths_must_match(make):
    """The error names both."""
    with pytest.raises(ValueError, match=r"^ids must be as many as deadline_ticks, got 1 and 2$"):
        make().schedule_many(q([1, 2]), q([1]))


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (ValueError, "^wheel_size must be >= 2, got 1$", {"wheel_size": 1}),
        (ValueError, "^wheel_size must be >= 2, got -512$", {"wheel_size": -512}),
        (ValueError, f"^wheel_size must fit 64 bits, got {2**63}$", {"wheel_size": 2**63}),
        (ValueError, f"^start_tick must fit 64 bits, got {-(2**63) - 1}$", {"start_tick": -(2**63) - 1}),
        (TypeError, "float", {"start_tick": 1.0}),
        (TypeError, "str", {"wheel_size": "8"}),
    ],
)
def test_bad_arguments(make, error, message, arguments):
    """Named, with the rule and the value."""
    with pytest.raises(error, match=message):
        make(**arguments)


def test_a_tick_is_an_int64(make):
    """`advance` takes no other number."""
    table = make()
    with pytest.raises(ValueError, match=f"^now_tick must fit 64 bits, got {2**63}$"):
        table.advance(2**63)
    with pytest.raises(TypeError):
        table.advance(1.5)
    assert table.current_tick == 0


# One call at a time.


def test_a_concurrent_call_is_refused(make, name):
    """RuntimeError, and nothing changed; reading the length is fine."""
    table = make()
    batch = q(i * 7919 % 60_000 + 1 for i in range(2_000_000 if name == "cython" else 100_000))
    refused = []

    def others():
        while not refused:
            assert len(table) >= 0
            try:
                table.schedule_many(q([1]))
            except RuntimeError as error:
                refused.append(str(error))

    thread = threading.Thread(target=others)
    handles = []
    thread.start()
    try:
        while not refused:
            try:
                handles.append(table.schedule_many(batch))
                table.cancel_many(handles.pop())
            except RuntimeError as error:
                refused.append(str(error))
    finally:
        refused.append("over")
        thread.join()
    assert refused[0] == "TimerTable is in use by another call"
    table._check()


# Memory.


def test_bytes_a_timer():
    """At most 40, whether a million come at once or little by little; `nbytes` counts everything."""
    deadlines = q(i * 7919 % 60_000 + 1 for i in range(1_000_000))
    table = _table.TimerTable()
    table.schedule_many(deadlines)
    assert table.nbytes <= 40 * len(table)
    little = _table.TimerTable()
    for i in range(0, len(deadlines), 10_000):
        little.schedule_many(deadlines[i : i + 10_000])
        assert little.nbytes <= 41 * len(little) + 100_000
    assert little.nbytes <= 40 * len(little)


NO_MEMORY = """
import resource
import sysconfig
from array import array
from tickwheel._table import TimerTable

def most(room):
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + room, resource.RLIM_INFINITY))

n = 1_000_000
table = TimerTable(64)
few = table.schedule_many(array("q", range(1, 101)))
many = array("q", [7]) * n
most(n * 20)
try:
    table.schedule_many(many)
except MemoryError as error:
    print(error)
table._check()
print(len(table), table.current_tick)
most(1 << 40)
handles = table.schedule_many(many)
for room in (n, n) if sysconfig.get_config_var("Py_GIL_DISABLED") else (n, n * 6):
    most(room)  # for the stack of free slots, then for the results, which mimalloc has room for beforehand
    try:
        table.advance(50)
    except MemoryError as error:
        print(error)
    most(1 << 40)
    table._check()
    print(len(table))
print(table.cancel_many(few[:1]), table.cancel_many(handles[:5]))
ids, deadlines = table.advance(50)
table._check()
print(len(ids), ids[:3].tolist() == [*few[1:4]], deadlines == array("q", sorted(deadlines)), len(table))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the address space")
@pytest.mark.parametrize("core", ["cython"], indirect=True)
def test_out_of_memory_leaves_everything_as_it_was(fresh):
    """Nothing is scheduled by half, and what came due comes at the next advance."""
    assert fresh(NO_MEMORY).splitlines() == [
        "no memory for 1000000 more timers",
        "100 0",
        *["no memory for the timers that are due", "1000100"] * 2,
        "1 5",
        f"{1_000_000 + 44} True True 50",
    ]


# Any sequence of operations.


class Machine(RuleBasedStateMachine):
    """Both cores and a sorted list are driven with the same operations; the cores agree to the order."""

    @initialize(
        wheel_size=st.sampled_from(SIZES),
        start=st.integers(-100, 100) | st.integers(LEAST, GREATEST),
    )
    def start(self, wheel_size, start):
        self.tables = {name: make(wheel_size, start) for name, make in CORES.items()}
        self.now = start
        self.due = []  # (deadline, id) in the order they were scheduled
        self.coming = []
        self.handles = {}  # id -> handle; ids are never used twice
        self.stale = [0]
        self.next_id = 0

    def both(self, call):
        one, other = (call(table) for table in self.tables.values())
        assert one == other
        return one

    @rule(distances=st.lists(st.integers(-5, 50) | st.integers(0, 8192) | st.integers(0, 2**62), max_size=30))
    def schedule(self, distances):
        deadlines = [max(LEAST, min(GREATEST, self.now + distance)) for distance in distances]
        ids = range(self.next_id, self.next_id + len(deadlines))
        self.next_id += len(deadlines)
        handles = self.both(lambda table: table.schedule_many(q(deadlines), q(ids)))
        assert len({*handles} | {*self.handles.values()}) == len(handles) + len(self.handles)
        for identity, deadline, handle in zip(ids, deadlines, handles, strict=True):
            self.handles[identity] = handle
            (self.due if deadline <= self.now else self.coming).append((deadline, identity))

    @precondition(lambda self: self.handles)
    @rule(data=st.data())
    def cancel(self, data):
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.handles)), max_size=10))
        stale = data.draw(st.lists(st.sampled_from(self.stale), max_size=3))
        given = data.draw(st.permutations([*(self.handles[identity] for identity in chosen), *stale]))
        assert self.both(lambda table: table.cancel_many(q(given))) == len({*chosen})
        self.forget({*chosen})
        self.due = [timer for timer in self.due if timer[1] not in chosen]
        self.coming = [timer for timer in self.coming if timer[1] not in chosen]

    def forget(self, ids):
        self.stale += [self.handles.pop(identity) for identity in ids]

    @rule(stride=st.integers(-10, 20) | st.integers(0, 9999) | st.sampled_from([3_600_000, 10**10, 2**50]))
    def advance(self, stride):
        now = max(LEAST, min(GREATEST, self.now + stride))
        ids, deadlines = self.both(lambda table: table.advance(now))
        fired = list(zip(deadlines, ids, strict=True))
        if now < self.now:
            assert fired == []
            return
        self.now = now
        expected = sorted(timer for timer in self.coming if timer[0] <= now)
        assert fired[: len(self.due)] == self.due
        assert [deadline for deadline, _ in fired[len(self.due) :]] == [deadline for deadline, _ in expected]
        assert sorted(fired[len(self.due) :]) == expected
        self.due = []
        self.coming = [timer for timer in self.coming if timer[0] > now]
        self.forget({*ids})

    @rule()
    def save_and_restore_on_the_other_core(self):
        saved = self.both(lambda table: table.to_bytes())
        self.tables = {name: make.from_bytes(saved) for name, make in CORES.items()}
        assert self.both(lambda table: table.to_bytes()) == saved

    @rule()
    def ask(self):
        expiration = self.both(lambda table: table.next_expiration())
        if self.due:
            assert expiration == self.now
        elif self.coming:
            assert self.now < expiration <= min(self.coming)[0]
        else:
            assert expiration is None

    @invariant()
    def whole(self):
        for table in getattr(self, "tables", {}).values():
            table._check()
            assert len(table) == len(self.handles) == len(self.due) + len(self.coming)
            assert table.current_tick == self.now


TestMachine = Machine.TestCase
