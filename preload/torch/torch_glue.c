/* SPDX-License-Identifier: Apache-2.0 */
/* Python code that marks steps where torch's ranges do not. The interpreter runs it in its main
 * thread. */
#include "preload/torch/torch_glue.h"

#include <stdint.h>

#include "preload/stacks/stacks.h"
#include "preload/steps/steps.h"
#include "writer/writer.h"

/* Marks steps with a torch of unknown layout, by torch's own hook after each optimizer's step (2.0
 * and later). A step() that calls super().step() runs the hook twice; the inner call has the outer
 * call's frame above it. */
static const char optimizer_glue[] =
    "def _cprof_optimizer_glue():\n"
    "    import ctypes, sys\n"
    "    from torch.optim.optimizer import register_optimizer_step_post_hook\n"
    "    ended = ctypes.PyDLL(None).cprof_optimizer_ended\n"
    "    ended.argtypes, ended.restype = [ctypes.c_void_p, ctypes.c_char_p], None\n"
    "    def after(optimizer, args, kwargs):\n"
    "        wrapper = sys._getframe(1)\n"
    "        outer = wrapper.f_back\n"
    "        while outer and outer.f_code is not wrapper.f_code:\n"
    "            outer = outer.f_back\n"
    "        if not outer:\n"
    "            ended(id(optimizer), type(optimizer).__name__.encode(errors='replace'))\n"
    "    register_optimizer_step_post_hook(after)\n"
    "try:\n"
    "    _cprof_optimizer_glue()\n"
    "except Exception as e:\n"
    "    import sys\n"
    "    print('cprof: cannot follow optimizers, only cprof_step() marks steps:', e, "
    "file=sys.stderr)\n"
    "del _cprof_optimizer_glue\n";

/* Marks a step after each outermost module call, except those of torch's losses. This needs Python
 * code, because torch opens no range around a module call. */
static const char forward_glue[] =
    "def _cprof_forward_glue():\n"
    "    import ctypes, inspect, threading\n"
    "    from torch.nn.modules import module as m\n"
    "    from torch.nn.modules.loss import _Loss\n"
    "    mark = ctypes.PyDLL(None).cprof_forward_ended\n"
    "    depth = threading.local()\n"
    "    def before(module, inputs):\n"
    "        if not more and getattr(depth, 'outer', None) is module:\n"
    "            depth.n = 0\n" /* torch before 2.0 calls no hook when forward() raises */
    "        depth.n = getattr(depth, 'n', 0) + 1\n"
    "        if depth.n == 1:\n"
    "            depth.outer = module\n"
    "    def after(module, inputs, output):\n"
    "        depth.n = getattr(depth, 'n', 1) - 1\n"
    "        if depth.n == 0:\n"
    "            depth.outer = None\n"
    /* the loss after the model's call belongs to the model's step */
    "            if not isinstance(module, _Loss):\n"
    "                mark()\n"
    "    more = {}\n"
    "    m.register_module_forward_pre_hook(before)\n"
    "    if 'always_call' in inspect.signature(m.register_module_forward_hook).parameters:\n"
    "        more['always_call'] = True\n"
    "    m.register_module_forward_hook(after, **more)\n"
    "try:\n"
    "    _cprof_forward_glue()\n"
    "except Exception as e:\n"
    "    import sys\n"
    "    print('cprof: CPROF_STEP=forward: cannot hook module calls:', e, file=sys.stderr)\n"
    "del _cprof_forward_glue\n";

void torch_follow_optimizers(void)
{
    python_run_later(optimizer_glue);
}

void torch_follow_forward(void)
{
    if (!python_run_later(forward_glue))
        log_warn("CPROF_STEP=forward: there is no Python in this process; no step will be marked");
}

/* Called by the glue above, holding the GIL. */
__attribute__((visibility("default"))) void cprof_forward_ended(void);
void cprof_forward_ended(void)
{
    steps_mark(STEP_FORWARD, 0);
}
