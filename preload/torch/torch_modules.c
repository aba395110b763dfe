/* SPDX-License-Identifier: Apache-2.0 */
/* Records which nn.Module runs, by hooks on module calls. The hooks are C functions that use
 * CPython's stable ABI. Python code finds a module's path, once per module. The hooks, and all
 * functions that Python calls, run with the GIL held. Nothing here keeps a module alive. */
#define _GNU_SOURCE
#include "preload/torch/torch_modules.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/core/core.h"
#include "preload/torch/module_table.h"
#include "preload/stacks/stacks.h"
#include "preload/link/link.h"
#include "preload/torch/torch.h"

/* ns between attempts while torch is not loaded or Python's queue is full */
#define TRY_AGAIN_NS UINT64_C(20000000)
#define MISSED_LEAST 1000u /* operators without modules that are reported */

bool torch_modules_wanted;
_Atomic uint32_t torch_modules_times;

static _Atomic bool on;         /* the hooks are wanted in torch; stepping thread writes */
static _Atomic bool stand;      /* the hooks are in torch; written with the GIL held */
static _Atomic bool queued;     /* change() is scheduled; any thread */
static _Atomic bool switched;   /* `on` was set since the last torch_modules_settle(); any thread */
static _Atomic bool broken;     /* eager modules are off for good */
static _Atomic unsigned missed; /* operators that began while change() was scheduled */
static _Atomic uint64_t tried_ns; /* when change() was last scheduled; any thread */
/* this torch (before 2.0) runs no hook when forward() raises; with the GIL held */
static bool stale_ends;

/* ---- CPython: the stable ABI, so no header is needed ---- */

typedef struct python_object object;

struct method {
    const char *name;
    object *(*call)(object *self, object *const *args, intptr_t n);
    int flags;
    const char *doc;
};
#define FASTCALL   0x80 /* METH_FASTCALL */
#define FILE_INPUT 257  /* Py_file_input */

static struct {
    object *(*new_function)(struct method *, object *self, object *module);
    object *(*new_dict)(void);
    int (*set_item)(object *dict, const char *key, object *value);
    object *(*get_item)(object *dict, const char *key); /* borrowed */
    object *(*builtins)(void);                          /* borrowed */
    object *(*run)(const char *code, int start, object *globals, object *locals, void *flags);
    object *(*call)(object *callable, ...); /* arguments until NULL */
    const char *(*text)(object *unicode, intptr_t *len);
    object *(*new_text)(const char *text, intptr_t len);
    void *(*as_pointer)(object *number);
    void (*increase)(object *o);
    void (*decrease)(object *o);
    void (*print_error)(void);
    void (*clear_error)(void);
    int (*error_is)(object *type);
    void (*set_error)(object *type, object *value);
    object *(*type_of)(object *o);
    object *none, *exception;
} py;

/* False: a function is missing, so this is no CPython that cprof knows. */
static bool find_python(void)
{
#define FIND(field, name) *(void **)&py.field = loader_symbol(RTLD_DEFAULT, name)
    FIND(new_function, "PyCFunction_NewEx");
    FIND(new_dict, "PyDict_New");
    FIND(set_item, "PyDict_SetItemString");
    FIND(get_item, "PyDict_GetItemString");
    FIND(builtins, "PyEval_GetBuiltins");
    FIND(run, "PyRun_StringFlags");
    FIND(call, "PyObject_CallFunctionObjArgs");
    FIND(text, "PyUnicode_AsUTF8AndSize");
    FIND(new_text, "PyUnicode_FromStringAndSize");
    FIND(as_pointer, "PyLong_AsVoidPtr");
    FIND(increase, "Py_IncRef");
    FIND(decrease, "Py_DecRef");
    FIND(print_error, "PyErr_Print");
    FIND(clear_error, "PyErr_Clear");
    FIND(error_is, "PyErr_ExceptionMatches");
    FIND(set_error, "PyErr_SetObject");
    FIND(type_of, "PyObject_Type");
    FIND(none, "_Py_NoneStruct");
    object **exception = loader_symbol(RTLD_DEFAULT, "PyExc_Exception");
    py.exception = exception ? *exception : NULL;
#undef FIND
    return py.new_function && py.new_dict && py.set_item && py.get_item && py.builtins && py.run &&
           py.call && py.text && py.new_text && py.as_pointer && py.increase && py.decrease &&
           py.clear_error && py.error_is && py.set_error && py.type_of && py.none && py.exception;
}

