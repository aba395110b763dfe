/* SPDX-License-Identifier: Apache-2.0 */
/*
 * at::RecordFunction objects made by cprof. torch makes one for each operator and backward node, to
 * call the callbacks that listen. If cprof alone listens, these functions make the object, call
 * cprof's callbacks directly, and skip the general work. They replace the constructors and six
 * other functions in libtorch_cpu's GOT (torch_path.h).
 *
 * Such an object is a valid RecordFunction of torch's layout: torch's own functions work on it. So
 * it does not matter which of the calls are redirected at a moment, or whether an object outlives
 * its window. It differs in its class pointer alone, by which these functions know it. All other
 * objects go to torch's functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define OBJECT_CALLS 8u

/* std::string of libstdc++ in the new ABI. */
struct torch_string {
    char *at; /* `here` for up to 15 bytes */
    size_t len;
    union {
        char here[16];
        size_t room;
    };
};

/* A call that is redirected. */
struct path_call {
    const char *name; /* the function's mangled name */
    void (*ours)(void);
    bool stays; /* redirected between windows, too, from the first window until the end */
};

/* The calls to redirect. Without a name where this machine's calling convention is unknown. */
extern const struct path_call torch_object_calls[OBJECT_CALLS];

/* cprof's callbacks for operators. */
struct operator_callbacks {
    const void *start; /* as torch calls it; shows that an object is cprof's */
    /* calls for an operator of this name, and at its end */
    void (*begin)(const void *function, const char *name);
    void (*end)(const void *function, void *context);
};

/* Called before the calls are redirected for a window. Under the torch lock. */
void torch_objects_redirect(void);

/* Finds torch's functions, and compares an object that torch makes with one made here. False: this
 * torch is different, and the calls must not be redirected. Calls into torch. Once, before the
 * first redirection. */
bool torch_objects_start(const struct operator_callbacks *callbacks);
