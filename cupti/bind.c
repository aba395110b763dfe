/* SPDX-License-Identifier: Apache-2.0 */
/* Finds libcupti and binds its functions. It tries a libcupti that is loaded; then folders near the
 * loaded CUDA runtime, torch and NVIDIA's wheels; then the loader's search path; then the usual
 * toolkit folders. */
#include "cupti/bind.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "writer/writer.h"

#define NEEDED    0xffffffffu
#define PATHS     8u
#define ANY_MAJOR 0

/* Paths of loaded libraries that lead to a libcupti. */
struct loaded {
    char cupti[PATHS][1024], cudart[PATHS][1024], torch[1][1024], wheel[PATHS][1024],
        driver[1][1024];
    unsigned n_cupti, n_cudart, n_torch, n_wheel, n_driver;
    bool torch_cpu, torch_cuda; /* a libtorch_cpu.so that needs no libcupti; a libtorch_cuda.so */
};

static const int majors[] = {13, 12, 11};

static const char *soname(int major)
{
    return major == 13 ? "libcupti.so.13" : major == 12 ? "libcupti.so.12" : "libcupti.so.11.8";
}

/* ---- loaded libraries ---- */

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static void keep_path(char (*paths)[1024], unsigned *n, unsigned most, const char *path)
{
    if (*n < most && strlen(path) < sizeof *paths)
        memcpy(paths[(*n)++], path, strlen(path) + 1);
}

/* Returns "/lib/libx.so" for "/a/lib/libx.so". slash: the last slash of the path. */
static const char *last_folder(const char *path, const char *slash)
{
    const char *at = slash;
    while (at > path && at[-1] != '/')
        at--;
    return at > path ? at - 1 : path;
}

static bool is_linked_to_cupti(const struct dl_phdr_info *info)
{
    struct elf_loaded object;
    return elf_loaded(info, &object) && elf_loaded_needs(&object, "libcupti");
}

static int note_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    struct loaded *l = arg;
    const char *path = info->dlpi_name, *slash = path ? strrchr(path, '/') : NULL;
    if (!slash)
        return 0;
    if (starts(slash, "/libcupti") && strstr(slash, ".so"))
        keep_path(l->cupti, &l->n_cupti, PATHS, path);
    else if (starts(slash, "/libcudart") && strstr(slash, ".so"))
        keep_path(l->cudart, &l->n_cudart, PATHS, path);
    else if (starts(slash, "/libcuda.so"))
        keep_path(l->driver, &l->n_driver, 1, path);
    else if (starts(slash, "/libtorch") && strstr(slash, ".so"))
        keep_path(l->torch, &l->n_torch, 1, path);
    else if (strstr(path, "/nvidia/") && starts(last_folder(path, slash), "/lib/"))
        keep_path(l->wheel, &l->n_wheel, PATHS, path); /* nvidia/cublas/lib, nvidia/cu13/lib */
    l->torch_cuda |= starts(slash, "/libtorch_cuda");
    l->torch_cpu |= starts(slash, "/libtorch_cpu") && !is_linked_to_cupti(info);
    return 0;
}

/* libtorch_cpu.so contains Kineto. If it needs no libcupti, CUPTI is linked into it (PyTorch's
 * wheels up to 1.13). cprof cannot interpose Kineto's calls then. Its subscription would leave
 * Kineto without GPU events. */
static bool has_cupti_in_torch(const struct loaded *l)
{
    return l->torch_cpu && l->torch_cuda;
}

/* Returns 12 for libcudart.so.12 and libcudart-9335f6a2.so.12.1, ANY_MAJOR for a name without a
 * version. */
static int major_of(const char *path)
{
    const char *at = strrchr(path, '/');
    at = strstr(at ? at : path, ".so.");
    return at ? atoi(at + 4) : ANY_MAJOR;
}

int bind_file_version(const char *path, int *minor)
{
    const char *slash = strrchr(path, '/'), *at = strstr(slash ? slash : path, ".so.");
    int major = at ? atoi(at + 4) : 0;
    at = at ? strchr(at + 4, '.') : NULL;
    *minor = at ? atoi(at + 1) : -1;
    return major;
}

/* bind_file_version() of the file that the loaded library's link names: libcudart.so.12 ->
 * libcudart.so.12.4.127. */
static int real_version(const char *loaded, int *minor)
{
    char *real = realpath(loaded, NULL);
    int major = bind_file_version(real ? real : loaded, minor);
    free(real);
    return major;
}

