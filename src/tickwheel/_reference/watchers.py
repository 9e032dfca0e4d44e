"""Who watches which key, in plain Python: the mirror of `_watchers.pxd`.

Here a list of watches is a dict of operations by their `id`, which leaves no more to do than
the links of the compiled core: O(1), and no code of an operation's own.

Destructors and signal handlers may run in the section too, after almost any call, and come back here. So each
step that must be whole is one without a call: the caller's lock keeps other threads out, not these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

Operation = TypeVar("Operation")


class Watchers(Generic[Operation]):
    """The operations that watch one key, in the order in which they came."""

    __slots__ = ("gone", "hash", "key", "operations", "pins")

    def __init__(self, key: object, hash: int) -> None:
        self.key = key
        self.hash = hash
        self.operations: dict[int, Operation] = {}
        self.pins = 1
        self.gone = False  # on their way out of the table: nobody finds them any more


class WatchTable(Generic[Operation]):
    """Keys and their watchers. In the caller's section, but for the keys' `__eq__`, which is the caller's."""

    def __init__(self) -> None:
        self.chains: dict[int, tuple[Watchers[Operation], ...]] = {}  # by the key's hash
        self.version = 0  # of the chains
        self.watched = 0  # (operation, key) pairs

    def chain(self, hash: int) -> tuple[Watchers[Operation], ...]:
        return self.chains.get(hash, ())

    def pin(self, watchers: Watchers[Operation]) -> bool:
        """Keep them in the table until `unpin`. False: they are gone."""
        if watchers.gone:
            return False
        watchers.pins += 1
        return True

    def unpin(self, watchers: Watchers[Operation]) -> None:
        watchers.pins -= 1
        self._tidy(watchers)

    def add(self, watchers: Watchers[Operation], version: int) -> bool:
        """Add watchers for a key that has none, if the chains are still those of `version`."""
        chain = (*self.chain(watchers.hash), watchers)
        if self.version != version:
            return False
        self.chains[watchers.hash] = chain
        self.version += 1
        return True

    def link(self, watchers: Watchers[Operation], operation: Operation) -> None:
        """An operation that is linked already stays where it is."""
        number = id(operation)
        if number not in watchers.operations:
            watchers.operations[number] = operation
            self.watched += 1

    def unlink(self, watchers: Watchers[Operation], operation: Operation) -> bool:
        """Whether it was there."""
        number = id(operation)
        if number not in watchers.operations:
            return False
        del watchers.operations[number]
        self.watched -= 1
        self._tidy(watchers)
        return True

    def _tidy(self, watchers: Watchers[Operation]) -> None:
        """Take watchers that nobody needs out of the table."""
        if watchers.operations or watchers.pins > 0 or watchers.gone:
            return
        watchers.gone = True
        while True:
            version = self.version
            rest = tuple([each for each in self.chain(watchers.hash) if each is not watchers])
            if self.version == version:
                if rest:
                    self.chains[watchers.hash] = rest
                else:
                    del self.chains[watchers.hash]
                self.version += 1
                return

    def __iter__(self) -> Iterator[Watchers[Operation]]:
        return (watchers for chain in list(self.chains.values()) for watchers in chain)

    def check(self) -> None:
        """AssertionError that names what is broken."""
        watched = 0
        for hash, chain in self.chains.items():
            for watchers in chain:
                assert watchers.hash == hash, "W1: watchers are in another slot than their hash's"
                assert watchers.operations or watchers.pins > 0, (
                    "W2: watchers without a watch and without a pin are in the table"
                )
                watched += len(watchers.operations)
        assert watched == self.watched, "I4: the lists of watches do not add up to `watched`"
