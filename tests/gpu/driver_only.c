/* SPDX-License-Identifier: Apache-2.0 */
/* Uses the driver API only, without a runtime: a module from PTX, launches, copies, memsets, an
 * event. --launches N. Real build: cc -I. tests/gpu/driver_only.c -lcuda */
#include <cuda.h>

#include "tests/gpu/program.h"

static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                          ".visible .entry spin_kernel(.param .u64 ns)\n{\n"
                          ".reg .pred %p1;\n.reg .b64 %rd<5>;\n"
                          "ld.param.u64 %rd1, [ns];\nmov.u64 %rd2, %globaltimer;\n"
                          "again:\nmov.u64 %rd3, %globaltimer;\nsub.s64 %rd4, %rd3, %rd2;\n"
                          "setp.lt.u64 %p1, %rd4, %rd1;\n@%p1 bra again;\nret;\n}\n";

int main(int argc, char **argv)
{
    long launches = number(argc, argv, "launches", 100);
    uint64_t ns = (uint64_t)number(argc, argv, "ns", 20000);
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction spin;
    CUstream stream;
    CUevent event;
    CUdeviceptr memory;
    unsigned host[1024];
    void *args[] = {&ns};
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, ptx));
    CHECK(cuModuleGetFunction(&spin, module, "spin_kernel"));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    CHECK(cuMemAlloc(&memory, sizeof host));
    tally.allocs++;
    for (long i = 0; i < launches; i++, tally.kernels++)
        CHECK(cuLaunchKernel(spin, 1, 1, 1, 32, 1, 1, 0, stream, args, NULL));
    CHECK(cuMemsetD32Async(memory, 0x12345678, 1024, stream));
    tally_fill(sizeof host);
    CHECK(cuEventRecord(event, stream));
    tally.event_records++;
    CHECK(cuMemcpyDtoHAsync(host, memory, sizeof host, stream));
    tally_copy(DTOH, sizeof host);
    CHECK(cuEventSynchronize(event));
    tally.event_syncs++;
    CHECK(cuStreamSynchronize(stream));
    tally.stream_syncs++;
    EXPECT(host[0] == 0x12345678 && host[1023] == 0x12345678);
    CHECK(cuMemcpyHtoD(memory, host, sizeof host));
    tally_copy(HTOD, sizeof host);
    CHECK(cuCtxSynchronize());
    tally.device_syncs++;
    CHECK(cuMemFree(memory));
    tally.frees++;
    CHECK(cuEventDestroy(event));
    CHECK(cuStreamDestroy(stream));
    CHECK(cuModuleUnload(module));
    CHECK(cuDevicePrimaryCtxRelease(device));
    return report();
}
