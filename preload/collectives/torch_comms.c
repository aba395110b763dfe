/* SPDX-License-Identifier: Apache-2.0 */
/* Reads c10d's description of the current transfer of a thread, by the offsets of torch_layout.h,
 * after checking the object's type. */
#include "preload/collectives/torch_comms.h"

#include "preload/core/core.h"

#define TEXT_MOST 4096u /* bytes; a longer text counts as empty */

static const char *const dtypes[] = {
#define TORCH_DTYPE(value, name, text) #name,
#include "preload/core/torch_layout.def"
#undef TORCH_DTYPE
};

/* Checks the type, because others may use the same kind. The type_info pointer precedes the
 * vtable's functions (Itanium C++ ABI, 2.5.2 and 2.9.4). */
static bool is_comms(const void *object)
{
    const void *const *table = value_pointer(object, 0);
    const char *const *type = table[-1];
    return type && strcmp(type[1], TORCH_COMMS_TYPE_NAME) == 0;
}

/* Reads libstdc++'s std::string: pointer and length. With the old ABI a pointer only; the length
 * precedes the text. */
static struct torch_text text_at(const void *object, uint16_t offset)
{
    struct torch_text text = {.at = value_pointer(object, offset)};
    if (torch_api.layout->cxx11_abi)
        text.len = value_word(object, (uint16_t)(offset + 8));
    else if (text.at)
        memcpy(&text.len, text.at - 24, sizeof text.len);
    return text.at && text.len <= TEXT_MOST ? text : (struct torch_text){"", 0};
}

static struct torch_numbers numbers_at(const void *object, uint16_t offset)
{
    const int64_t *at = value_pointer(object, offset),
                  *end = value_pointer(object, (uint16_t)(offset + 8));
    return at && end >= at ? (struct torch_numbers){at, (size_t)(end - at)}
                           : (struct torch_numbers){NULL, 0};
}

static int32_t int_at(const void *object, uint16_t offset)
{
    int32_t value;
    memcpy(&value, (const char *)object + offset, sizeof value);
    return value;
}

static int64_t elements_at(const void *object, uint16_t offset)
{
    const struct torch_layout *l = torch_api.layout;
    return l->pc_out - l->pc_in == sizeof(int32_t) ? int_at(object, offset)
                                                   : (int64_t)value_word(object, offset);
}

static const char *dtype_at(const void *object, uint16_t offset)
{
    uint8_t dtype = *((const uint8_t *)object + offset);
    bool known =
        dtype < torch_api.layout->dtype_undefined && dtype < sizeof dtypes / sizeof *dtypes;
    return known ? dtypes[dtype] : NULL;
}

bool torch_comms_read(struct torch_comms *out)
{
    const struct torch_layout *l = torch_api.layout;
    if (!l || l->pc_group == TORCH_LAYOUT_ABSENT || !torch_api.debug_info)
        return false;
    const void *info = torch_api.debug_info(torch_api.comms_kind);
    if (!info || !is_comms(info))
        return false;
    bool more = l->pc_seq != TORCH_LAYOUT_ABSENT;
    *out = (struct torch_comms){
        .name = text_at(info, l->pc_name),
        .group = text_at(info, l->pc_group),
        .about = text_at(info, l->pc_about),
        .dtype = dtype_at(info, l->pc_dtype),
        .in = elements_at(info, l->pc_in),
        .out = elements_at(info, l->pc_out),
        .rank = int_at(info, l->pc_rank),
        .size = int_at(info, l->pc_size),
        .start = int_at(info, l->pc_start),
        .stride = int_at(info, l->pc_stride),
        .ranks = numbers_at(info, l->pc_ranks),
        .in_split = numbers_at(info, l->pc_in_split),
        .out_split = numbers_at(info, l->pc_out_split),
        .seq = more ? (int64_t)value_word(info, l->pc_seq) : -1,
        .async = (int8_t)(more ? *((const uint8_t *)info + l->pc_async) != 0 : -1),
    };
    return true;
}