static object *return_none(void)
{
    py.increase(py.none);
    return py.none;
}

/* ---- Python code that finds the paths of modules, and installs and removes the hooks ----
 *
 * Under torch.compile, dynamo would trace the hooks and compile again when they are removed, and
 * torch warns of them. So they are installed only while nothing is compiled. They are removed when
 * torch._dynamo is imported (and come back when it can be watched), when torch.compile is called
 * (it puts its backend into a dictionary), and before anything is compiled. */
static const char glue[] =
    "import sys, weakref\n"
    "handles, refs, searched, backends = [], {}, {}, []\n"
    "WHY = 'torch.compile is used, and hooks on modules would make it compile again'\n"
    "class Watch:\n"
    "    @staticmethod\n"
    "    def find_spec(name, path=None, target=None):\n"
    "        if name == 'torch._dynamo':\n"
    "            disarm()\n"
    "        return None\n"
    "def compiling(*unused):\n"
    "    if handles:\n"
    "        disarm()\n"
    "        stop(WHY)\n"
    "class Backends(dict):\n"
    "    def setdefault(self, key, value=None):\n"
    "        if value is not None:\n"
    "            compiling()\n"
    "        return dict.setdefault(sys.modules['torch._dynamo.eval_frame'].cached_backends, key, "
    "value)\n"
    "def watch_backends(frame):\n"
    "    backends.append(frame.cached_backends)\n"
    "    frame.cached_backends = Backends(frame.cached_backends)\n"
    "def leave_backends():\n"
    "    frame, real = sys.modules['torch._dynamo.eval_frame'], backends.pop()\n"
    "    real.clear()\n"
    "    real.update(frame.cached_backends)\n"
    "    frame.cached_backends = real\n"
    "def dynamo():\n" /* None: dynamo is not imported; else whether it allows the hooks */
    "    package = sys.modules.get('torch._dynamo')\n"
    "    if package is None:\n"
    "        return None\n"
    "    if package.__spec__._initializing:\n"
    "        return False\n"
    "    callbacks = sys.modules.get('torch._dynamo.callback')\n"
    "    handler = getattr(callbacks, 'callback_handler', None)\n"
    "    if not hasattr(handler, 'register_start_callback'):\n"
    "        stop('this version of torch cannot tell when torch.compile is used')\n"
    "        return False\n"
    "    frame = sys.modules['torch._dynamo.eval_frame']\n"
    "    used = any(b is not None for b in getattr(frame, 'cached_backends', {}).values())\n"
    "    if used or any(sys.modules['torch._dynamo.utils'].counters['frames'].values()):\n"
    "        stop(WHY)\n"
    "        return False\n"
    "    if compiling not in handler.start_callbacks:\n"
    "        handler.register_start_callback(compiling)\n"
    "    if hasattr(frame, 'cached_backends') and not backends:\n"
    "        watch_backends(frame)\n"
    "    return True\n"
    "def arm():\n" /* returns whether the hooks are installed */
    "    module = sys.modules.get('torch.nn.modules.module')\n"
    "    if module is None or module.__spec__._initializing or handles:\n"
    "        return bool(handles)\n"
    "    watched = dynamo()\n"
    "    if watched is False:\n"
    "        return False\n"
    "    if watched is None:\n"
    "        sys.meta_path.insert(0, Watch)\n"
    "    always = {}\n"
    "    if hasattr(module, '_global_forward_hooks_always_called'):\n"
    "        always['always_call'] = True\n"
    "    else:\n"
    "        ends_may_lack()\n"
    "    handles.append(module.register_module_forward_pre_hook(before))\n"
    "    handles.append(module.register_module_forward_hook(after, **always))\n"
    "    return True\n"
    "def disarm():\n"
    "    gone()\n"
    /* a new list, because an import that walks the old list would skip a finder */
    "    if Watch in sys.meta_path:\n"
    "        sys.meta_path = [finder for finder in sys.meta_path if finder is not Watch]\n"
    "    if backends:\n"
    "        leave_backends()\n"
    "    for handle in handles:\n"
    "        handle.remove()\n"
    "    for some in handles, refs, searched:\n"
    "        some.clear()\n"
    "def learn(module, path):\n"
    "    key = id(module)\n"
    "    def dead(ref):\n"
    "        forget(key)\n"
    "        refs.pop(key, None)\n"
    "        searched.pop(key, None)\n"
    "    refs[key] = weakref.ref(module, dead)\n"
    "    know(key, path)\n"
    "def learn_below(top, path):\n"
    "    for name, module in top.named_modules():\n"
    "        learn(module, path + '.' + name if name else path)\n"
    /* The name of a module's class; TorchScript keeps the original one. Tests the type, because the
     * module's __getattr__ is the program's code */
    "def called(module):\n"
    "    name = module.original_name if hasattr(type(module), 'original_name') else None\n"
    "    return name if isinstance(name, str) else type(module).__name__\n"
    "def of_signal(error):\n" /* whether one of the program's signal handlers raised the error */
    "    signal = sys.modules.get('signal')\n"
    "    codes = [getattr(signal.getsignal(n), '__code__', None) for n in range(1, signal.NSIG)] "
    "if signal else []\n"
    "    step = error.__traceback__\n"
    "    while step is not None and step.tb_frame.f_code not in codes:\n"
    "        step = step.tb_next\n"
    "    return step is not None\n"
    /* Finds the path of a module that is called for the first time. parent: the module that calls
     * it. Returns an exception for the program, or None */
    "def ask(module, parent, path):\n"
    "    own = type(module).__name__\n"
    "    try:\n"
    "        own = called(module)\n"
    "        if parent is None:\n"
    "            learn_below(module, own)\n"
    "            return\n"
    "        times = searched[id(parent)] = searched.get(id(parent), 0) + 1\n"
    /* limits searches of a parent that makes new modules for each call */
    "        if times <= 4:\n"
    "            learn_below(parent, path)\n"
    "        if id(module) not in refs:\n"
    "            learn(module, path + '.(' + own + ')')\n"
    "    except Exception as error:\n"
    "        learn(module, own if path is None else path + '.(' + own + ')')\n"
    "        return error if of_signal(error) else None\n";

