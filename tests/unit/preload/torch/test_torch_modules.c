/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/torch/torch_modules.h in a real interpreter, if this machine has one as a
 * shared library, with a stand-in for the parts of torch that the hooks use. */
#include "preload/torch/torch_modules.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/core/life.h"
#include "tests/support/alloc.h"
#include "tests/support/capture.h"

static int (*run_text)(const char *);
static const char key_of_range[] = "a key";
static char seen[64][128]; /* path of the module in which look(n) was called */

static bool start_python(void)
{
    char name[32];
    void *python = NULL;
    for (int minor = 14; alloc_is_ours && !python && minor >= 9; minor--) {
        snprintf(name, sizeof name, "libpython3.%d.so.1.0", minor);
        python = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    }
    if (!python)
        return false;
    void (*initialize)(int) = (void (*)(int))dlsym(python, "Py_InitializeEx");
    run_text = (int (*)(const char *))dlsym(python, "PyRun_SimpleString");
    initialize(0);
    return true;
}

/* Switches the hooks as a step edge does. */
static void switch_now(bool on)
{
    torch_modules_switch(on);
    torch_modules_settle();
}

static void run(const char *code)
{
    ck_assert_int_eq(run_text(code), 0);
}

static void look(int n)
{
    uint32_t len = 0;
    const char *path = thread_log_self ? modules_path(span_module(thread_log_self), &len) : NULL;
    snprintf(seen[n], sizeof seen[n], "%.*s", path ? (int)len : 0, path ? path : "");
}

static const char torch[] =
    "import ctypes, gc, sys, types\n"
    "def stand_in(name, **fields):\n"
    "    module = types.ModuleType(name)\n"
    "    module.__spec__ = types.SimpleNamespace(_initializing=False)\n"
    "    module.__dict__.update(fields)\n"
    "    sys.modules[name] = module\n"
    "    return module\n"
    "befores, afters = [], []\n"
    "class Handle:\n"
    "    def __init__(self, hooks, hook):\n"
    "        self.hooks, self.hook = hooks, hook\n"
    "        hooks.append(hook)\n"
    "    def remove(self):\n"
    "        self.hooks.remove(self.hook)\n"
    "nn = stand_in('torch.nn.modules.module', _global_forward_hooks_always_called={},\n"
    "    register_module_forward_pre_hook=lambda hook: Handle(befores, hook),\n"
    "    register_module_forward_hook=lambda hook, always_call: Handle(afters, hook))\n"
    "asked = []\n"
    "class Module:\n"
    "    look = None\n"
    "    def __getattr__(self, name):\n"
    "        asked.append(name)\n"
    "        raise AttributeError(name)\n"
    "    def __init__(self, **children):\n"
    "        self.children = children\n"
    "    def named_modules(self, prefix=''):\n"
    "        yield prefix, self\n"
    "        for name, child in self.children.items():\n"
    "            yield from child.named_modules(prefix + ('.' if prefix else '') + name)\n"
    "    def __call__(self):\n"
    "        for hook in list(befores):\n"
    "            assert hook(self, ()) is None\n"
    "        try:\n"
    "            self.forward()\n"
    "        finally:\n"
    "            for hook in list(afters):\n"
    "                assert hook(self, (), None) is None\n"
    "    def forward(self):\n"
    "        for child in self.children.values():\n"
    "            child()\n"
    "        if self.look is not None:\n"
    "            look(self.look)\n"
    "class Net(Module): pass\n"
    "class Leaf(Module): pass\n"
    "def wait():\n"
    "    for i in range(1000): pass\n";

static bool prepare(void)
{
    if (!start_python())
        return false;
    capture_start();
    atomic_store(&cprof_life, LIFE_AWAKE);
    clock_start();
    ck_assert(thread_log_start(1u << 20));
    writer_set_gate(GATE_SPANS);
    run(torch);
    char code[128];
    snprintf(code, sizeof code, "look = ctypes.PYFUNCTYPE(None, ctypes.c_int)(%lu)\n",
             (unsigned long)(uintptr_t)look);
    run(code);
    torch_modules_start();
    return true;
}

static void switch_to(bool on)
{
    switch_now(on);
    run("wait()\n");
}

START_TEST(installs_and_removes_hooks)
{
    if (!prepare())
        return;
    run("assert not befores and not afters\n");
    for (int i = 0; i < 3; i++) {
        switch_to(true);
        run("assert len(befores) == len(afters) == 1\n");
        switch_to(true);
        run("assert len(befores) == len(afters) == 1\n");
        switch_to(false);
        run("assert not befores and not afters and 'before' not in globals()\n");
        run("assert not any(getattr(f, '__name__', '') == 'Watch' for f in sys.meta_path)\n");
    }
    ck_assert_str_eq(capture_stderr(), "");
}
END_TEST