/* Does not call cudaRuntimeGetVersion(): cprof adds no CUDA call to the program's. */
int bind_runtime_version(void)
{
    struct loaded *l = calloc(1, sizeof *l);
    int major = 0, minor = -1;
    if (!l)
        return 0;
    loader_walk(note_library, l);
    if (l->n_cudart)
        major = real_version(l->cudart[0], &minor);
    free(l);
    return minor >= 0 ? major * 1000 + minor * 10 : 0;
}

int bind_driver_cuda(int release)
{
    static const struct {
        int release, cuda;
    } since[] = {
        {580, 13}, {525, 12}, {450, 11}}; /* CUDA's release notes, minimum driver by toolkit */
    for (unsigned i = 0; i < sizeof since / sizeof *since; i++)
        if (release >= since[i].release)
            return since[i].cuda;
    return 0;
}

/* Newest major CUDA version of the loaded driver, from its release number; 0: unknown. */
static int newest_cuda(const struct loaded *l)
{
    int minor;
    return l->n_driver ? bind_driver_cuda(real_version(l->driver[0], &minor)) : 0;
}

/* ---- candidate folders ---- */

/* Relative to the folder of libcudart or of torch. */
static const char *const places[] = {
    "",                             /* conda; nvidia/cu13/lib; lib64 with links */
    "../../cuda_cupti/lib/",        /* wheels: nvidia/cuda_runtime/lib */
    "../extras/CUPTI/lib64/",       /* toolkit: lib64 */
    "../../../extras/CUPTI/lib64/", /* toolkit: targets/x86_64-linux/lib */
    "../../nvidia/cuda_cupti/lib/", /* wheels: torch/lib */
    "../../nvidia/cu13/lib/",       /* wheels of CUDA 13: torch/lib */
};

