/* SPDX-License-Identifier: Apache-2.0 */
/* A trace handler that is a C++ object. It must be closed before it is destroyed, which is
 * before main()'s statics are. Compiled and run by tests/e2e/test_handlers.py. */
#include "preload/cprof.h"

#include <cstdio>
#include <map>
#include <string>

namespace
{
class totals
{
public:
    totals() = default;
    totals(const totals &) = delete;
    totals &operator=(const totals &) = delete;
    ~totals()
    {
        std::printf("closed %d before the end\n", closed_);
    }

    bool add()
    {
        struct cprof_trace_handler h = CPROF_TRACE_HANDLER_DEFAULTS;
        h.name = "totals";
        h.arg = this;
        h.duration = [](void *self, const struct cprof_event *event) {
            static_cast<totals *>(self)->durations_[event->name] += event->is_start ? 0 : 1;
        };
        h.counter = [](void *self, const struct cprof_event *event) {
            for (size_t i = 0; i < event->n_values; i++)
                static_cast<totals *>(self)->values_[event->values[i].name] +=
                    event->values[i].real;
        };
        h.close = [](void *self) { static_cast<totals *>(self)->print(); };
        return ::cprof_add_trace_handler(&h) != 0;
    }

private:
    void print()
    {
        closed_++;
        for (const auto &one : durations_)
            std::printf("%s %d\n", one.first.c_str(), one.second);
        for (const auto &one : values_)
            std::printf("%s %g\n", one.first.c_str(), one.second);
    }

    std::map<std::string, int> durations_;
    std::map<std::string, double> values_;
    int closed_ = 0;
};

totals all;
} // namespace

int main()
{
    const char *names[3] = {"", "", ""};
    std::printf("added %d\n", static_cast<int>(all.add()));
    const int n = static_cast<int>(cprof_trace_handlers(names, 3));
    std::printf("handlers %d %s\n", n, names[1]);
    struct cprof_marker *m = cprof_marker("work", nullptr);
    for (int i = 0; i < 4; i++) {
        cprof_marker_start(m);
        const char *const series[] = {"x", "y"};
        const double real[] = {0.5, 2};
        cprof_marker_counter(m, 2, series, real);
        cprof_marker_finish(m);
        cprof_step();
    }
    return 0;
}
