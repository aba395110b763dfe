/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks as text in traces. The JSON text of a frame is made once. cprof thread. */
#include "writer/stack/stack_json.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "writer/stack/stack_table.h"

#define FOLDERS     64u
#define FRAME_BYTES 60u         /* of a frame in stackFrames, without its name */
#define ARGS_KEPT   8192u       /* stacks whose args text is cached; a power of two */
#define ARGS_BYTES  (16u << 20) /* all cached texts */

/* The text of a frame, escaped for JSON. */
struct shown {
    const char *text; /* NULL: not made yet */
    uint32_t len;
    int32_t line;     /* of a native frame; 0: unknown */
    const char *file; /* its source file */
    uint32_t file_len;
    bool wanted; /* its line was asked for */
};

static struct shown *shown;
static uint32_t n_shown;
static enum stacks_in_args in_args = STACKS_ALL;
static const struct stacks_resolver *resolve;
static uint32_t looked; /* the first frame that want_lines() has not seen */

/* A cache of args texts: most events have one of a few stacks. Stacks that share a place replace
 * each other. Texts from before the last change of a line are made again. */
static struct kept_args {
    uint32_t stack, change;
    uint32_t len, room;
    char *text; /* owned */
} * args_kept;
static size_t args_bytes;
static uint32_t changes = 1;
static struct {
    char path[512];
    size_t len;
} folders[FOLDERS];
static _Atomic uint32_t n_folders; /* one application thread adds (release), cprof thread reads */

void stacks_in_args(enum stacks_in_args what)
{
    in_args = what;
    changes++;
}

void stacks_trim(const char *folder, size_t len)
{
    uint32_t n = atomic_load(&n_folders);
    while (len > 1 && folder[len - 1] == '/')
        len--;
    if (n == FOLDERS || len < 2 || len + 1 > sizeof folders->path || folder[0] != '/')
        return;
    memcpy(folders[n].path, folder, len);
    folders[n].path[len] = '/';
    folders[n].len = len + 1;
    atomic_store_explicit(&n_folders, n + 1, memory_order_release);
}

void stacks_resolve_with(const struct stacks_resolver *resolver)
{
    resolve = resolver;
}

/* ---- the text of a frame ---- */

/* Length of the longest trimmed folder that contains the file. */
static size_t trimmed(const char *file, size_t len)
{
    uint32_t n = atomic_load_explicit(&n_folders, memory_order_acquire);
    size_t longest = 0;
    for (uint32_t i = 0; i < n; i++)
        if (folders[i].len > longest && folders[i].len < len &&
            memcmp(file, folders[i].path, folders[i].len) == 0)
            longest = folders[i].len;
    return longest;
}

static void put_line(struct buf *b, const char *file, size_t len, int32_t line)
{
    size_t skip = trimmed(file, len);
    buf_put(b, file + skip, len - skip);
    buf_printf(b, "(%d): ", line);
}

static void put_plain(struct buf *b, const struct stack_frame *f, const struct shown *s)
{
    const char *file = stack_table_text(f), *name = file + f->file_len;
    if (f->pc) {
        if (s->line)
            put_line(b, s->file, s->file_len, s->line);
        size_t before = b->len;
        if (resolve)
            resolve->name(f->pc, f->object, b);
        if (b->len == before)
            buf_printf(b, "0x%llx", (unsigned long long)f->pc);
        return;
    }
    if (f->file_len) /* no file: the frame states that frames were left out */
        put_line(b, file, f->file_len, f->line);
    buf_put(b, name, f->name_len);
}

static void make_text(struct shown *s, const struct stack_frame *f)
{
    static struct buf plain, quoted;
    buf_reset(&plain);
    buf_reset(&quoted);
    put_plain(&plain, f, s);
    json_string(&quoted, plain.data ? plain.data : "", plain.len);
    bool failed = plain.failed || quoted.failed;
    uint32_t len = failed ? 0 : (uint32_t)quoted.len - 2; /* without the quotes */
    const char *kept = failed ? NULL : names_keep(quoted.data + 1, len);
    s->text = kept ? kept : "?";
    s->len = kept ? len : 1;
}

/* NULL: no memory. */
static struct shown *shown_of(uint32_t frame)
{
    if (frame >= n_shown) {
        uint32_t n = n_shown ? n_shown : 1024;
        while (n <= frame)
            n *= 2;
        struct shown *more = realloc(shown, n * sizeof *more);
        if (!more)
            return NULL;
        memset(more + n_shown, 0, (n - n_shown) * sizeof *more);
        shown = more;
        n_shown = n;
    }
    return &shown[frame];
}

static struct shown text_of_frame(uint32_t frame)
{
    struct shown *s = shown_of(frame);
    if (s && !s->text)
        make_text(s, stack_table_frame(frame));
    return s ? *s : (struct shown){.text = "?", .len = 1};
}

/* ---- lines of native frames ---- */

/* Asks for the lines of new frames. Frames that are being made are skipped until the next pass. */
static void want_lines(void)
{
    uint32_t end = stack_table_frames(), whole = end;
    for (uint32_t frame = looked ? looked : 1; frame < end; frame++) {
        const struct stack_frame *f = stack_table_frame_if_whole(frame);
        if (!f && whole == end)
            whole = frame;
        struct shown *s = f && f->pc ? shown_of(frame) : NULL;
        if (!s || s->wanted)
            continue;
        s->wanted = true;
        resolve->want(frame, f->pc, f->object);
    }
    looked = whole;
}

