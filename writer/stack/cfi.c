/* SPDX-License-Identifier: Apache-2.0 */
/* Interprets .eh_frame (Linux Standard Base, "Exception Frames"; DWARF 5, 6.4) with the encodings
 * that linkers write: pointers of four bytes, relative to their place or to .eh_frame_hdr. */
#define _GNU_SOURCE
#include "writer/stack/cfi.h"

#include <elf.h>
#include <string.h>
#include <sys/auxv.h>

#include "writer/os/os.h"
#include "writer/stack/dso_table.h"

#define ENTRY_MOST   4096u /* bytes of a CIE or FDE */
#define HEADERS_MOST 32u   /* program headers of an object */
#define STATES       8u    /* remembered at the same time */
#define POINTER      0x1bu /* pcrel, sdata4 */
#define TABLE        0x3bu /* datarel, sdata4 */
#define COUNT        0x03u /* udata4 */

#if defined(__x86_64__)
#define ADDRESS   UINT64_MAX
#define REGISTERS 17u
#define SP        7u
#define RETURN    16u
#elif defined(__aarch64__)
#define ADDRESS   (UINT64_MAX >> 16) /* without the bits of a signed pointer */
#define REGISTERS 33u
#define SP        31u
#define RETURN    30u
#else
#define ADDRESS   UINT64_MAX
#define REGISTERS 1u
#define SP        0u
#define RETURN    0u
#endif

/* What is known of the registers of a frame. */
struct registers {
    uint64_t value[REGISTERS], pc;
    bool known[REGISTERS];
};

/* Where a register of the caller is. */
enum rule_kind { RULE_SAME, RULE_OFFSET, RULE_VALUE, RULE_UNDEFINED, RULE_UNKNOWN };
struct rule {
    uint8_t kind;
    int64_t offset; /* from the CFA */
};

struct row {
    uint64_t cfa_register;
    int64_t cfa_offset;
    bool cfa_known;
    struct rule of[REGISTERS];
};

/* An entry's bytes, and how far they are read. */
struct bytes {
    const uint8_t *at, *end;
    bool bad;
};

struct entry {
    uint8_t data[ENTRY_MOST];
    uint64_t address; /* of the bytes after its length */
    struct bytes left;
};

struct cie {
    struct entry entry; /* left: its instructions */
    uint64_t code_align, return_register;
    int64_t data_align;
    bool has_size, is_signal; /* of augmentation data in each FDE; of a signal's frame */
};

/* ---- reading ---- */

static bool copy(uint64_t from, void *to, size_t n)
{
    return own_memory_copy((const void *)(uintptr_t)from, to, n);
}

static uint64_t take(struct bytes *b, unsigned n)
{
    uint64_t value = 0;
    if ((size_t)(b->end - b->at) < n) {
        b->bad = true;
        b->at = b->end;
        return 0;
    }
    memcpy(&value, b->at, n);
    b->at += n;
    return value;
}

static uint64_t take_uleb(struct bytes *b)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint64_t byte = take(b, 1);
        value |= (byte & 127) << shift;
        if (!(byte & 128))
            return value;
    }
    b->bad = true;
    return 0;
}

static int64_t take_sleb(struct bytes *b)
{
    uint64_t value = 0, byte;
    unsigned shift = 0;
    do {
        byte = take(b, 1);
        value |= shift < 64 ? (byte & 127) << shift : 0;
        shift += 7;
    } while (byte & 128 && !b->bad);
    if (shift < 64 && byte & 64)
        value |= UINT64_MAX << shift;
    return (int64_t)value;
}

static void skip(struct bytes *b, uint64_t n)
{
    b->bad |= n > (uint64_t)(b->end - b->at);
    b->at = b->bad ? b->end : b->at + n;
}

