"""The same random program on asyncio's loop and on ours, in virtual time: the same callbacks in order."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

TICK = 1 / 8192  # on whole ticks both loops fire at the very same times; what a tick holds is another test's

# How far ahead: within a tick or two, a turn of the lowest wheel, of the next, and past it; and behind.
AHEAD = st.one_of(
    st.integers(-3, 20), st.integers(0, 2000), st.integers(0, 600_000), st.integers(0, 300_000_000)
)
WHICH = st.integers(0, 30)  # of the handles made so far
STEP = st.one_of(
    st.tuples(st.just("later"), AHEAD),
    st.tuples(st.just("at"), AHEAD),
    st.tuples(st.just("cancel"), WHICH),
    st.tuples(st.just("move"), WHICH, AHEAD),
    st.tuples(st.just("soon"), st.just(0)),
)
# What is done before the loop runs, and what the first, the second... callback does.
PROGRAM = st.lists(st.lists(STEP, max_size=5), min_size=1, max_size=40)


class Player:
    """Plays a program on one loop and writes down what ran, and when."""

    def __init__(self, loop, program):
        self.loop = loop
        self.program = iter(program)
        self.handles = []
        self.taken = set()  # ticks that have their timer: of one `when`, asyncio leaves the order open
        self.log = []

    def free_tick(self, ahead):
        tick = round(self.loop.time() / TICK) + ahead
        while tick in self.taken:
            tick += 1
        self.taken.add(tick)
        return tick * TICK

    def play(self):
        for step in next(self.program, ()):
            getattr(self, step[0])(*step[1:])

    def ring(self, number):
        self.log.append((number, self.loop.time()))
        self.play()

    def later(self, ahead):
        delay = self.free_tick(ahead) - self.loop.time()
        self.handles.append(self.loop.call_later(delay, self.ring, len(self.handles)))

    def at(self, ahead):
        self.handles.append(self.loop.call_at(self.free_tick(ahead), self.ring, len(self.handles)))

    def soon(self, _):
        self.loop.call_soon(self.ring, "soon")

    def cancel(self, which):
        if self.handles:
            self.handles[which % len(self.handles)].cancel()

    def move(self, which, ahead):
        if self.handles:
            which %= len(self.handles)
            moved = self.reschedule(which, self.free_tick(ahead) - self.loop.time())
            self.log.append(("moved", which, moved))

    def reschedule(self, which, delay):
        return self.handles[which].reschedule(delay)


class StockPlayer(Player):
    """The same without `reschedule`."""

    def reschedule(self, which, delay):
        handle = self.handles[which]
        if not handle._scheduled or handle.cancelled():
            return False
        self.handles[which] = self.loop.call_later(delay, *[handle._callback, *handle._args])
        handle.cancel()
        return True


def played(kind, factory, program):
    loop = factory()
    try:
        player = kind(loop, program)
        player.play()
        loop.run_until_idle()
        ends = [(handle.when(), handle.cancelled()) for handle in player.handles]
    finally:
        loop.close()
    return player.log, ends


def test_a_random_program_runs_as_on_asyncio(virtual_class, stock_virtual_class):
    """call_later, call_at, cancel, reschedule and call_soon, from callbacks and from outside."""

    @settings(suppress_health_check=[HealthCheck.too_slow])
    @given(program=PROGRAM)
    def same(program):
        assert played(Player, virtual_class, program) == played(StockPlayer, stock_virtual_class, program)

    same()


def test_a_random_crowd_runs_in_order(virtual, rng):
    """Many timers anywhere within ticks: by `when` in each turn, and none lost or early."""
    loop = virtual
    ran, gone, live = [], set(), {}

    def ring(number):
        ran.append((live.pop(number).when(), loop.time()))
        for other in rng.sample(sorted(live), min(len(live), 3)):
            if rng.random() < 0.5:
                live.pop(other).cancel()
                gone.add(other)
            else:
                live[other].reschedule(10 ** rng.uniform(-6, 4))
        loop.call_soon(check)

    def check():
        loop_holds = sum(handle._scheduled for handle in live.values())
        assert len(loop) == loop_holds

    for number in range(3000):
        live[number] = loop.call_later(10 ** rng.uniform(-6, 6), ring, number)
    loop.run_until_idle()
    assert (live, len(ran) + len(gone)) == ({}, 3000)
    assert all(now >= when - 1.1e-9 for when, now in ran)
    turns = {}
    for when, now in ran:
        turns.setdefault(now, []).append(when)
    assert list(turns) == sorted(turns)
