"""What stories in a fresh process need to fork: source text, put before theirs."""

IN_CHILD = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)   # fork with threads running is the point here

def in_child(story):
    "Runs the story in a forked child; True if the child ended well."
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            story()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""
