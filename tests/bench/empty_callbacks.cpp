// SPDX-License-Identifier: Apache-2.0
// Callbacks for torch's operators and ranges that do nothing, as cprof asks for them: what torch
// itself takes as soon as anybody listens. scripts/bench builds them with the headers of the torch
// that is measured. Called from Python.
#include <ATen/record_function.h>

static at::CallbackHandle operators, ranges;

static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction &)
{
    return nullptr;
}

static void end(const at::RecordFunction &, at::ObserverContext *)
{
}

// inputs: as with shapes or FLOPs.
extern "C" void empty_callbacks_on(int inputs)
{
    using at::RecordScope;
    operators =
        at::addGlobalCallback(at::RecordFunctionCallback(begin, end)
                                  .needsInputs(inputs != 0)
                                  .scopes({RecordScope::FUNCTION, RecordScope::BACKWARD_FUNCTION}));
    ranges = at::addGlobalCallback(
        at::RecordFunctionCallback(begin, end).scopes({RecordScope::USER_SCOPE}));
}

extern "C" void empty_callbacks_off(void)
{
    at::removeCallback(operators);
    at::removeCallback(ranges);
}
