"""`tickwheel bench purgatory`: the benchmark of Kafka's proposal, all designs under the same load."""
from __future__ import annotations

from argparse import Namespace, RawDescriptionHelpFormatter, _SubParsersAction
from math import inf
from typing import Any

from tickwheel.cli.bench_quantities import (
    chosen,
    count,
    keys_of,
    latency_ms,
    listed,
    size_bytes,
    target_rate,
    wheel_size,
)
from tickwheel.cli.bench_run import Page, run_rows
from tickwheel.cli.output_options import add_output_options
from tickwheel.cli.quantities import duration_ns


def add_parser(subparsers: _SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "purgatory",
        help="the benchmark of Kafka's purgatory proposal: old designs and ours under the same load",
        description="Each run (design, latency, keys, rate) is measured in a fresh process.\n"
        "The whole benchmark takes hours; narrow it down with the options.",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--designs", metavar="A,B", help="which designs (default: all; a wrong name lists them)")
    add("--latency", type=listed(latency_ms), default="low,high", metavar="A,B",
        help="low (20/60 ms), high (200/400 ms) or P50/P75 such as 30ms/90ms (default %(default)s)")
    add("--rates", type=listed(target_rate), default="10k,25k,50k,100k,200k,400k,max,80%", metavar="R,R",
        help="target rates a second; max: as fast as it goes; 80%%: of what max reached "
             "(default 10k,25k,50k,100k,200k,400k,max,80%%)")
    add("--requests", type=count, default="1e6", metavar="N", help="of a run (default %(default)s)")
    add("--keys", type=listed(keys_of), default="3/100,1000/10000", metavar="K/SPACE,..",
        help="keys that a request watches, of how many; with more than 10 there are fewer requests, at lower "
             "rates, in proportion (default %(default)s)")
    add("--timeout", type=duration_ns, default="200ms", metavar="DURATION", help="(default %(default)s)")
    add("--tick", type=duration_ns, default="1ms", metavar="DURATION", help="(default %(default)s)")
    add("--wheel-size", type=listed(wheel_size), default="20,512", metavar="N,N",
        help="buckets a wheel (default %(default)s)")
    add("--memory-limit", type=size_bytes, metavar="SIZE",
        help="how much the data segment may grow, such as 200M (default: without limit)")
    add("--patience", type=duration_ns, default="60s", metavar="DURATION",
        help="a run ends when it is so far behind its schedule (default %(default)s)")
    add("--gc", choices=("on", "off"), default="on", help="the garbage collector (default %(default)s)")
    add("--switch-interval", type=duration_ns, default="1ms", metavar="DURATION",
        help="of the interpreter's threads; Python's own default is 5ms (default %(default)s)")
    add("--rounds", type=count, default=1, metavar="N", help="runs of each (default %(default)s)")
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    from tickwheel.bench.purgatories import DESIGNS
    from tickwheel.bench.purgatory.plan import Rate, plan_requests, plan_runs
    from tickwheel.bench.purgatory.run import Setting
    from tickwheel.bench.purgatory.witness import can_limit_memory
    from tickwheel.cli.bench_purgatory_text import as_json, as_text, heading

    rates = [Rate(*rate) for rate in args.rates]
    if any(rate.of_own is not None for rate in rates) and Rate(inf) not in rates:
        raise ValueError("--rates must contain max where there is a share of it")
    if args.memory_limit is not None and not can_limit_memory():
        raise ValueError("--memory-limit must be left out here: the system has no limit for a data segment")
    designs = chosen("--designs", args.designs, tuple(DESIGNS))
    base = Setting(
        designs[0],
        tick=args.tick / 1e9,
        timeout=args.timeout / 1e9,
        requests=args.requests,
        gc=args.gc,
        switch_interval=args.switch_interval / 1e9,
        memory_limit=args.memory_limit,
        patience=args.patience / 1e9,
    )
    runs = plan_runs(
        base,
        designs=designs,
        wheel_sizes=args.wheel_size,
        latencies=args.latency,
        rates=rates,
        keys=args.keys,
    )
    requests = plan_requests(base, designs=designs, wheel_sizes=args.wheel_size)

    def page() -> Page:
        from tickwheel.cli.bench_purgatory_page import PurgatoryPage

        return PurgatoryPage(base, runs, requests)

    return run_rows(
        args, [*requests, *runs], args.rounds, page=page, heading=lambda: heading(base, runs),
        as_json=lambda: as_json(base, runs, requests), as_text=lambda: as_text(runs, requests),
    )