/* Reads a CIE or FDE. */
static bool read_entry(uint64_t address, struct entry *e)
{
    uint32_t n;
    if (!copy(address, &n, sizeof n) || n < 4 || n > ENTRY_MOST || !copy(address + 4, e->data, n))
        return false;
    e->address = address + 4;
    e->left = (struct bytes){e->data, e->data + n, false};
    return true;
}

/* ---- finding ---- */

/* The address of .eh_frame_hdr of an object; 0: none. */
static uint64_t find_header(const struct elf_object *object)
{
    Elf64_Ehdr head;
    Elf64_Phdr table[HEADERS_MOST];
    uint64_t at = object->base + sizeof head;
    unsigned n = 0;
    if (object->base == 0) { /* a program at a fixed address */
        at = getauxval(AT_PHDR);
        n = (unsigned)getauxval(AT_PHNUM);
    } else if (copy(object->base, &head, sizeof head) &&
               memcmp(head.e_ident, ELFMAG, SELFMAG) == 0) {
        at = object->base + head.e_phoff;
        n = head.e_phnum;
    }
    n = n < HEADERS_MOST ? n : HEADERS_MOST;
    if (!n || !copy(at, table, n * sizeof *table))
        return 0;
    for (unsigned i = 0; i < n; i++)
        if (table[i].p_type == PT_GNU_EH_FRAME)
            return object->base + table[i].p_vaddr;
    return 0;
}

/* The address of the FDE for pc, if any contains it; 0: none. */
static uint64_t find_fde(uint64_t pc)
{
    const struct elf_object *object = dso_table_find(pc, dso_table_at(pc));
    uint64_t header = object ? find_header(object) : 0;
    struct {
        uint8_t version, pointer, count, table;
        int32_t frame;
        uint32_t n;
    } h;
    if (!header || !copy(header, &h, sizeof h) || h.version != 1 || h.pointer != POINTER ||
        h.count != COUNT || h.table != TABLE || h.n == 0)
        return 0;
    int32_t row[2];
    uint32_t low = 0, high = h.n;
    while (low + 1 < high) {
        uint32_t middle = low + (high - low) / 2;
        if (!copy(header + sizeof h + middle * sizeof row, row, sizeof row))
            return 0;
        if (header + (uint64_t)(int64_t)row[0] <= pc)
            low = middle;
        else
            high = middle;
    }
    return copy(header + sizeof h + low * sizeof row, row, sizeof row)
               ? header + (uint64_t)(int64_t)row[1]
               : 0;
}

static bool read_augmentation(struct cie *c, const char *text, struct bytes *b)
{
    if (!*text)
        return true;
    if (*text != 'z')
        return false;
    c->has_size = true;
    uint64_t n = take_uleb(b);
    struct bytes data = {b->at, b->at + n, false};
    skip(b, n);
    if (b->bad)
        return false;
    for (text++; *text; text++) {
        if (*text == 'S') {
            c->is_signal = true;
        } else if (*text == 'L') {
            take(&data, 1);
        } else if (*text == 'P') {
            uint64_t encoding = take(&data, 1);
            skip(&data, (encoding & 7) == 3 ? 4 : (encoding & 7) == 2 ? 2 : 8);
        } else if (*text == 'R') {
            if (take(&data, 1) != POINTER)
                return false;
        } else if (*text != 'B') {
            return false;
        }
    }
    return !data.bad;
}

static bool read_cie(uint64_t address, struct cie *c)
{
    *c = (struct cie){.code_align = 0};
    if (!read_entry(address, &c->entry))
        return false;
    struct bytes *b = &c->entry.left;
    bool is_cie = take(b, 4) == 0;
    uint64_t version = take(b, 1);
    const char *text = (const char *)b->at;
    size_t n = strnlen(text, (size_t)(b->end - b->at));
    skip(b, n + 1);
    c->code_align = take_uleb(b);
    c->data_align = take_sleb(b);
    c->return_register = version == 1 ? take(b, 1) : take_uleb(b);
    return is_cie && (version == 1 || version == 3) && !b->bad && c->return_register < REGISTERS &&
           read_augmentation(c, text, b);
}

