/* SPDX-License-Identifier: Apache-2.0 */
/* Reads numbers of ITT clients; see itt.h. Pure; any thread. */
#include "preload/markers/itt.h"

#include <math.h>
#include <string.h>

#include "writer/writer.h"

int itt_number_at(int type, const void *data, size_t i, uint64_t *bits)
{
    const char *at = data;
    int64_t whole = 0;
    double real = 0;
    uint64_t u64;
    uint32_t u32;
    int32_t s32;
    uint16_t u16;
    int16_t s16;
    float single;
    switch ((enum itt_type)type) {
    case ITT_U64:
        memcpy(&u64, at + 8 * i, 8);
        if (u64 > INT64_MAX) {
            real = (double)u64;
            memcpy(bits, &real, 8);
            return ARG_REAL;
        }
        whole = (int64_t)u64;
        break;
    case ITT_S64:
        memcpy(&whole, at + 8 * i, 8);
        break;
    case ITT_U32:
        memcpy(&u32, at + 4 * i, 4);
        whole = u32;
        break;
    case ITT_S32:
        memcpy(&s32, at + 4 * i, 4);
        whole = s32;
        break;
    case ITT_U16:
        memcpy(&u16, at + 2 * i, 2);
        whole = u16;
        break;
    case ITT_S16:
        memcpy(&s16, at + 2 * i, 2);
        whole = s16;
        break;
    case ITT_FLOAT:
    case ITT_DOUBLE:
        if (type == ITT_FLOAT)
            memcpy(&single, at + 4 * i, 4), real = single;
        else
            memcpy(&real, at + 8 * i, 8);
        memcpy(bits, &real, 8);
        return isfinite(real) ? (int)ARG_REAL : -1;
    case ITT_UNKNOWN:
    default:
        return -1;
    }
    memcpy(bits, &whole, 8);
    return ARG_INT;
}
