"""Timer: `threading.Timer` with one wheel behind all of them, instead of a thread for each.

    from tickwheel.dropin.threading import Timer

It is a `threading.Timer` to `isinstance`, and while its function runs it is `threading.current_thread()`.
What differs, and why: docs/dropins.md.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from _thread import get_ident
from collections.abc import Callable, Iterable, Mapping
from contextvars import Context
from threading import current_thread
from typing import Any, Final

from tickwheel._core import TimerTask
from tickwheel.dropin.sharedwheel import shared

__all__ = ["Timer"]

# The stages of a timer. Between the two it is alive, in the process in which it was started.
_NEW: Final = object()
_STOPPED: Final = object()

_run: Final = threading.Timer.run  # any other is called, in a thread of its own


class _Here(threading.local):
    """What a timer inherits from the thread that makes it: asked of the thread once, not for each timer."""

    def __init__(self) -> None:
        self.daemon = current_thread().daemon


_here: Final = _Here()


class Timer(threading.Timer):
    """Call `function(*args, **kwargs)` after `interval` seconds, in a thread of a small pool.

    Starting and cancelling one are O(1), and no thread waits for it. A subclass that overrides `run()`
    gets a thread of its own, since its `run` may wait as long as it likes.

    >>> timer = Timer(30.0, print, args=["too late"])
    >>> timer.start()
    >>> timer.cancel()
    """

    # Names that a subclass of the user's cannot meet by chance: `threading`'s own, or with two underscores.
    # What is seldom set costs nothing until then; the constructor sets what start and cancel read.
    __stage: object = None  # _NEW, shared.process or _STOPPED; None: not constructed
    __stopped: threading.Event | None = None  # made for the first that joins
    __stand_in: threading.Thread | None = None  # whose place it takes while its function runs
    _name: str | None = None
    _ident: int | None = None
    _native_id: int | None = None
    # Those that `threading` reads: its excepthook where there is no sys.stderr, and a child of fork.
    _stderr = None
    _started = threading.Event()
    _tstate_lock = None

    def __init__(
        self,
        interval: float,
        function: Callable[..., object],
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.interval = interval
        self.function = function
        self.args = [] if args is None else args
        self.kwargs = {} if kwargs is None else kwargs
        self._daemonic = _here.daemon
        self.__stage = _NEW
        self.__task: TimerTask | None = None
        self.__done = False  # what `finished` says, which is made when somebody asks for it
        self.__finished: threading.Event | None = None

    def start(self) -> None:
        """Let the interval begin. O(1). RuntimeError: it has been started before."""
        if self.__stage is not _NEW:
            raise RuntimeError(
                "thread.__init__() not called" if self.__stage is None else "threads can only be started once"
            )
        self.__stage = shared.process
        if type(self).run is _run:
            try:
                wheel = shared.daemonic if self._daemonic else shared.holding
                self.__task = wheel.schedule(self.interval, self.__fire)
            except Exception:
                # Intervals that no wheel takes (None, infinite, a string), and the interpreter's exit. In a
                # thread of its own it does as the original, also in what it raises, and where.
                pass
        if self.__task is None:
            self.__start_thread()
        if self.__done:  # cancelled before, or just now by a thread that saw no task yet
            self.__finish()

    def cancel(self) -> None:
        """Stop the timer, unless its function has started: then nothing but `finished` changes. O(1)."""
        self.__done = True
        if self.__task is not None and self.__task.cancel():
            self.__stop()
        if self.__finished is not None:
            self.__finished.set()

    def __finish(self) -> None:
        """What `cancel` does, whatever a subclass makes of that."""
        Timer.cancel(self)

    def __stop(self) -> None:
        self.__stage = _STOPPED
        if self.__stopped is not None:
            self.__stopped.set()
        if shared.ended is not None:
            shared.ended.set()

    @property
    def finished(self) -> threading.Event:
        """Set when the timer was cancelled or its function has returned; to set it is to cancel."""
        with shared.making:
            if self.__finished is None:
                self.__finished = _Finished(self)
        if self.__done:  # looked at after it is there to be found: one of the two sides sees the other
            self.__finished.set()
        return self.__finished

    @finished.setter
    def finished(self, event: threading.Event) -> None:
        self.__finished = event

    def _follow_finished(self, is_set: bool) -> None:
        """Somebody has set or cleared the event."""
        if not is_set:
            self.__done = False
        elif not self.__done:
            self.__finish()

    # In the thread that is its own, if only for a while

    def __start_thread(self) -> None:
        thread = threading.Thread(target=self.__live, args=(self.run,), name=self.name, daemon=self._daemonic)
        try:
            thread.start()
        except BaseException:
            self.__stage = _NEW
            raise
        self._ident = thread.ident
        self._native_id = thread.native_id

    def __fire(self) -> None:
        """In a thread of the pool."""
        self.__live(self.__call)

    def __call(self) -> None:
        if not (self.__done if self.__finished is None else self.__finished.is_set()):
            _call_as_in_new_thread(self.function, self.args, self.kwargs)
        self.__finish()

    def __live(self, run: Callable[[], None]) -> None:
        """Be the current thread, run, and stop."""
        ident = get_ident()
        self._ident, self._native_id = ident, threading.get_native_id()
        self.__stand_in = _active.get(ident)
        _put_in_place(ident, self)
        _here.daemon = self._daemonic
        try:
            run()
        except BaseException:
            _report(self)
        finally:
            _put_in_place(ident, self.__stand_in)
            self.__stand_in = None
            self.__stop()

    def _step_aside(self, ident: int) -> None:
        """The function in this thread forks: let `threading` see who was here before."""
        _put_in_place(ident, self.__stand_in)

    def _go_on_in_child(self) -> None:
        self.__stage = shared.process

    # What a thread is asked

    def join(self, timeout: float | None = None) -> None:
        """Wait until it was cancelled or its function has returned, for `timeout` seconds at most.

        RuntimeError: it has not been started, or this is the thread in which its function runs.
        """
        if self.__stage is None:
            raise RuntimeError("Thread.__init__() not called")
        if self.__stage is _NEW:
            raise RuntimeError("cannot join thread before it is started")
        if self is current_thread():
            raise RuntimeError("cannot join current thread")
        with shared.making:
            if self.__stopped is None:
                self.__stopped = threading.Event()
        if self.__stage is shared.process:  # looked at after the event is there to be found
            self.__stopped.wait(None if timeout is None else max(timeout, 0))

    def is_alive(self) -> bool:
        """Whether it was started, and neither was cancelled in time nor has its function returned."""
        return self.__stage is shared.process

    @property
    def name(self) -> str:
        """That of the thread while the function runs: `Thread-N`, the N that is next when it is asked."""
        with shared.making:
            if self._name is None:
                self._name = threading.Thread().name
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = str(name)

    @property
    def daemon(self) -> bool:
        """Whether the interpreter's exit does not wait for it; at first, as the thread that made it.

        RuntimeError on setting it: it has been started.
        """
        return self._daemonic

    @daemon.setter
    def daemon(self, daemonic: bool) -> None:
        if self.__stage is None:
            raise RuntimeError("Thread.__init__() not called")
        if self.__stage is not _NEW:
            raise RuntimeError("cannot set daemon status of active thread")
        self._daemonic = daemonic

    @property
    def ident(self) -> int | None:
        """That of the thread in which its function runs or ran; None before."""
        return self._ident

    @property
    def native_id(self) -> int | None:
        """The system's number of that thread; None before."""
        return self._native_id

    def __repr__(self) -> str:
        stage = "initial" if self.__stage is _NEW else "started" if self.is_alive() else "stopped"
        daemon = " daemon" if self._daemonic else ""
        ident = "" if self._ident is None else f" {self._ident}"
        return f"<{type(self).__name__}({self.name}, {stage}{daemon}{ident})>"