/* ---- the program ---- */

struct machine {
    struct row row, initial, kept[STATES];
    unsigned n_kept;
    uint64_t at, target; /* addresses of code: of the row, and of the frame */
    const struct cie *cie;
};

static void set_rule(struct row *row, uint64_t which, enum rule_kind kind, int64_t offset)
{
    if (which < REGISTERS)
        row->of[which] = (struct rule){(uint8_t)kind, offset};
}

/* The opcodes whose lowest bits are an operand. True: the row for the frame is complete. */
static bool run_short(struct machine *m, struct bytes *b, uint8_t op)
{
    unsigned low = op & 63;
    if (op >> 6 == 1) {
        m->at += low * m->cie->code_align;
        return m->at > m->target;
    }
    if (op >> 6 == 2)
        set_rule(&m->row, low, RULE_OFFSET, (int64_t)take_uleb(b) * m->cie->data_align);
    else if (low < REGISTERS)
        m->row.of[low] = m->initial.of[low];
    return false;
}

static void run_cfa(struct machine *m, struct bytes *b, uint8_t op)
{
    struct row *row = &m->row;
    if (op == 0x0c || op == 0x12 || op == 0x0d)
        row->cfa_register = take_uleb(b);
    if (op == 0x0c || op == 0x0e)
        row->cfa_offset = (int64_t)take_uleb(b);
    if (op == 0x12 || op == 0x13)
        row->cfa_offset = take_sleb(b) * m->cie->data_align;
    if (op == 0x0c || op == 0x12)
        row->cfa_known = true;
    if (op == 0x0f) { /* an expression */
        skip(b, take_uleb(b));
        row->cfa_known = false;
    }
}

static void run_register(struct machine *m, struct bytes *b, uint8_t op)
{
    uint64_t which = take_uleb(b);
    switch (op) {
    case 0x05: /* offset_extended */
        set_rule(&m->row, which, RULE_OFFSET, (int64_t)take_uleb(b) * m->cie->data_align);
        break;
    case 0x11: /* offset_extended_sf */
        set_rule(&m->row, which, RULE_OFFSET, take_sleb(b) * m->cie->data_align);
        break;
    case 0x06: /* restore_extended */
        if (which < REGISTERS)
            m->row.of[which] = m->initial.of[which];
        break;
    case 0x07:
        set_rule(&m->row, which, RULE_UNDEFINED, 0);
        break;
    case 0x08:
        set_rule(&m->row, which, RULE_SAME, 0);
        break;
    case 0x14: /* val_offset */
        set_rule(&m->row, which, RULE_VALUE, (int64_t)take_uleb(b) * m->cie->data_align);
        break;
    case 0x15: /* val_offset_sf */
        set_rule(&m->row, which, RULE_VALUE, take_sleb(b) * m->cie->data_align);
        break;
    case 0x09: /* another register */
        take_uleb(b);
        set_rule(&m->row, which, RULE_UNKNOWN, 0);
        break;
    default: /* expressions */
        skip(b, take_uleb(b));
        set_rule(&m->row, which, RULE_UNKNOWN, 0);
    }
}

/* All other opcodes. True: the row for the frame is complete. */
static bool run_long(struct machine *m, struct bytes *b, uint8_t op)
{
    if (op >= 0x02 && op <= 0x04) { /* advance_loc1, 2, 4 */
        m->at += take(b, 1u << (op - 2)) * m->cie->code_align;
        return m->at > m->target;
    }
    if ((op >= 0x0c && op <= 0x0f) || op == 0x12 || op == 0x13) {
        run_cfa(m, b, op);
    } else if ((op >= 0x05 && op <= 0x09) || op == 0x10 || op == 0x11 ||
               (op >= 0x14 && op <= 0x16)) {
        run_register(m, b, op);
    } else if (op == 0x0a) { /* remember_state */
        b->bad |= m->n_kept == STATES;
        if (m->n_kept < STATES)
            m->kept[m->n_kept++] = m->row;
    } else if (op == 0x0b) { /* restore_state */
        b->bad |= m->n_kept == 0;
        if (m->n_kept)
            m->row = m->kept[--m->n_kept];
    } else if (op == 0x2e) { /* GNU_args_size */
        take_uleb(b);
    } else if (op != 0 && op != 0x2d) { /* nop; on aarch64 negate_ra_state */
        b->bad = true;
    }
    return false;
}

