# SPDX-License-Identifier: Apache-2.0
"""PyTorch without its compiler. Python loads this file at its start where the folder is in PYTHONPATH.

The first optimizer imports torch._dynamo, and torch the shapes that its compiler needs. Both take longer than the rest of torch.
"""

import importlib.abc
import importlib.machinery
import sys

LEFT_OUT = ("torch._dynamo", "torch._meta_registrations")


class Empty(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules that are left out, and what an optimizer calls of them."""

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name in LEFT_OUT else None

    def exec_module(self, module):
        if module.__name__ == "torch._dynamo":
            module.disable = lambda function, *rest, **more: function
            module.graph_break = lambda *rest: None


sys.meta_path.insert(0, Empty())