START_TEST(names_modules_by_path)
{
    if (!prepare())
        return;
    switch_to(true);
    run("a, b = Leaf(), Leaf()\n"
        "a.look, b.look = 0, 1\n"
        "net = Net(first=a, inner=Module(second=b))\n"
        "net.look = 2\n"
        "net()\n"
        "look(3)\n"
        "b.look = 4\n"
        "b()\n" /* called alone, b still has its path */
        "c = Leaf()\n"
        "c.look = 5\n"
        "net.forward = c\n" /* c is no module's child */
        "net()\n"
        "d = Leaf()\n"
        "d.look = 6\n"
        "net.forward = d\n"
        "net.children['late'] = d\n"
        "net()\n"
        "class Script(Module): original_name = 'Model'\n"
        "e = Script()\n"
        "e.look = 7\n"
        "e()\n"
        "class Broken(Leaf):\n"
        "    def named_modules(self): raise KeyError\n"
        "f = Broken()\n"
        "f.look = 8\n"
        "f()\n");
    static const char *const expected[] = {
        "Net.first",  "Net.inner.second", "Net",   "",      "Net.inner.second",
        "Net.(Leaf)", "Net.late",         "Model", "Broken"};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        ck_assert_str_eq(seen[i], expected[i]);
    /* Module.__getattr__() reads the module's __dict__, which makes later attributes slower: 20 ns
     * a call in CPython 3.11. */
    run("assert not asked, asked\n");
    ck_assert_uint_eq(atomic_load(&thread_log_self->depth), 0);
    ck_assert_str_eq(capture_stderr(), "");
}
END_TEST

/* cprof keeps no module alive, and gives a module at a dead module's address its own name. */
START_TEST(keeps_no_module_alive)
{
    if (!prepare())
        return;
    switch_to(true);
    run("import weakref\n"
        "class Other(Leaf): pass\n"
        "ids, reused = set(), 0\n"
        "for i in range(50):\n"
        "    m = (Net if i % 2 else Other)(child=Leaf())\n"
        "    reused += id(m) in ids\n"
        "    ids.add(id(m))\n"
        "    m.look = i\n"
        "    m()\n"
        "    ref = weakref.ref(m)\n"
        "    del m\n"
        "    assert ref() is None\n"
        "assert reused\n");
    for (int i = 0; i < 50; i++)
        ck_assert_str_eq(seen[i], i % 2 ? "Net" : "Other");
    run("kept = Net()\n"
        "kept()\n"
        "ref = weakref.ref(kept)\n");
    switch_to(false);
    run("kept = None\n"
        "assert ref() is None\n");
}
END_TEST

/* Hooks are removed while modules run, and return when those modules are dead. cprof must not touch
 * the dead modules, and later code is in no module. */
START_TEST(survives_hook_removal_inside_a_module)
{
    if (!prepare())
        return;
    char code[256];
    snprintf(code, sizeof code,
             "switch = ctypes.PYFUNCTYPE(None, ctypes.c_bool)(%lu)\n"
             "def leave():\n"
             "    switch(False)\n"
             "    wait()\n",
             (unsigned long)(uintptr_t)switch_now);
    run(code);
    for (int i = 0; i < 20; i++) {
        switch_to(true);
        run("net = Net(a=Module(b=Leaf()))\n"
            "net.children['a'].children['b'].forward = leave\n"
            "net()\n"
            "del net\n"
            "gc.collect()\n"
            "junk = [bytes(size) for size in range(2000)]\n");
        ck_assert_uint_eq(atomic_load(&thread_log_self->depth), 3);
        if (i % 2) /* below a range of another kind */
            span_open(thread_log_self, key_of_range, CAT_USER_ANNOTATION, "range", 5);
        switch_to(true);
        run("class New(Leaf): pass\n"
            "new = New(c=Leaf())\n"
            "new.look, new.children['c'].look = 0, 1\n"
            "new()\n"
            "look(2)\n");
        ck_assert_str_eq(seen[0], "New");
        ck_assert_str_eq(seen[1], "New.c");
        ck_assert_str_eq(seen[2], "");
        if (i % 2)
            span_close(thread_log_self, key_of_range);
        switch_to(false);
        torch_modules_enter(thread_log_self);
        ck_assert_uint_eq(atomic_load(&thread_log_self->depth), 0);
        ck_assert_uint_eq(atomic_load(&thread_log_self->losses[LOSS_UNMATCHED]), 0);
    }
}
END_TEST

START_TEST(waits_for_the_import_of_torch)
{
    if (!prepare())
        return;
    run("nn.__spec__._initializing = True\n");
    switch_to(true);
    run("assert not befores\n"
        "nn.__spec__._initializing = False\n");
    switch_to(true); /* as a later operator does */
    run("assert len(befores) == 1\n");
    ck_assert_str_eq(capture_stderr(), "");
}
END_TEST