static object *ask_python, *arm_python, *disarm_python;

/* ---- what Python calls ---- */

static object *know(object *self, object *const *args, intptr_t n)
{
    (void)self;
    intptr_t len = 0;
    const char *path = n == 2 ? py.text(args[1], &len) : NULL;
    uint32_t id = path ? modules_id(path, len > MODULE_PATH ? MODULE_PATH : (uint32_t)len) : 0;
    if (id == 0 || !module_table_put(py.as_pointer(args[0]), id))
        thread_log_lost(NULL, LOSS_MODULE, 1);
    py.clear_error(); /* set if the name is not valid Unicode */
    return return_none();
}

static object *forget(object *self, object *const *args, intptr_t n)
{
    (void)self;
    if (n == 1)
        module_table_remove(py.as_pointer(args[0]));
    return return_none();
}

static object *ends_may_lack(object *self, object *const *args, intptr_t n)
{
    (void)self, (void)args, (void)n;
    stale_ends = true;
    return return_none();
}

/* The glue removes the hooks now. */
static object *gone(object *self, object *const *args, intptr_t n)
{
    (void)self, (void)args, (void)n;
    atomic_store(&stand, false);
    atomic_fetch_add(&torch_modules_times, 1);
    module_table_clear();
    return return_none();
}

static object *stop(object *self, object *const *args, intptr_t n)
{
    (void)self;
    intptr_t len;
    const char *why = n == 1 ? py.text(args[0], &len) : NULL;
    if (!atomic_exchange(&broken, true)) {
        char note[200];
        snprintf(note, sizeof note, "eager modules are not recorded: %s", why ? why : "");
        log_warn("CPROF_WITH_MODULES: %s", note);
        writer_note(note);
    }
    return return_none();
}

/* ---- the hooks ---- */

static bool is_module(const struct open_span *span)
{
    return atomic_load_explicit(&span->category, memory_order_relaxed) == CAT_MODULE;
}

/* The innermost module that is open on this thread, or NULL. A module whose end hook did not run
 * may be dead by now. Its span counts only if the table has the same path for its address. */
