"""The purgatories that the benchmark compares: ours, the designs that it replaces, each as well as it can be
built in plain Python, and none at all.

`interface` says what the benchmark asks of each. `old` keeps completed operations until a purge; `ring`,
`thread` and `sparse` share the watcher lists of `watching`, which a completed operation leaves at once,
and differ in how they find what is due.
"""
from tickwheel.bench.purgatories.bare import BarePurgatory
from tickwheel.bench.purgatories.interface import Purgatory
from tickwheel.bench.purgatories.old import OldPurgatory
from tickwheel.bench.purgatories.ring import RingPurgatory
from tickwheel.bench.purgatories.sparse import SparsePurgatory
from tickwheel.bench.purgatories.thread import ThreadPurgatory
from tickwheel.bench.purgatories.wheel import PurgedWheelPurgatory, WheelPurgatory

DESIGNS: dict[str, type[Purgatory]] = {
    design.name: design
    for design in (
        WheelPurgatory, PurgedWheelPurgatory, OldPurgatory, SparsePurgatory, RingPurgatory, ThreadPurgatory,
        BarePurgatory,
    )
}
