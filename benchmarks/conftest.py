"""The front methods on both cores: the fixtures that give a test the package on each are the tests' own."""
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_spec = spec_from_file_location("both_cores", Path(__file__).parents[1] / "tests" / "conftest.py")
_both_cores = module_from_spec(_spec)
_spec.loader.exec_module(_both_cores)

core, tw = _both_cores.core, _both_cores.tw