static const struct open_span *innermost_module(const struct thread_log *log)
{
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed);
    while (depth > 0) {
        const struct open_span *span = &log->spans[--depth];
        uint64_t id = atomic_load_explicit(&log->extras[depth][EXTRA_MODULE], memory_order_relaxed);
        if (is_module(span) && module_table_find(span_key(span)) == id)
            return span;
    }
    return NULL;
}

/* Before torch 2.0, a module whose forward() raised stays open. Closes the outermost module if it
 * is the one that is called again. */
static void close_stale(struct thread_log *log, const void *module)
{
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed);
    for (uint32_t i = 0; i < depth; i++) {
        const struct open_span *span = &log->spans[i];
        if (!is_module(span))
            continue;
        if (span_key(span) == module)
            span_close(log, module);
        return;
    }
}

/* Whether ask() leaves an exception for the program: one that a signal handler raised, or one that
 * is no Exception, such as KeyboardInterrupt. Others are cprof's own and are cleared. */
static bool leaves_exception(object *answer)
{
    if (answer && answer != py.none) {
        object *type = py.type_of(answer);
        py.set_error(type, answer);
        py.decrease(type);
        return true;
    }
    if (answer)
        return false;
    if (!py.error_is(py.exception))
        return true;
    py.clear_error();
    return false;
}

/* The id of the module's path; 0: unknown, or, with *raised, an exception is set. */
static uint32_t find_path_id(const struct thread_log *log, object *module, bool *raised)
{
    uint32_t id = module_table_find(module);
    *raised = false;
    if (id != 0)
        return id;
    const struct open_span *parent = innermost_module(log);
    struct text name = parent ? span_name(log, parent) : (struct text){0};
    object *path = parent ? py.new_text(name.at, name.len) : NULL;
    object *done = py.call(ask_python, module, path ? (object *)(uintptr_t)parent->key : py.none,
                           path ? path : py.none, NULL);
    if (path)
        py.decrease(path);
    *raised = leaves_exception(done);
    if (done)
        py.decrease(done);
    return *raised ? 0 : module_table_find(module);
}

static object *before(object *self, object *const *args, intptr_t n)
{
    (void)self;
    struct thread_log *log = n > 0 && gate_open(GATE_SPANS) ? thread_log_get() : NULL;
    if (!log || !guard_enter())
        return return_none();
    torch_modules_enter(log);
    if (stale_ends)
        close_stale(log, args[0]);
    guard_leave();
    bool raised;
    uint32_t len = 0;
    /* outside the guard, because this runs Python, whose releases are recorded */
    uint32_t id = find_path_id(log, args[0], &raised);
    if (raised)
        return NULL;
    const char *path = modules_path(id, &len);
    if (!path || !guard_enter())
        return return_none();
    struct open_span *span = span_open(log, args[0], CAT_MODULE, path, len);
    if (span) {
        span_add_flags(span, REC_ENDS_LATE); /* at the latest with the span around it */
        span_set_extra(log, span, EXTRA_MODULE, id);
    }
    guard_leave();
    return return_none();
}

static object *after(object *self, object *const *args, intptr_t n)
{
    (void)self;
    if (n > 0 && thread_log_self && guard_enter()) {
        span_close(thread_log_self, args[0]);
        guard_leave();
    }
    return return_none();
}

/* ---- on and off ---- */

/* A new reference to a global of the glue. */
static object *glue_global(object *globals, const char *name)
{
    object *found = py.get_item(globals, name);
    if (found)
        py.increase(found);
    return found;
}

static bool load_glue(void)
{
    static struct method methods[] = {
        {"before", before, FASTCALL, NULL},
        {"after", after, FASTCALL, NULL},
        {"know", know, FASTCALL, NULL},
        {"forget", forget, FASTCALL, NULL},
        {"gone", gone, FASTCALL, NULL},
        {"stop", stop, FASTCALL, NULL},
        {"ends_may_lack", ends_may_lack, FASTCALL, NULL},
    };
    object *globals = find_python() ? py.new_dict() : NULL;
    if (!globals)
        return false;
    bool good = py.set_item(globals, "__builtins__", py.builtins()) == 0;
    for (size_t i = 0; good && i < sizeof methods / sizeof *methods; i++) {
        object *function = py.new_function(&methods[i], NULL, NULL);
        good = function && py.set_item(globals, methods[i].name, function) == 0;
        if (function)
            py.decrease(function);
    }
    object *done = good ? py.run(glue, FILE_INPUT, globals, globals, NULL) : NULL;
    if (done) {
        py.decrease(done);
        ask_python = glue_global(globals, "ask");
        arm_python = glue_global(globals, "arm");
        disarm_python = glue_global(globals, "disarm");
    }
    py.clear_error();
    return ask_python && arm_python &&
           disarm_python; /* these references keep the globals for good */
}

