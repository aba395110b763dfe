/* SPDX-License-Identifier: Apache-2.0 */
/* Things that a C++ extension may do beside a profiler: observers for all threads or one, and
 * calls through an entry that may lead to cprof. Compiled with the headers of the installed
 * PyTorch. */
#include <ATen/record_function.h>

#include <atomic>
#include <new>
#include <thread>

namespace
{

std::atomic<int64_t> begun, ended, strange;

struct Context : at::ObserverContext {
    std::thread::id thread = std::this_thread::get_id();
};

std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction &)
{
    begun++;
    return std::make_unique<Context>();
}

void on_end(const at::RecordFunction &, at::ObserverContext *context)
{
    ended++;
    if (!context || static_cast<Context *>(context)->thread != std::this_thread::get_id())
        strange++;
}

at::RecordFunctionCallback observer(double probability)
{
    return at::RecordFunctionCallback(on_begin, on_end)
        .samplingProb(probability)
        .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION});
}

} // namespace

extern "C" {

uint64_t observe(double probability, int here)
{
    return here ? at::addThreadLocalCallback(observer(probability))
                : at::addGlobalCallback(observer(probability));
}

void forget(uint64_t handle)
{
    at::removeCallback(handle);
}

/* -1: a call ended on another thread or without its context */
int64_t seen(int which)
{
    return strange ? -1 : which ? ended.load() : begun.load();
}

void pause_observers(int on)
{
    at::enableRecordFunction(!on);
}

void *fails(size_t)
{
    throw std::bad_alloc();
}

/* Calls demangle() while `new_slot` leads to a function that fails. Returns 1 for
 * std::bad_alloc. */
int demangle_without_memory(std::string (*demangle)(const char *), void **new_slot,
                            const char *name)
{
    void *before = *new_slot;
    int result = 0;
    *new_slot = reinterpret_cast<void *>(&fails);
    try {
        result = demangle(name).empty() ? 2 : 0;
    } catch (const std::bad_alloc &) {
        result = 1;
    }
    *new_slot = before;
    return result;
}

int set_without_memory(void (*set)(const at::RecordFunctionTLS &), void **new_slot)
{
    uint64_t handle = observe(1, 1);
    at::RecordFunctionTLS with = at::get_record_function_tls_();
    forget(handle);
    at::RecordFunctionTLS without = at::get_record_function_tls_();
    void *before = *new_slot;
    int result = 0;
    *new_slot = reinterpret_cast<void *>(&fails);
    try {
        set(with);
    } catch (const std::bad_alloc &) {
        result = 1;
    }
    *new_slot = before;
    set(without);
    return result;
}
}