static const char *const toolkits[] = {
    "/usr/local/cuda/extras/CUPTI/lib64/",
    "/usr/local/cuda/lib64/",
    "/usr/local/cuda/targets/x86_64-linux/lib/",
    "/usr/local/cuda/targets/sbsa-linux/lib/",
    "/opt/cuda/extras/CUPTI/lib64/",
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

bool bind_place(const char *loaded, int major, unsigned n, char *path, size_t size)
{
    const char *slash = strrchr(loaded, '/');
    if (!slash || n >= COUNT(places))
        return false;
    int len =
        snprintf(path, size, "%.*s/%s%s", (int)(slash - loaded), loaded, places[n], soname(major));
    if (len < 0 || (size_t)len >= size)
        path[0] = '\0';
    return true;
}

static void *open_at(const char *path)
{
    return path[0] ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
}

static void *open_beside(const char *loaded, int major)
{
    char path[2048];
    for (unsigned n = 0; bind_place(loaded, major, n, path, sizeof path); n++) {
        void *handle = open_at(path);
        if (handle)
            return handle;
    }
    return NULL;
}

static void *open_loaded(const struct loaded *l)
{
    for (unsigned i = 0; i < COUNT(majors); i++) {
        void *handle = dlopen(soname(majors[i]), RTLD_LAZY | RTLD_NOLOAD);
        if (handle)
            return handle;
    }
    for (unsigned i = 0; i < l->n_cupti; i++) {
        void *handle = dlopen(l->cupti[i], RTLD_LAZY | RTLD_NOLOAD);
        if (handle && loader_symbol(handle, "cuptiGetVersion")) /* helper libraries lack it */
            return handle;
    }
    return NULL;
}

/* Tries one major version: beside the runtime, torch and wheels, on the loader's path, in a
 * toolkit. */
static void *open_major(const struct loaded *l, int major)
{
    void *handle = NULL;
    for (unsigned i = 0; !handle && i < l->n_cudart; i++)
        handle = open_beside(l->cudart[i], major);
    for (unsigned i = 0; !handle && i < l->n_torch; i++)
        handle = open_beside(l->torch[i], major);
    for (unsigned i = 0; !handle && i < l->n_wheel; i++)
        handle = open_beside(l->wheel[i], major);
    if (!handle)
        handle = dlopen(soname(major), RTLD_LAZY | RTLD_LOCAL);
    for (unsigned i = 0; !handle && i < COUNT(toolkits); i++) {
        char path[256];
        snprintf(path, sizeof path, "%s%s", toolkits[i], soname(major));
        handle = open_at(path);
    }
    return handle;
}

/* Tries the major version of the loaded runtime first. Skips versions newer than the driver, which
 * would fail to start. */
static void *open_new(const struct loaded *l)
{
    int newest = newest_cuda(l);
    for (unsigned i = 0; i < l->n_cudart; i++) {
        int major = major_of(l->cudart[i]);
        void *handle = major >= 11 && major <= 13 && (!newest || major <= newest)
                           ? open_major(l, major)
                           : NULL;
        if (handle)
            return handle;
    }
    for (unsigned i = 0; i < COUNT(majors); i++) {
        void *handle = !newest || majors[i] <= newest ? open_major(l, majors[i]) : NULL;
        if (handle)
            return handle;
    }
    return NULL;
}

/* ---- binding ---- */

/* Binds every function. Returns false if a NEEDED one is missing. */
static bool bind_all(struct cupti *c, void *handle)
{
    bool whole = true;
#define CUPTI(field, function, since, parameters)                                                  \
    c->field = (int(*) parameters)loader_symbol(handle, #function);                                \
    whole = whole && (c->field || (since) != NEEDED);
#include "cupti/bind.def"
#undef CUPTI
    return whole;
}

/* Unbinds functions that the library exports but that work only from the version in their row
 * on. */
static void unbind_newer(struct cupti *c)
{
#define CUPTI(field, function, since, parameters)                                                  \
    if ((since) != NEEDED && c->version < (since))                                                 \
        c->field = NULL;
#include "cupti/bind.def"
#undef CUPTI
}

/* CUPTI opens the driver by this name, too. Without a driver, cuptiGetVersion() of 13.2.86 recurses
 * until the stack overflows. Older versions return their version, newer ones an error. */
static bool has_driver(void)
{
    return dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != NULL;
}

static enum bind_result open_library(void **handle)
{
    struct loaded *l = calloc(1, sizeof *l);
    enum bind_result result = BIND_NOT_FOUND;
    if (!l)
        return result;
    loader_walk(note_library, l);
    if (has_cupti_in_torch(l))
        result = BIND_IN_TORCH;
    else if ((*handle = open_loaded(l)) || (*handle = open_new(l)))
        result = BIND_DONE;
    free(l);
    return result;
}

enum bind_result bind_open(struct cupti *c)
{
    void *handle = NULL;
    enum bind_result opened = has_driver() ? open_library(&handle) : BIND_NO_DRIVER;
    if (opened != BIND_DONE)
        return opened;
    bool whole = bind_all(c, handle);
    struct link_map *map = NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map)
        snprintf(c->path, sizeof c->path, "%s", map->l_name);
    if (!c->get_version)
        return BIND_BROKEN;
    c->error = c->get_version(&c->version);
    if (c->error != CUPTI_OK)
        return BIND_NO_GPU;
    if (c->version < CUPTI_OLDEST)
        return BIND_TOO_OLD;
    unbind_newer(c);
    return whole ? BIND_DONE : BIND_BROKEN;
}

const char *bind_error(const struct cupti *c, int result)
{
    const char *text = NULL;
    if (!c->get_result_string || c->get_result_string(result, &text) != CUPTI_OK || !text)
        return "unknown error";
    return text;
}

void bind_say_missing(const struct cupti *c, enum bind_result found)
{
    static const char hooks_only[] = "CUDA calls are recorded, GPU activity is not";
    if (found == BIND_NOT_FOUND)
        log_info("found no libcupti.so (CUDA 11.8 to 13); %s", hooks_only);
    else if (found == BIND_NO_DRIVER)
        log_info("found no driver (libcuda.so.1); %s", hooks_only);
    else if (found == BIND_IN_TORCH)
        log_warn("this PyTorch has CUPTI linked into libtorch_cpu.so, or none; so that its own "
                 "profiler works, %s",
                 hooks_only);
    else if (found == BIND_TOO_OLD)
        log_info("%s: CUPTI is older than CUDA 11.8; %s", c->path, hooks_only);
    else if (found == BIND_BROKEN)
        log_warn("%s: CUPTI lacks functions that cprof needs; %s", c->path, hooks_only);
}

const char *bind_versions_json(const struct cupti *c)
{
    static char text[192];
    int runtime = bind_runtime_version();
    int used = snprintf(text, sizeof text, "\"cupti_version\": %u,\n", c->version);
    if (runtime)
        snprintf(text + used, sizeof text - (size_t)used, "\"cuda_runtime_version\": %d,\n",
                 runtime);
    return text;
}