void stacks_look(bool stopping)
{
    if (!resolve)
        return;
    resolve->look();
    want_lines();
    resolve->ask(stopping);
    struct shown line = {0};
    for (uint32_t frame; (frame = resolve->answer(&line.file, &line.file_len, &line.line)) != 0;) {
        struct shown *s = &shown[frame];
        line.file = names_keep(line.file, line.file_len);
        if (!line.file)
            continue;
        s->file = line.file;
        s->file_len = line.file_len;
        s->line = line.line;
        s->text = NULL; /* made again, with the line */
        changes++;
    }
}

/* ---- events ---- */

uint32_t stacks_of(const struct record *r)
{
    if (!(r->extras & 1u << EXTRA_STACK))
        return 0;
    uint64_t id = record_extra(r, EXTRA_STACK, 0);
    return id <= UINT32_MAX && stack_table_has((uint32_t)id) ? (uint32_t)id : 0;
}

/* The innermost Python frame; 0: none. */
static uint32_t python_of(uint32_t stack)
{
    while (stack && stack_table_frame(stack_table_frame_of(stack))->pc)
        stack = stack_table_caller(stack);
    return stack;
}

/* A semicolon in a file or function name would look like the separator. */
static void hide_separators(char *text, size_t len)
{
    for (char *at = text; (at = memchr(at, ';', len - (size_t)(at - text))) != NULL;)
        *at = ':';
}

static void put_stack(struct buf *b, uint32_t stack)
{
    buf_puts(b, "\"Call stack\": \"");
    for (; stack; stack = stack_table_caller(stack)) {
        struct shown s = text_of_frame(stack_table_frame_of(stack));
        char *to = buf_room(b, s.len + 1);
        if (!to)
            return;
        memcpy(to, s.text, s.len);
        hide_separators(to, s.len);
        to[s.len] = ';';
        b->len += s.len + 1;
    }
    buf_put(b, "\"", 1);
}

/* The cache entry for the stack. NULL: no memory. */
static struct kept_args *args_place(uint32_t stack)
{
    if (!args_kept)
        args_kept = calloc(ARGS_KEPT, sizeof *args_kept);
    return args_kept ? &args_kept[stack % ARGS_KEPT] : NULL;
}

static void keep_args(struct kept_args *k, uint32_t stack, const char *text, size_t len)
{
    if (len > k->room) {
        if (args_bytes - k->room + len > ARGS_BYTES)
            return;
        char *bigger = realloc(k->text, len);
        if (!bigger)
            return;
        args_bytes += len - k->room;
        k->text = bigger;
        k->room = (uint32_t)len;
    }
    memcpy(k->text, text, len);
    k->len = (uint32_t)len;
    k->stack = stack;
    k->change = changes;
}

void stacks_args(struct buf *b, uint32_t stack, bool *first)
{
    if (in_args == STACKS_PYTHON)
        stack = python_of(stack);
    if (!stack || in_args == STACKS_NONE)
        return;
    if (!*first)
        buf_put(b, ", ", 2);
    *first = false;
    struct kept_args *k = args_place(stack);
    if (k && k->stack == stack && k->change == changes) {
        buf_put(b, k->text, k->len);
        return;
    }
    size_t before = b->len;
    put_stack(b, stack);
    if (k && !b->failed)
        keep_args(k, stack, b->data + before, b->len - before);
}

void stacks_end(struct buf *b, uint32_t stack)
{
    buf_put(b, "}", 1);
    if (stack) {
        buf_puts(b, ", \"sf\": ");
        json_uint(b, stack);
    }
    buf_put(b, "},\n", 3);
}

/* ---- files ---- */

static bool room_for(struct stacks_used *used, uint32_t node)
{
    if (node / 64 < used->words)
        return true;
    uint32_t words = used->words ? used->words : 64;
    while (words <= node / 64)
        words *= 2;
    uint64_t *bits = realloc(used->bits, words * sizeof *bits);
    if (!bits)
        return false;
    memset(bits + used->words, 0, (words - used->words) * sizeof *bits);
    used->bits = bits;
    used->words = words;
    return true;
}

void stacks_use(struct stacks_used *used, uint32_t stack)
{
    for (uint32_t node = stack; node; node = stack_table_caller(node)) {
        if (!room_for(used, node) || used->bits[node / 64] >> node % 64 & 1)
            return; /* its callers are in the set already */
        used->bits[node / 64] |= UINT64_C(1) << node % 64;
        used->bytes += FRAME_BYTES + text_of_frame(stack_table_frame_of(node)).len;
    }
}

/* All frames stand in the trailer of each flush. The C library does not format them: a library that
 * registers a conversion, as libquadmath below numpy does, makes its formatting far slower. */
static void put_frame(struct buf *b, uint32_t node, bool first)
{
    uint32_t frame = stack_table_frame_of(node), caller = stack_table_caller(node);
    struct shown s = text_of_frame(frame);
    buf_puts(b, first ? "\"" : ",\n\"");
    json_uint(b, node);
    buf_puts(b, stack_table_frame(frame)->pc ? "\": {\"category\": \"native\", \"name\": \""
                                             : "\": {\"category\": \"python\", \"name\": \"");
    buf_put(b, s.text, s.len);
    buf_puts(b, "\"");
    if (caller) {
        buf_puts(b, ", \"parent\": ");
        json_uint(b, caller);
    }
    buf_puts(b, "}");
}

void stacks_frames(struct buf *b, const struct stacks_used *used)
{
    if (!used->bytes)
        return;
    bool first = true;
    buf_puts(b, "\"stackFrames\": {\n");
    for (uint32_t word = 0; word < used->words; word++)
        for (uint64_t left = used->bits[word]; left; left &= left - 1, first = false)
            put_frame(b, word * 64 + (uint32_t)__builtin_ctzll(left), first);
    buf_puts(b, "\n},\n");
}

void stacks_used_free(struct stacks_used *used)
{
    free(used->bits);
    *used = (struct stacks_used){0};
}