static void give_up_modules(const char *why)
{
    if (atomic_exchange(&broken, true))
        return;
    log_warn("CPROF_WITH_MODULES: eager modules are not recorded: %s", why);
    writer_note("eager modules are not recorded");
}

/* Installs or removes the hooks. Main thread, with the GIL. */
static int change(void *unused)
{
    (void)unused;
    static bool loaded;
    atomic_store(&queued, false);
    if (atomic_load(&missed) < MISSED_LEAST) /* else poll() tells of them */
        atomic_store(&missed, 0);
    bool wanted = atomic_load(&on);
    if (wanted == atomic_load(&stand) || atomic_load(&cprof_life) == LIFE_OVER ||
        (wanted && atomic_load(&broken)))
        return 0;
    if (!loaded && !(loaded = load_glue())) {
        give_up_modules("cprof does not know this Python interpreter");
        return 0;
    }
    object *answer = py.call(wanted ? arm_python : disarm_python, NULL);
    if (!answer) {
        py.clear_error();
        give_up_modules("this version of torch cannot be hooked");
        return 0;
    }
    if (wanted) /* disarm() calls gone(), which sets it */
        atomic_store(&stand, answer == (object *)loader_symbol(RTLD_DEFAULT, "_Py_TrueStruct"));
    py.decrease(answer);
    return 0;
}

/* Schedules change(). Since CPython 3.13 this may wait for a mutex of the interpreter, and release
 * the GIL meanwhile. */
static void schedule_change(void)
{
    atomic_store_explicit(&tried_ns, clock_monotonic_ns(), memory_order_relaxed);
    if (!atomic_exchange(&queued, true) && !python_call_later(change, NULL))
        atomic_store(&queued, false);
}

/* Schedules change() again, unless that was just tried. An operator's thread. */
static __attribute__((noinline)) void schedule_change_again(void)
{
    if (!atomic_load_explicit(&on, memory_order_relaxed))
        return;
    if (atomic_load_explicit(&queued, memory_order_relaxed))
        atomic_fetch_add_explicit(&missed, 1, memory_order_relaxed);
    else if (clock_monotonic_ns() - atomic_load_explicit(&tried_ns, memory_order_relaxed) >
                 TRY_AGAIN_NS &&
             python_find())
        schedule_change();
}

/* ---- TorchScript ---- */

/* std::vector<std::string> torch::jit::currentModuleHierarchy(): of the TorchScript interpreter on
 * this thread, empty if none runs. The mangled name shows the std::string of GCC 5 and later. C and
 * C++ return a struct of three words alike, in memory of the caller. */
#define SYM_HIERARCHY "_ZN5torch3jit22currentModuleHierarchyB5cxx11Ev"
#define SYM_DELETE    "_ZdlPv"

struct std_string {
    char *text; /* may point to `own` */
    size_t len;
    char own[16];
};
struct std_strings {
    struct std_string *begin, *end, *room;
};

static struct std_strings (*hierarchy)(void);
static void (*delete_object)(void *);

static void find_torchscript(void)
{
    *(void **)&hierarchy = resolve_in("libtorch_cpu.so", SYM_HIERARCHY);
    *(void **)&delete_object = loader_symbol(RTLD_DEFAULT, SYM_DELETE);
    if (!delete_object)
        *(void **)&delete_object = resolve_in("libstdc++.so", SYM_DELETE);
}

/* The id of the path as torch.profiler writes it, with a dot after each part. 0: no TorchScript
 * runs on this thread. */