static bool run_program(struct machine *m, struct bytes *b)
{
    bool done = false;
    while (!done && !b->bad && b->at < b->end) {
        uint8_t op = (uint8_t)take(b, 1);
        done = op >> 6 ? run_short(m, b, op) : run_long(m, b, op);
    }
    return !b->bad;
}

/* The row for an address of code. */
static bool find_row(uint64_t pc, struct row *row, uint64_t *return_register)
{
    static struct cie cie;
    static struct entry fde;
    static struct machine m;
    uint64_t address = find_fde(pc);
    if (!address || !read_entry(address, &fde))
        return false;
    uint64_t back = take(&fde.left, 4);
    if (!back || !read_cie(fde.address - back, &cie) || cie.is_signal)
        return false;
    uint64_t place = fde.address + 4;
    uint64_t first = place + (uint64_t)(int64_t)(int32_t)take(&fde.left, 4);
    uint64_t size = take(&fde.left, 4);
    if (pc < first || pc - first >= size)
        return false;
    if (cie.has_size)
        skip(&fde.left, take_uleb(&fde.left));
    m = (struct machine){.at = first, .target = UINT64_MAX, .cie = &cie};
    if (!run_program(&m, &cie.entry.left))
        return false;
    m.initial = m.row;
    m.target = pc;
    if (!run_program(&m, &fde.left))
        return false;
    *row = m.row;
    *return_register = cie.return_register;
    return row->cfa_known && row->cfa_register < REGISTERS;
}

/* ---- unwinding ---- */

/* From a frame to its caller. False: it is not known. */
static bool step_out(struct registers *r, bool innermost)
{
    struct row row;
    uint64_t returns;
    if (!find_row(innermost ? r->pc : r->pc - 1, &row, &returns) || !r->known[row.cfa_register])
        return false;
    uint64_t cfa = r->value[row.cfa_register] + (uint64_t)row.cfa_offset;
    struct registers out = *r;
    for (unsigned i = 0; i < REGISTERS; i++) {
        const struct rule *rule = &row.of[i];
        if (rule->kind == RULE_OFFSET)
            out.known[i] = copy(cfa + (uint64_t)rule->offset, &out.value[i], sizeof out.value[i]);
        else if (rule->kind == RULE_VALUE)
            out.value[i] = cfa + (uint64_t)rule->offset;
        else if (rule->kind != RULE_SAME)
            out.known[i] = false;
    }
    bool end = row.of[returns].kind == RULE_UNDEFINED;
    out.value[SP] = cfa;
    out.known[SP] = true;
    out.pc = end ? 0 : out.value[returns] & ADDRESS;
    bool known = end || out.known[returns];
    out.known[RETURN] = false;
    bool deeper = cfa > r->value[SP] || innermost;
    *r = out;
    return known && deeper;
}

unsigned cfi_unwind(uint64_t pc, uint64_t sp, uint64_t *out, unsigned most, bool *whole)
{
    struct registers r = {.pc = pc};
    unsigned n = 0;
    r.value[SP] = sp;
    r.known[SP] = REGISTERS > 1;
    *whole = false;
    while (n < most && r.pc) {
        out[n++] = r.pc;
        if (!step_out(&r, n == 1))
            return n;
    }
    *whole = r.pc == 0;
    return n;
}
