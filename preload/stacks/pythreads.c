/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the Python frames of other threads. */
#define _GNU_SOURCE
#include "preload/stacks/pythreads.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/stacks/pyend.h"
#include "preload/stacks/pyframes.h"
#include "preload/stacks/pyobject.h"

#define FRAMES      64u   /* of a thread */
#define FRAMES_ALL  4096u /* of all threads */
#define THREADS     16384u
#define TEXT_CHARS  512u /* of a name or path */
#define TEXT_HEADER 72u  /* most bytes before the characters of a string */
#define LINES_MOST  TABLE_MOST

/* The same in all versions of pyframes.def. */
#define THREAD_NEXT   8    /* PyThreadState.next */
#define THREAD_INTERP 16   /* PyThreadState.interp */
#define THREAD_BYTES  512u /* of a PyThreadState; thread_id lies in these */
#define NATIVE_ID     11   /* minor version from which on native_thread_id follows thread_id */

static const struct pyframes_layout *layout; /* NULL: nothing can be read */
static const void *code_type, *text_type, *bytes_type;
static void *(*main_interpreter)(void), *(*first_thread)(void *);
static size_t frame_bytes, code_bytes; /* of what is read of a frame and of a code object */

/* A thread that Python knows, if it is known at all: the waking one. */
static struct {
    uintptr_t id; /* pthread_self() */
    uint32_t tid;
} waker;
static size_t id_at; /* where PyThreadState holds thread_id; 0: not found yet */

/* Bytes of a frame, a code object and its texts. cprof thread. */
static struct {
    char frame[128], code[256], text[2][TEXT_HEADER + 4 * TEXT_CHARS];
    char lines[BYTES_DATA + LINES_MOST];
} copy;

static size_t larger(size_t n, int offset, size_t bytes)
{
    return offset >= 0 && (size_t)offset + bytes > n ? (size_t)offset + bytes : n;
}

static void measure(const struct pyframes_layout *l)
{
    frame_bytes = larger(0, l->f_code, sizeof(void *));
    frame_bytes = larger(frame_bytes, l->f_back, sizeof(void *));
    frame_bytes = larger(frame_bytes, l->f_instr, sizeof(void *));
    frame_bytes = larger(frame_bytes, l->f_owner, 1);
    code_bytes = larger(TYPE_OF, l->co_filename, sizeof(void *));
    code_bytes = larger(code_bytes, l->co_name, sizeof(void *));
    code_bytes = larger(code_bytes, l->co_lines, sizeof(void *));
    code_bytes = larger(code_bytes, l->co_firstline, sizeof(int32_t));
    code_bytes = larger(code_bytes, l->co_traceable, sizeof(int32_t));
}

/* Copies a string, cut. False: it is none. */
static bool fetch_text(const void *object, char *to)
{
    const char *chars;
    if (!own_memory_copy(object, to, (size_t)layout->ascii) || pointer_at(to, TYPE_OF) != text_type)
        return false;
    unsigned width = text_of_object(layout, to, &chars);
    size_t n = size_at(to, TEXT_LENGTH, TEXT_CHARS);
    if (width != 1 && width != 2 && width != 4)
        return false;
    memcpy(to + TEXT_LENGTH, &n, sizeof n);
    return own_memory_copy(object, to, (size_t)(chars - to) + width * n);
}

/* The line of the instruction; 0: unknown. */
static int32_t line_of(const void *code, int32_t instruction)
{
    const void *object = pointer_at(code, layout->co_lines);
    if (!own_memory_copy(object, copy.lines, BYTES_DATA) ||
        pointer_at(copy.lines, TYPE_OF) != bytes_type)
        return 0;
    size_t n = size_at(copy.lines, BYTES_SIZE, LINES_MOST);
    if (!own_memory_copy((const char *)object + BYTES_DATA, copy.lines, n))
        return 0;
    return pyframes_line(layout->table, (const uint8_t *)copy.lines, n,
                         int_at(code, layout->co_firstline), instruction);
}

/* Reads the frame in copy.frame. False: it holds no code. */
static bool read_frame(struct python_line *out, char room[2][TEXT_CHARS * 4])
{
    const void *code = code_address(layout, copy.frame);
    int32_t instruction;
    if (!own_memory_copy(code, copy.code, code_bytes) ||
        pointer_at(copy.code, TYPE_OF) != code_type ||
        !has_begun(layout, copy.frame, copy.code, code, &instruction) ||
        !fetch_text(pointer_at(copy.code, layout->co_filename), copy.text[0]) ||
        !fetch_text(pointer_at(copy.code, layout->co_name), copy.text[1]))
        return false;
    out->file_len = describe_text(layout, copy.text[0], room[0], sizeof room[0], &out->file);
    out->name_len = describe_text(layout, copy.text[1], room[1], sizeof room[1], &out->name);
    out->line = line_of(copy.code, instruction);
    return true;
}