static const char dynamo[] =
    "class Callbacks:\n"
    "    def __init__(self): self.start_callbacks = []\n"
    "    def register_start_callback(self, callback): self.start_callbacks.append(callback)\n"
    "handler = Callbacks()\n"
    "def bring_dynamo():\n"
    "    stand_in('torch._dynamo.callback', callback_handler=handler)\n"
    "    stand_in('torch._dynamo.eval_frame', cached_backends={1: None})\n"
    "    stand_in('torch._dynamo.utils', counters={'frames': {}})\n"
    "    return stand_in('torch._dynamo')\n"
    "def frame(): return sys.modules['torch._dynamo.eval_frame']\n";

START_TEST(removes_hooks_when_dynamo_compiles)
{
    if (!prepare())
        return;
    run(dynamo);
    switch_to(true);
    run("for finder in sys.meta_path: finder.find_spec('torch._dynamo', None)\n"
        "assert not befores\n" /* hooks are removed before the import begins */
        "bring_dynamo().__spec__._initializing = True\n");
    switch_to(true);
    run("assert not befores\n"
        "sys.modules['torch._dynamo'].__spec__._initializing = False\n");
    switch_to(true);
    run("assert len(befores) == len(handler.start_callbacks) == 1\n"
        "assert frame().cached_backends == {1: None}\n");
    ck_assert_str_eq(capture_stderr(), "");
    run("handler.start_callbacks[0]('args')\n" /* dynamo compiles */
        "assert not befores and type(frame().cached_backends) is dict\n"
        "assert frame().cached_backends == {1: None}\n");
    ck_assert_uint_eq(capture_lines(capture_stderr(), "torch.compile is used"), 1);
    switch_to(true);
    run("assert not befores\n");
    ck_assert_uint_eq(capture_lines(capture_stderr(), ""), 1);
}
END_TEST

START_TEST(removes_hooks_when_torch_compile_is_called)
{
    if (!prepare())
        return;
    run(dynamo);
    run("bring_dynamo()\n");
    switch_to(true);
    run("assert befores\n"
        "frame().cached_backends.setdefault(2, None)\n" /* as disable() does */
        "assert befores\n"
        "backend = object()\n"
        "assert frame().cached_backends.setdefault(3, backend) is backend\n"
        "assert not befores and frame().cached_backends == {1: None, 2: None, 3: backend}\n"
        "assert type(frame().cached_backends) is dict\n");
    ck_assert_uint_eq(capture_lines(capture_stderr(), "torch.compile is used"), 1);
}
END_TEST

START_TEST(installs_no_hooks_without_dynamos_callbacks)
{
    if (!prepare())
        return;
    run(dynamo);
    run("bring_dynamo()\n"
        "del sys.modules['torch._dynamo.callback']\n");
    switch_to(true);
    run("assert not befores\n");
    ck_assert_uint_eq(capture_lines(capture_stderr(), "cannot tell when torch.compile is used"), 1);
}
END_TEST

/* torch before 2.0 runs no hook when forward() raises. */
START_TEST(recovers_from_exceptions_before_torch_2)
{
    if (!prepare())
        return;
    run("del nn._global_forward_hooks_always_called\n"
        "nn.register_module_forward_hook = lambda hook: Handle(afters, hook)\n"
        "def call(self):\n"
        "    for hook in list(befores): hook(self, ())\n"
        "    self.forward()\n"
        "    for hook in list(afters): hook(self, (), None)\n"
        "Module.__call__ = call\n");
    switch_to(true);
    run("class Raises(Leaf):\n"
        "    def forward(self): raise ValueError\n"
        "net = Net(a=Raises())\n"
        "for i in range(3):\n"
        "    try: net()\n"
        "    except ValueError: pass\n"
        "net.children = {}\n"
        "net.look = 0\n"
        "net()\n"
        "look(1)\n");
    ck_assert_str_eq(seen[0], "Net");
    ck_assert_str_eq(seen[1], "");
    ck_assert_uint_eq(atomic_load(&thread_log_self->losses[LOSS_UNMATCHED]), 0);
}
END_TEST

START_TEST(does_nothing_without_python)
{
    switch_now(true); /* not started yet */
    torch_modules_start();
    switch_now(true);
    switch_now(false);
}
END_TEST

Suite *suite_torch_modules(void)
{
    Suite *suite = suite_create("torch_modules");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 30);
    tcase_add_test(all, does_nothing_without_python);
    tcase_add_test(all, installs_and_removes_hooks);
    tcase_add_test(all, names_modules_by_path);
    tcase_add_test(all, keeps_no_module_alive);
    tcase_add_test(all, survives_hook_removal_inside_a_module);
    tcase_add_test(all, waits_for_the_import_of_torch);
    tcase_add_test(all, removes_hooks_when_dynamo_compiles);
    tcase_add_test(all, removes_hooks_when_torch_compile_is_called);
    tcase_add_test(all, installs_no_hooks_without_dynamos_callbacks);
    tcase_add_test(all, recovers_from_exceptions_before_torch_2);
    suite_add_tcase(suite, all);
    return suite;
}
