/* SPDX-License-Identifier: Apache-2.0 */
/* Every call of cprof.h from C++11: in namespaces, through function pointers, and beside a class
 * with the same names. Compiled and run by tests/e2e/test_markers.py. */
#include "preload/cprof.h"
#include "preload/cprof.h" /* including it twice must work; lint: allow */

#include <cstdio>

namespace training
{
struct scope {
    explicit scope(struct cprof_marker *m) : marker(m)
    {
        ::cprof_marker_start(marker);
    }
    ~scope()
    {
        ::cprof_marker_finish(marker);
    }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;
    struct cprof_marker *marker;
};

struct own {
    int cprof_action() const
    {
        return 7;
    }
};
} // namespace training

int main()
{
    const char *const categories[] = {"c++", "raii"};
    struct cprof_marker_options options = CPROF_MARKER_DEFAULTS;
    options.categories = categories;
    options.n_categories = 2;
    struct cprof_marker *m = cprof_marker("scope", &options);
    void (*const step)() = &cprof_step;
    enum cprof_action last = CPROF_SKIP;
    std::printf("version [%s] own %d\n", cprof_version(), training::own().cprof_action());
    for (int i = 0; i < 4; i++) {
        training::scope outer(m);
        last = static_cast<enum cprof_action>(::cprof_action());
        int push = cprof_range_push("range");
        int pop = cprof_range_pop();
        cprof_marker_instant(m);
        cprof_mark("moment");
        const char *const series[] = {"x"};
        const double real = 2.5;
        const int64_t whole = -7;
        cprof_marker_counter(m, 1, series, &real);
        cprof_marker_counter_int(m, 1, series, &whole);
        std::printf("step %lld action %d recording %d depths %d %d\n",
                    static_cast<long long>(cprof_step_number()), static_cast<int>(last),
                    cprof_is_recording(), push, pop);
        if (i % 2)
            step();
        else
            cprof_step_marker();
    }
    return 0;
}
