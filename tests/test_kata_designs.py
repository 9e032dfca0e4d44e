"""The stream kata's designs, each on a short stream: what must come of it, whatever the machine's speed."""
import json
from dataclasses import asdict, replace

import pytest

pytest.importorskip("hdrh.histogram", reason="the extra `pipeline`")

from tickwheel.bench.kata import cell
from tickwheel.bench.kata.designs import DESIGNS, OURS
from tickwheel.bench.kata.results import Row, sentence, verdicts
from tickwheel.bench.kata.run import Sample, Setting, run

SHORT = Setting(OURS, duration=2.0, clients=50)


def sample_of(**changes):
    setting = replace(SHORT, **changes)
    print(setting)
    return setting, cell.measure(setting)


def test_ours_processes_each_event_once_and_in_order():
    """No event out of order, no duplicate passed on, none lost: each of the stream, exactly once."""
    setting, sample = sample_of(duplicates=0.2)
    delivered = setting.stream()[: sample.delivered]
    assert (sample.violations, sample.duplicates, sample.refused, sample.lost) == (0, 0, 0, 0)
    assert sample.waiting == 0
    assert sample.events == len({row.uuid for row in delivered})
    assert sample.processed == sample.processed_events == sample.events
    assert sample.dropped == sum(row.again for row in delivered) > 0
    assert sample.at_end.latency.recorded <= sample.events


@pytest.mark.parametrize("threads", [1, 3])
def test_ours_keeps_its_order_when_it_cannot_keep_up(threads):
    """With threads too few the events wait: for longer, and in order."""
    _, sample = sample_of(threads=threads, consume=0.005, rate=300.0, clients=5, duration=1.0)
    assert (sample.violations, sample.duplicates, sample.lost, sample.waiting) == (0, 0, 0, 0)
    assert sample.processed == sample.events


def test_the_sequential_one_falls_behind():
    """At 10 ms each it has done 250 at most in 2 s, of 2,000; those in order, and duplicates are not its
    business. (The work of 250 would be 25 standard deviations short.)"""
    _, sample = sample_of(design="sequential", duplicates=0.2)
    assert sample.due > 1500
    assert sample.delivered == sample.processed < 250
    assert sample.at_end.backlog > 1250
    assert sample.at_end.queue_length is None
    assert (sample.violations, sample.refused, sample.lost, sample.waiting, sample.dropped) == (0, 0, 0, 0, 0)
    assert sample.duplicates == sample.processed - sample.processed_events


@pytest.mark.parametrize("design", ["pool-10", "pool-20"])
def test_the_naive_pools_pass_everything_on(design):
    """What was delivered was processed or waits; nothing is dropped."""
    setting, sample = sample_of(design=design, duplicates=0.2)
    assert sample.processed + sample.waiting == sample.delivered
    assert (sample.refused, sample.lost, sample.dropped) == (0, 0, 0)
    delivered = setting.stream()[: sample.delivered]
    assert sample.waiting or sample.duplicates == sum(row.again for row in delivered)


def test_a_naive_pool_works_on_one_client_from_many_threads():
    """All events are one client's, and there is always another one: all but the first violate its order."""
    _, sample = sample_of(design="pool-10", clients=1, duration=1.0, duplicates=0.0)
    assert sample.violations > sample.processed / 2


def test_the_failing_lock_loses_what_it_refuses():
    """Two clients for 20 threads: most events find the lock taken. Each delivery is processed or refused."""
    _, sample = sample_of(design="lock-fails", clients=2, duration=1.0, duplicates=0.0)
    assert sample.waiting == 0
    assert sample.processed + sample.refused == sample.delivered
    assert sample.refused == sample.lost > 0


def test_an_event_that_was_refused_may_come_again():
    """Then it is no loss: lost are the events of which nothing was processed."""
    _, sample = sample_of(design="lock-fails", clients=2, duration=1.0, duplicates=0.5)
    assert sample.waiting == 0
    assert sample.processed + sample.refused == sample.delivered
    assert sample.lost == sample.events - sample.processed_events


def test_the_waiting_lock_loses_when_it_gives_up():
    """One client, 0.3 s of work: of 20 threads that wait for its lock at most 4 can have it in a second."""
    _, sample = sample_of(
        design="lock-waits", clients=1, consume=0.3, rate=30.0, duration=2.0, duplicates=0.0
    )
    assert sample.refused == sample.lost > 0
    assert sample.processed + sample.refused + sample.waiting == sample.delivered


