"""A table's bytes: exact, the same from both cores, and refused when they are not whole."""

import struct
from array import array
from binascii import crc32

import pytest

from tickwheel import _table
from tickwheel._reference.table import TimerTable as ReferenceTable

CORES = {"cython": _table.TimerTable, "python": ReferenceTable}
LEAST, GREATEST = -(2**63), 2**63 - 1


@pytest.fixture(params=CORES)
def make(request):
    return CORES[request.param]


def q(items):
    return array("q", items)


def advanced(table, now):
    ids, deadlines = table.advance(now)
    table._check()
    return list(zip(ids, deadlines, strict=True))


def sealed(saved):
    """These bytes with the checksum that fits."""
    saved = bytes(saved[:-4])
    return saved + struct.pack("=I", crc32(saved))


def lived_in(make, rng, wheel_size=8, n=60):
    """A table with a history: freed slots, later generations, several levels, a due list."""
    table = make(wheel_size, -50)
    for _ in range(3):
        now = table.current_tick
        deadlines = [now + rng.randint(-3, int(2 ** rng.uniform(1, 30))) for _ in range(n)]
        handles = table.schedule_many(q(deadlines))
        table.cancel_many(q(rng.sample(handles.tolist(), n // 3)))
        table.advance(now + rng.randint(0, 500))
    table.schedule_many(q([table.current_tick] * 3))
    return table


@pytest.mark.parametrize("wheel_size", [2, 3, 5, 8, 20, 64, 100, 512, 1000, 4096])
def test_saved_by_one_core_loaded_by_the_other(wheel_size, rng):
    """The same bytes, and tables that behave as the original would have."""
    seed = rng.getrandbits(32)
    originals = {name: lived_in(make, type(rng)(seed), wheel_size) for name, make in CORES.items()}
    (saved,) = {original.to_bytes() for original in originals.values()}
    tables = [*originals.values(), *(make.from_bytes(saved) for make in CORES.values())]
    for restored in tables:
        restored._check()
        assert restored.to_bytes() == saved
    assert len({(len(each), each.current_tick, each.next_expiration()) for each in tables}) == 1
    assert len({each.schedule_many(q(range(-100, 10**6, 9999))).tobytes() for each in tables}) == 1
    for stride in (0, 1, 7, 300, 10**5, 10**12):
        now = tables[0].current_tick + stride
        assert len({repr(advanced(each, now)) for each in tables}) == 1


def test_generations_wrap_to_positive_handles(make):
    """After 2 ** 31 - 1 generations a slot's handles begin anew."""
    table = make()
    table.schedule_many(q([10]))
    saved = bytearray(table.to_bytes())
    struct.pack_into("=I", saved, 64, 2**31 - 1)
    table = make.from_bytes(sealed(saved))
    handle = (2**31 - 1) << 32
    assert table.cancel_many(q([handle])) == 1
    assert table.schedule_many(q([10])).tolist() == [1 << 32]


def test_a_restored_table_knows_its_handles(make):
    """Valid ones stay valid, stale ones stale."""
    table = make()
    handles = table.schedule_many(q([10, 20, 30]))
    table.cancel_many(handles[:1])
    restored = make.from_bytes(table.to_bytes())
    assert restored.cancel_many(handles) == 2
    assert len(table) == 2


def test_from_bytes_takes_any_bytes_and_makes_its_own_class(make):
    """bytearray and memoryview too; a subclass gives instances of itself."""

    class Mine(make):
        def __init__(self):
            raise AssertionError("from_bytes makes a whole table by itself")

    saved = make(16, 5).to_bytes()
    for given in (saved, bytearray(saved), memoryview(saved)):
        assert type(Mine.from_bytes(given)) is Mine


def test_cut_short_or_flipped(make, rng):
    """Every shorter piece and every changed byte is a ValueError of one line."""
    saved = lived_in(make, rng, n=9).to_bytes()
    for damaged in [
        *(saved[:n] for n in range(len(saved))),
        *(saved[:i] + bytes([saved[i] ^ 1 << i % 8]) + saved[i + 1 :] for i in range(len(saved))),
        saved + b"\0",
        saved * 2,
    ]:
        with pytest.raises(ValueError, match="TimerTable") as caught:
            make.from_bytes(damaged)
        assert "\n" not in str(caught.value)


def test_other_versions_are_refused(make):
    """By their number."""
    saved = bytearray(make().to_bytes())
    struct.pack_into("=q", saved, 8, 2)
    with pytest.raises(ValueError, match=r"^bytes of a TimerTable must be of version 1, got 2$"):
        make.from_bytes(sealed(saved))


@pytest.mark.parametrize(
    ("fault", "offset", "change"),
    [
        ("its wheel_size is less than 2", 16, lambda _: 1),
        ("its counts do not agree with its length", 32, lambda used: used + 1),
        ("its counts do not agree with its length", 32, lambda _: -1),
        ("its counts do not agree with its length", 40, lambda _: GREATEST),
        ("its counts do not agree with its length", 48, lambda live: live - 1),
        ("its counts do not agree with its length", 56, lambda _: LEAST),
        ("its due list is missing", 24, lambda time: time + 1),
        ("its due list is missing", 80, lambda _: 0),
        ("a list is longer than the timers that are left", 96, lambda _: 4),
        ("a list is longer than the timers that are left", 96, lambda _: -1),
        ("a level is out of range", 128, lambda _: -2),
        ("a level is out of range", 128, lambda _: 64),
        ("a bucket is out of range", 136, lambda expiration: expiration - 8),
        ("a bucket is out of range", 136, lambda expiration: expiration + 8),
        ("a slot is out of range or named twice", 152, lambda _: 0),
        ("a slot is out of range or named twice", 152, lambda _: 3),
        ("a slot is out of range or named twice", 152, lambda _: -1),
        ("a deadline lies outside its bucket", 160, lambda deadline: deadline + 1),
        ("a deadline lies outside its bucket", 112, lambda _: 1),
    ],
)
def test_contents_that_do_not_fit_together(make, fault, offset, change):
    """Each fault has its own sentence. (A table of one due timer, one to come and one freed.)"""
    table = make(8)
    handles = table.schedule_many(q([0, 3, 5]))
    table.cancel_many(handles[2:])
    saved = bytearray(table.to_bytes())
    # 64 generations and freed, 80 due list, 104 its node, 128 bucket, 152 its node
    struct.pack_into("=q", saved, offset, change(*struct.unpack_from("=q", saved, offset)))
    with pytest.raises(ValueError, match=f"^bytes of a TimerTable do not fit together: {fault}$"):
        make.from_bytes(sealed(saved))


@pytest.mark.parametrize(
    ("fault", "offset", "value"),
    [
        ("a generation is out of range", 64, 0),
        ("a generation is out of range", 64, 2**31),
        ("a freed slot is out of range or named twice", 76, 0),
        ("a freed slot is out of range or named twice", 76, 9),
    ],
)
def test_slots_that_do_not_fit_together(make, fault, offset, value):
    """The same for generations and freed slots."""
    table = make(8)
    table.cancel_many(table.schedule_many(q([0, 3, 5]))[2:])
    saved = bytearray(table.to_bytes())
    struct.pack_into("=I", saved, offset, value)
    with pytest.raises(ValueError, match=f"^bytes of a TimerTable do not fit together: {fault}$"):
        make.from_bytes(sealed(saved))


def test_made_up_bytes_never_crash(rng, soak):
    """Bytes with a good checksum and any contents: both cores refuse them, or load a whole table."""
    accepted = 0
    for _ in range(20_000 if soak else 1500):
        original = lived_in(_table.TimerTable, rng, rng.choice([2, 3, 8]), rng.choice([3, 6]))
        saved = bytearray(original.to_bytes())
        for _ in range(rng.choice([1, 1, 1, 2, 5])):
            at = rng.randrange(24, len(saved) - 8) // 4 * 4  # not wheel_size: a huge one is honoured
            how = rng.random()
            if how < 0.3:
                saved[at] ^= 1 << rng.randrange(8)
            elif how < 0.6:
                struct.pack_into("=q", saved, at, rng.choice([0, 1, -1, 2, LEAST, GREATEST, 2**32, 64]))
            elif how < 0.8:
                source = rng.randrange(24, len(saved) - 8) // 4 * 4
                saved[at : at + 8] = saved[source : source + 8]
            else:
                (value,) = struct.unpack_from("=q", saved, at)
                changed = value + rng.choice([-1, 1, 8, -8])
                struct.pack_into("=q", saved, at, max(LEAST, min(GREATEST, changed)))
        outcomes = set()
        for make in CORES.values():
            try:
                loaded = make.from_bytes(sealed(saved))
            except ValueError as error:
                outcomes.add(str(error))
            else:
                loaded._check()
                assert loaded.to_bytes() == sealed(saved)
                outcomes.add(repr(advanced(loaded, GREATEST)))
                assert len(loaded) == 0
                accepted += 1
        assert len(outcomes) == 1
    assert accepted