/* Gives the frames of a thread; returns their number. */
static unsigned read_thread(const char *state, uint32_t tid, python_line_taker *take, void *to)
{
    static char room[2][TEXT_CHARS * 4];
    const void *frame = pointer_at(state, layout->thread_frame);
    unsigned n = 0;
    if (layout->cframe >= 0 &&
        !own_memory_copy((const char *)frame + layout->cframe, &frame, sizeof frame))
        return 0;
    for (unsigned i = 0; i < 2 * FRAMES && n < FRAMES; i++) {
        struct python_line line = {.tid = tid};
        if (!own_memory_copy(frame, copy.frame, frame_bytes))
            break;
        if (read_frame(&line, room)) {
            take(&line, to);
            n++;
        }
        frame = pointer_at(copy.frame, layout->f_back);
    }
    return n;
}

/* Where PyThreadState holds thread_id, found by the waking thread's ids; 0: not in this one. */
static size_t find_id(const char *state)
{
    for (size_t at = THREAD_INTERP + sizeof(void *); at + 16 <= THREAD_BYTES; at += 8) {
        uint64_t ids[2];
        memcpy(ids, state + at, sizeof ids);
        if (ids[0] == waker.id && (layout->minor < NATIVE_ID || ids[1] == waker.tid))
            return at;
    }
    return 0;
}

/* The kernel's id of a thread; 0: unknown. */
static uint32_t tid_of(const char *state)
{
    uint64_t ids[2];
    memcpy(ids, state + id_at, sizeof ids);
    if (layout->minor >= NATIVE_ID)
        return (uint32_t)ids[1];
    return ids[0] == waker.id ? waker.tid : 0;
}

/* Calls each() for the states of all threads, the newest first, until it returns false. */
static void each_state(bool (*each)(const char *state, void *arg), void *arg)
{
    void *interpreter = main_interpreter();
    const void *at = interpreter ? first_thread(interpreter) : NULL;
    char state[THREAD_BYTES];
    for (unsigned i = 0; i < THREADS && own_memory_copy(at, state, sizeof state); i++) {
        if (pointer_at(state, THREAD_INTERP) != interpreter || !each(state, arg))
            return;
        at = pointer_at(state, THREAD_NEXT);
    }
}

static bool look_for_id(const char *state, void *unused)
{
    (void)unused;
    id_at = find_id(state);
    return !id_at;
}

struct reading {
    python_line_taker *take;
    void *to;
    unsigned left; /* frames */
    bool main;     /* read the main thread, else all others */
};

static bool read_one(const char *state, void *arg)
{
    struct reading *r = arg;
    uint32_t tid = tid_of(state);
    if (tid && (tid == (uint32_t)getpid()) == r->main)
        r->left -= read_thread(state, tid, r->take, r->to);
    return r->left >= FRAMES;
}

void pythreads_read(python_line_taker *take, void *to)
{
    if (!layout || !pyend_read())
        return;
    if (!id_at)
        each_state(look_for_id, NULL);
    struct reading r = {take, to, FRAMES_ALL, true};
    if (id_at)
        each_state(read_one, &r); /* what most is asked about */
    r.main = false;
    if (id_at)
        each_state(read_one, &r);
    pyend_read_done();
}

void pythreads_start(void)
{
    layout = NULL;
    waker.id = (uintptr_t)pthread_self();
    waker.tid = (uint32_t)syscall(SYS_gettid);
    const struct pyframes_layout *l = pyframes_layout(NULL);
    code_type = loader_symbol(RTLD_DEFAULT, "PyCode_Type");
    text_type = loader_symbol(RTLD_DEFAULT, "PyUnicode_Type");
    bytes_type = loader_symbol(RTLD_DEFAULT, "PyBytes_Type");
    *(void **)&main_interpreter = loader_symbol(RTLD_DEFAULT, "PyInterpreterState_Main");
    *(void **)&first_thread = loader_symbol(RTLD_DEFAULT, "PyInterpreterState_ThreadHead");
    if (!l || !code_type || !text_type || !bytes_type || !main_interpreter || !first_thread)
        return;
    measure(l);
    if (frame_bytes > sizeof copy.frame || code_bytes > sizeof copy.code)
        return;
    pyend_watch();
    layout = l;
    if (!id_at)
        each_state(look_for_id, NULL);
}
