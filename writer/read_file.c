/* SPDX-License-Identifier: Apache-2.0 */
/* See read_file.h. */
#include "writer/read_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "writer/aside.h"

struct reading {
    const char *path;
    char *text;
    size_t most, used;
};

static int read_whole(void *arg)
{
    struct reading *r = arg;
    int fd = open(r->path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && r->used < r->most) {
        ssize_t got = read(fd, r->text + r->used, r->most - r->used);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            break;
        r->used += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        close(fd);
    return 0;
}

size_t read_file(const char *path, char *text, size_t size)
{
    struct reading reading = {path, text, size - 1, 0};
    int saved = errno;
    aside_run(read_whole, &reading);
    text[reading.used] = '\0';
    errno = saved;
    return reading.used;
}

struct search {
    const char *pattern;
    glob_t *found;
};

static int search(void *arg)
{
    const struct search *s = arg;
    return glob(s->pattern, GLOB_NOSORT, NULL, s->found);
}

bool find_files(const char *pattern, glob_t *found)
{
    return aside_run(search, &(struct search){pattern, found}) == 0;
}