def test_the_waiting_lock_works_on_a_client_from_one_thread_at_a_time():
    """With patience enough it loses nothing."""
    _, sample = sample_of(design="lock-waits", duration=1.0, rate=300.0, consume=0.002)
    assert (sample.refused, sample.lost, sample.waiting) == (0, 0, 0)
    assert sample.processed == sample.delivered


def test_all_designs_get_the_same_deliveries():
    """The plan is the setting's without the design's name."""
    plans = [replace(SHORT, design=name).stream() for name in DESIGNS]
    assert all(plan == plans[0] for plan in plans)


def test_the_moments_are_those_of_each_second():
    """One a second, the last at the stream's end; what they count only grows."""
    sample = run(replace(SHORT, duration=2.5, rate=100.0, consume=0.001))
    assert [moment.at_s for moment in sample.moments] == [1, 2, 2.5]
    processed = [moment.processed for moment in sample.moments]
    assert processed == sorted(processed)
    assert sample.at_end.processed + sample.dropped + sample.at_end.backlog == sample.due


def test_a_sample_survives_the_way_out_of_its_process():
    """As JSON it is the same."""
    sample = run(replace(SHORT, duration=0.2, rate=50.0, consume=0.001))
    assert Sample.of_json(json.loads(json.dumps(asdict(sample)))) == sample


def test_a_stream_of_nothing():
    """No event falls into so short a time."""
    sample = run(replace(SHORT, duration=1e-6, rate=1.0, consume=1e-7))
    assert (sample.due, sample.processed, sample.at_end.backlog) == (0, 0, 0)


def test_a_run_that_fails_has_its_reason():
    """It is the row's note; the others go on."""
    row = Row(replace(SHORT, design="no such design"))
    row.measure(cell.measure)
    assert row.sample is None
    assert row.note == "failed: KeyError: 'no such design'"
    assert sentence(row) == "no such design: failed: KeyError: 'no such design'."
    assert verdicts([row]) == []


QUIET = run(replace(SHORT, duration=0.2, rate=50.0, consume=0.001))


def row(design=OURS, backlog=0, *, setting=SHORT, **seen):
    at_end = replace(QUIET.at_end, at_s=30.0, backlog=backlog)
    sample = replace(QUIET, moments=[at_end], events=10, **({"processed_events": 10} | seen))
    return Row(replace(setting, design=design), sample)


@pytest.mark.parametrize(("backlog", "keeps_up"), [(0, True), (113, True), (114, False)])
def test_what_keeps_up(backlog, keeps_up):
    """At 1,000 a second and 10 ms: what is being worked on, and what came in a tenth of a second."""
    assert row(backlog=backlog).keeps_up is keeps_up
    assert Row(SHORT).keeps_up is None


def test_the_sentences():
    """Whether it keeps up, and its faults by name."""
    falls = row("sequential", 27_000, duplicates=3)
    assert sentence(falls).startswith("sequential falls behind: 27,000 wait after 30 s, and those begun in ")
    assert sentence(falls).endswith(" s old; 3 duplicates passed on.")
    fails = row("lock-fails", violations=4, lost=5)
    assert sentence(fails).endswith("; 4 out of order, 5 events lost.")
    assert sentence(row()).startswith("keyed-pool keeps up: half of the events wait ")
    assert sentence(row()).endswith(" ms or less; all in order, each once, nothing lost.")


def test_the_promises():
    """They are judged for the keyed pool; that it keeps up where threads and clients allow it."""
    kept = verdicts([row("sequential", violations=9), row()])
    assert [(verdict.seen, verdict.holds) for verdict in kept] == [(0, True)] * 4
    broken = verdicts([row(backlog=500, violations=1, duplicates=2, processed_events=7)])
    assert [(verdict.seen, verdict.holds) for verdict in broken] == [
        (1, False), (2, False), (3, False), (500, False),
    ]
    for narrow in replace(SHORT, threads=10), replace(SHORT, clients=10):
        assert len(verdicts([row(setting=narrow)])) == 2


def test_a_silent_loss_is_named():
    """What was delivered and is not accounted for stands beside the figures."""
    assert sentence(row(waiting=7)).endswith("; 7 deliveries not processed 5 s later either.")