static uint32_t torchscript_path(bool *in_backward)
{
    static const char backward[] = "TOP()::<backward op>";
    struct std_strings parts = hierarchy();
    if (parts.begin == parts.end)
        return 0;
    char path[MODULE_PATH];
    uint32_t len = 0;
    for (struct std_string *s = parts.begin; s < parts.end; s++) {
        size_t n = s->len < sizeof path - 1 - len ? s->len : sizeof path - 1 - len;
        memcpy(path + len, s->text, n);
        len += (uint32_t)n;
        if (len < sizeof path - 1)
            path[len++] = '.';
        if (s->text != s->own)
            delete_object(s->text);
    }
    delete_object(parts.begin);
    *in_backward = len >= sizeof backward - 1 && memcmp(path, backward, sizeof backward - 1) == 0;
    uint32_t id = modules_id(path, len);
    if (id == 0)
        thread_log_lost(thread_log_self, LOSS_MODULE, 1);
    return id;
}

/* ---- calls from outside ---- */

/* The end hooks of these modules will not run. Closes those on top of the stack. Below other spans
 * they stay open, but no longer count as a module. */
void torch_modules_forget(struct thread_log *log)
{
    log->modules_times = atomic_load_explicit(&torch_modules_times, memory_order_relaxed);
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed);
    for (; depth > 0 && is_module(&log->spans[depth - 1]); depth--)
        span_close(log, span_key(&log->spans[depth - 1]));
    for (uint32_t i = 0; i < depth; i++) {
        struct open_span *span = &log->spans[i];
        uint8_t extras = atomic_load_explicit(&span->extras, memory_order_relaxed);
        atomic_store_explicit(&span->extras, (uint8_t)(extras & ~(1u << EXTRA_MODULE)),
                              memory_order_relaxed);
    }
}

void torch_modules_start(void)
{
    torch_modules_wanted = true;
    python_find();
    if (python_is_free_threaded())
        give_up_modules("this Python runs its threads without a lock");
}

void torch_modules_switch(bool wanted)
{
    if (!torch_modules_wanted)
        return;
    atomic_store(&on, wanted);
    atomic_store(&switched, true);
}

void torch_modules_edge_before(const struct edge_change *change)
{
    if (change->begins)
        torch_modules_switch(true);
}

void torch_modules_edge_after(const struct edge_change *change)
{
    if (change->ends)
        torch_modules_switch(false);
}

void torch_modules_settle(void)
{
    if (atomic_load_explicit(&switched, memory_order_relaxed) &&
        atomic_exchange(&switched, false) && atomic_load(&on) != atomic_load(&stand) &&
        !atomic_load(&broken))
        schedule_change();
}

int torch_modules_poll(bool stopping)
{
    (void)stopping;
    if (atomic_load_explicit(&missed, memory_order_relaxed) >= MISSED_LEAST && once_here()) {
        static const char note[] = "operators begin without eager modules: Python's main thread, "
                                   "in which cprof installs its hooks, runs no Python code (it "
                                   "waits in a join(), for example)";
        log_warn("CPROF_WITH_MODULES: %s", note);
        writer_note(note);
    }
    return -1;
}

void torch_modules_operator(struct thread_log *log, struct open_span *span,
                            struct open_span *engine_range, int64_t sequence,
                            uint64_t forward_thread, uint64_t thread)
{
    static _Atomic bool looked;
    if (__builtin_expect(!atomic_load_explicit(&looked, memory_order_acquire), 0)) {
        find_torchscript();
        atomic_store_explicit(&looked, true, memory_order_release);
    }
    if (__builtin_expect(!atomic_load_explicit(&stand, memory_order_relaxed), 0) &&
        !atomic_load_explicit(&broken, memory_order_relaxed))
        schedule_change_again();
    uint32_t id = (uint32_t)span_module(log);
    bool in_backward = false;
    uint32_t script = hierarchy && delete_object ? torchscript_path(&in_backward) : 0;
    if (script != 0 && !(in_backward && id != 0))
        id = script;
    if (forward_thread != 0) {
        uint32_t forward = modules_linked(forward_thread, sequence);
        id = forward != 0 ? forward : id;
        if (id != 0 && engine_range)
            span_set_extra(log, engine_range, EXTRA_MODULE, id);
    } else if (sequence >= 0) {
        modules_link(thread, sequence, id);
    }
    if (id != 0)
        span_set_extra(log, span, EXTRA_MODULE, id);
}