class _Finished(threading.Event):
    """`Timer.finished`: to set it is to cancel the timer."""

    def __init__(self, timer: Timer) -> None:
        super().__init__()
        self._timer_ref = weakref.ref(timer)

    def set(self) -> None:
        super().set()
        timer = self._timer_ref()
        if timer is not None:
            timer._follow_finished(True)

    def clear(self) -> None:
        super().clear()
        timer = self._timer_ref()
        if timer is not None:
            timer._follow_finished(False)


def _call_as_in_new_thread(
    function: Callable[..., object], args: Iterable[Any], kwargs: Mapping[str, Any]
) -> None:
    """Traced as `threading` would, and in an empty context: the next function in this thread must not see
    what this one sets."""
    trace, profile = threading.gettrace(), threading.getprofile()
    if trace is not None:
        sys.settrace(trace)
    if profile is not None:
        sys.setprofile(profile)
    try:
        Context().run(function, *args, **kwargs)
    finally:
        if trace is not None:
            sys.settrace(None)
        if profile is not None:
            sys.setprofile(None)


def _report(timer: Timer) -> None:
    """To `threading.excepthook`; what that raises goes to `sys.excepthook`."""
    try:
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), timer)))
    except Exception as error:
        error.__suppress_context__ = True
        if sys.stderr is not None:
            print("Exception in threading.excepthook:", file=sys.stderr, flush=True)
        sys.excepthook(*sys.exc_info())


# What `threading.current_thread` and `enumerate` read: there is no public way to say who a thread is.
_active: Final[dict[int, threading.Thread]] = threading._active  # type: ignore[attr-defined]
_aside: Final[dict[int, Timer]] = {}  # those that fork, by thread


def _put_in_place(ident: int, thread: threading.Thread | None) -> None:
    with threading._active_limbo_lock:  # type: ignore[attr-defined]  # read anew: fork replaces it
        if thread is None:
            del _active[ident]
        else:
            _active[ident] = thread


def _before_fork() -> None:
    """`threading` must find in the child a thread that it made itself, or none: then it makes one."""
    ident = get_ident()
    timer = _active.get(ident)
    if isinstance(timer, Timer):
        _aside[ident] = timer
        timer._step_aside(ident)


def _after_fork_in_parent() -> None:
    ident = get_ident()
    if ident in _aside:
        _put_in_place(ident, _aside.pop(ident))


def _after_fork_in_child() -> None:
    """The timer whose function forked, if one did, is alive in the child too."""
    timer = _aside.get(get_ident())
    _aside.clear()
    if timer is not None:
        timer._go_on_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )
