# SPDX-License-Identifier: Apache-2.0
"""PyTorch without its compiler until the program uses it. Python loads this file at its start where the folder is in PYTHONPATH.

The first optimizer imports torch._dynamo, and torch.profiler imports torch._inductor. Each takes as long as the rest of torch. The
stand-ins here hold what training in eager mode calls; any other name loads the real modules in their place.
torch itself imports torch.export and the functions of the device "meta", which only the compiler needs: they load with the compiler.
The garbage collector does not run while torch is imported, and never visits the objects of the import. Together that saves almost
half of the time of an empty program.
WHOLE_TORCH=1 in the environment keeps all of torch.
"""

import gc
import os
import sys

STAND_INS = {
    "torch._dynamo": {"disable": lambda function, *rest, **more: function, "graph_break": lambda *rest: None},
    "torch._dynamo.utils": {"get_optimize_ddp_mode": lambda: "ddp_optimizer"},
    "torch._dynamo.trace_rules": {"clear_lru_cache": lambda: None},
    "torch._inductor": {},
    "torch._inductor.config": {"triton": type("triton", (), {"cudagraphs": False})},
    "torch.export": {},
    "torch._meta_registrations": {},
}
PACKAGES = ("torch._dynamo", "torch._inductor", "torch.export", "torch._meta_registrations")
THRESHOLD = gc.get_threshold()[0]


class Finder:
    """Finds the stand-ins, and the real modules below them."""

    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            gc.set_threshold(100_000)
        if name == "torch._meta_registrations":  # one of the last modules that torch imports
            gc.freeze()
            gc.set_threshold(THRESHOLD)
        package = ".".join(name.split(".")[:2])
        if package not in PACKAGES:
            return None
        from importlib.machinery import ModuleSpec, PathFinder  # imported late: programs without torch do not need it
        if name in STAND_INS:
            return ModuleSpec(name, self, is_package=name == package)
        return PathFinder.find_spec(name, real(package).__path__)

    def create_module(self, spec):
        """Returns None: Python makes the module."""

    def exec_module(self, module):
        def more(name):
            if name.startswith("__"):  # code that visits all modules asks for these
                raise AttributeError(name)
            if f"{module.__name__}.{name}" in STAND_INS:
                return importlib.import_module(f"{module.__name__}.{name}")
            return getattr(real(module.__name__), name)

        import importlib
        vars(module).update(STAND_INS[module.__name__], __getattr__=more)
        if module.__name__ == "torch._meta_registrations":
            complete_generators()


def complete_generators():
    """Does what the import of torch._prims.rng_prims does with the functions of the device "meta". torch.Generator() needs it."""
    import torch
    if hasattr(torch._C, "_set_generator_metaclass"):
        from torch._opaque_base import OpaqueBaseMeta
        torch._C._set_generator_metaclass(OpaqueBaseMeta)


FINDER = Finder()


def real(name):
    """Removes all stand-ins and returns the real module."""
    import importlib
    if FINDER in sys.meta_path:
        sys.meta_path.remove(FINDER)
        found = [other for other in STAND_INS if sys.modules.pop(other, None)]
        if "torch._meta_registrations" in found:
            importlib.import_module("torch._meta_registrations")
    return importlib.import_module(name)


if not os.environ.get("WHOLE_TORCH"):
    sys.meta_path.insert(0, FINDER)
