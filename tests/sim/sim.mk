# SPDX-License-Identifier: Apache-2.0
# The simulated GPU (tests/sim) and the programs that use a GPU (tests/gpu). Needs the CUDA headers, no toolkit and no GPU.

# tests/gpu/x.c -> build/gpu/x. kernels_sim.c and the libraries made of lib*.c are linked to the programs.
SIM := $(BUILD)/sim
HAVE_CUDA := $(firstword $(wildcard $(addsuffix /cupti_runtime_cbid.h,$(CUDA_INC))))
SIM_CUDA_SRC := $(filter-out tests/sim/cudart% tests/sim/cupti% tests/sim/system% tests/sim/nvml%,$(wildcard tests/sim/*.c))
SIM_CUDART_SRC := $(wildcard tests/sim/cudart*.c)
SIM_CUPTI_SRC := $(wildcard tests/sim/cupti*.c)
SIM_LIB := $(SIM)/libsystemclock.so $(SIM)/libnvidia-ml.so.1 $(SIM)/libcuda.so.1 $(SIM)/libcudart.so.12 $(SIM)/libcudart.so.13 $(SIM)/libcudart_static.a \
	$(SIM)/libcublas.so.12 $(SIM)/libcublasLt.so.12 $(SIM)/libcudnn.so.9 $(SIM)/torch/libtorch_cpu.so $(SIM)/torch/libtorch_cuda.so \
	$(if $(SIM_CUPTI_SRC),$(foreach n,13 12 11.8,$(SIM)/libcupti.so.$n))
GPU_SRC := $(filter-out tests/gpu/kernels% tests/gpu/lib%,$(wildcard tests/gpu/*.c))
GPU_BIN := $(GPU_SRC:tests/gpu/%.c=$(BUILD)/gpu/%)

## sim: the simulated GPU (driver, runtimes 12 and 13, CUPTI) and the programs that use it; needs the CUDA headers
.PHONY: sim
ifneq ($(HAVE_CUDA),)
sim: $(SIM_LIB) $(GPU_BIN) $(BUILD)/gpu/libgpu13_static.so
else
sim:
	@echo "make sim: no CUDA headers: $(BUILD)/cuda.mk names no folder with cupti_runtime_cbid.h (make setup)" >&2; exit 1
endif

# ---- the simulated GPU: real sonames and version nodes, objects of the same sources with other settings ----------

# Calls inside a library bind inside it, as in the real libraries, so that an interposer does not see them.
SIM_CFLAGS := -std=gnu11 -D_GNU_SOURCE= -O2 -g -fPIC -Wno-unused-function $(CFLAGS) $(WARNINGS) -Wno-missing-prototypes \
	$(INCLUDES) $(SANITIZE)
SIM_LINK = $(CC) $(CFLAGS) $(SANITIZE) -shared -Wl,-Bsymbolic-functions -Wl,-rpath,'$$ORIGIN' -Wl,-soname,$(@F) \
	-Wl,--version-script=$(filter %.map,$^) -o $@ $(filter %.o,$^) -lpthread -ldl

define sim_objects # name, sources, options
$(SIM)/$(1)/%.o: tests/sim/%.c $(BUILD)/.flags
	$$(SAY) "  CC      $$@"
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(SIM_CFLAGS) $(3) -MMD -MP -c -o $$@ $$<
SIM_DEPS += $(2:tests/sim/%.c=$(SIM)/$(1)/%.d)
endef
$(eval $(call sim_objects,cuda,$(SIM_CUDA_SRC),))
$(eval $(call sim_objects,cudart12,$(SIM_CUDART_SRC),-DSIM_CUDART=12))
$(eval $(call sim_objects,cudart13,$(SIM_CUDART_SRC),-DSIM_CUDART=13))
$(eval $(call sim_objects,static,$(SIM_CUDART_SRC),-DSIM_CUDART=13 -DSIM_HIDDEN -fvisibility=hidden))
$(foreach n,13 12 11.8,$(eval $(call sim_objects,cupti$n,$(SIM_CUPTI_SRC),-DSIM_CUPTI_SONAME='"libcupti.so.$n"')))

$(SIM)/libcuda.so.1: $(SIM_CUDA_SRC:tests/sim/%.c=$(SIM)/cuda/%.o) tests/sim/libcuda.map
	$(SAY) "  LINK    $@"
	$(Q)$(SIM_LINK)
	@ln -sf $(@F) $(SIM)/libcuda.so

$(SIM)/libcudart.so.%: tests/sim/cudart_%.map $(SIM)/libcuda.so.1
	$(SAY) "  LINK    $@"
	$(Q)$(SIM_LINK)
$(SIM)/libcudart.so.12: $(SIM_CUDART_SRC:tests/sim/%.c=$(SIM)/cudart12/%.o)
$(SIM)/libcudart.so.13: $(SIM_CUDART_SRC:tests/sim/%.c=$(SIM)/cudart13/%.o)

$(SIM)/libcudart_static.a: $(SIM_CUDART_SRC:tests/sim/%.c=$(SIM)/static/%.o)
	@rm -f $@
	@$(AR) rcs $@ $^

$(SIM)/libcupti.so.%: tests/sim/cupti_%.map
	$(SAY) "  LINK    $@"
	$(Q)$(SIM_LINK)
$(foreach n,13 12 11.8,$(eval $(SIM)/libcupti.so.$n: $(SIM_CUPTI_SRC:tests/sim/%.c=$(SIM)/cupti$n/%.o)))

# Imitates a PyTorch with CUPTI linked into it. Has its own folder, because the libraries have PyTorch's names.
$(SIM)/torch/libtorch_cpu.so: $(SIM_CUPTI_SRC:tests/sim/%.c=$(SIM)/cupti13/%.o)
	$(SAY) "  LINK    $@"
	@mkdir -p $(@D)
	$(Q)echo '{ global: cupti*; local: *; };' >$@.map
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) -shared -Wl,-Bsymbolic-functions -Wl,-soname,$(@F) -Wl,--version-script=$@.map -o $@ $^ -lpthread -ldl
$(SIM)/torch/libtorch_cuda.so: $(BUILD)/.flags
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) -shared -Wl,-soname,$(@F) -o $@ -x c /dev/null

$(SIM)/libsystemclock.so: tests/sim/system_clock.c $(BUILD)/.flags
	$(SAY) "  LINK    $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(SIM_CFLAGS) -shared -o $@ $< -lpthread -ldl

$(SIM)/libnvidia-ml.so.1: tests/sim/nvml.c cupti/nvml.h cupti/nvml.def $(BUILD)/.flags
	$(SAY) "  LINK    $@"
	@mkdir -p $(@D)
	$(Q)echo '{ global: nvml*; local: *; };' >$@.map
	$(Q)$(CC) $(SIM_CFLAGS) -shared -Wl,-soname,$(@F) -Wl,--version-script=$@.map -o $@ $<

# Programs: the runtime 13 unless said otherwise below. They find the libraries beside them, LD_LIBRARY_PATH first.
GPU_CC = $(CC) -std=gnu11 -D_GNU_SOURCE= -O2 -g $(CFLAGS) $(WARNINGS) -Wno-missing-prototypes $(INCLUDES) $(SANITIZE)
GPU_RPATH := -Wl,-rpath,'$$ORIGIN/../sim'
GPU_LINK := $(SIM)/libcudart.so.13
GPU_KERNELS := $(BUILD)/gpu/obj/kernels_sim.o
GPU_HEADERS := $(wildcard tests/gpu/*.h) preload/cprof.h tests/sim/sim.h tests/sim/image.h

$(BUILD)/gpu/obj/%.o: tests/gpu/%.c $(GPU_HEADERS) $(BUILD)/.flags
	@mkdir -p $(@D)
	$(Q)$(GPU_CC) -fPIC -fvisibility=hidden -c -o $@ $<

$(BUILD)/gpu/%: $(BUILD)/gpu/obj/%.o $(GPU_KERNELS) $(SIM_LIB)
	$(SAY) "  LINK    $@"
	$(Q)$(GPU_CC) -o $@ $(filter-out $(GPU_WITHOUT),$(filter %.o,$^)) $(GPU_LINK) $(GPU_RPATH) -lpthread -ldl

# cuBLAS, cuBLASLt and cuDNN, whose symbols carry their sonames as version.
BLAS_SIM = $(GPU_CC) -fPIC -shared -Wl,-soname,$(@F) -Wl,--version-script=$@.map -o $@ $(filter %.c %.o,$^) \
	$(filter %.so.12 %.so.13,$^) -Wl,-rpath,'$$ORIGIN' -lpthread -ldl
$(SIM)/libcublasLt.so.12: tests/gpu/libcublasLt.c tests/gpu/blas_sim.h $(GPU_KERNELS) $(SIM)/libcudart.so.13
	$(SAY) "  LINK    $@"
	$(Q)echo '$(@F) { global: cublas*; blas_sim_note; local: *; };' >$@.map
	$(Q)$(BLAS_SIM)
$(SIM)/libcublas.so.12: tests/gpu/libcublas.c tests/gpu/blas_sim.h $(GPU_KERNELS) $(SIM)/libcudart.so.13 \
		$(SIM)/libcublasLt.so.12
	$(SAY) "  LINK    $@"
	$(Q)echo '$(@F) { global: cublas*; local: *; };' >$@.map
	$(Q)$(BLAS_SIM)

$(SIM)/libcudnn.so.9: tests/gpu/libcudnn.c tests/gpu/dnn_sim.h tests/gpu/blas_sim.h $(GPU_KERNELS) $(SIM)/libcudart.so.13
	$(SAY) "  LINK    $@"
	$(Q)echo '$(@F) { global: cudnn*; blas_sim_note; local: *; };' >$@.map
	$(Q)$(BLAS_SIM)

$(BUILD)/gpu/dnn: GPU_LINK := $(SIM)/libcudnn.so.9 $(SIM)/libcudart.so.13
$(BUILD)/gpu/gemm $(BUILD)/gpu/products: GPU_LINK := $(SIM)/libcublas.so.12 $(SIM)/libcublasLt.so.12 $(SIM)/libcudart.so.13
$(BUILD)/gpu/driver_only $(BUILD)/gpu/two_runtimes: GPU_WITHOUT := $(GPU_KERNELS)
$(BUILD)/gpu/driver_only: GPU_LINK := $(SIM)/libcuda.so.1
$(BUILD)/gpu/static_runtime: GPU_LINK := $(SIM)/libcudart_static.a
$(BUILD)/gpu/second_client: GPU_LINK := $(SIM)/libcudart.so.13 $(SIM)/libcupti.so.13
$(BUILD)/gpu/two_runtimes: GPU_LINK = $(BUILD)/gpu/libgpu12.so $(BUILD)/gpu/libgpu13.so -Wl,-rpath,'$$ORIGIN'
$(BUILD)/gpu/two_runtimes: $(BUILD)/gpu/libgpu12.so $(BUILD)/gpu/libgpu13.so

# One library, linked to each of the two runtimes, with kernels of its own.
$(BUILD)/gpu/libgpu%.so: tests/gpu/libgpu.c tests/gpu/kernels_sim.c $(GPU_HEADERS) $(SIM)/libcudart.so.%
	$(SAY) "  LINK    $@"
	@mkdir -p $(@D)
	$(Q)$(GPU_CC) -DRUNTIME=$* -fPIC -fvisibility=hidden -shared -Wl,-soname,libgpu$*.so -o $@ $(filter %.c,$^) \
		$(SIM)/libcudart.so.$* $(GPU_RPATH)

# The same library with the static runtime, for processes with NVIDIA's libcudart, which fails on a simulated driver.
$(BUILD)/gpu/libgpu13_static.so: tests/gpu/libgpu.c tests/gpu/kernels_sim.c $(GPU_HEADERS) $(SIM)/libcudart_static.a
	$(SAY) "  LINK    $@"
	@mkdir -p $(@D)
	$(Q)$(GPU_CC) -DRUNTIME=13 -fPIC -fvisibility=hidden -shared -Wl,-soname,$(@F) -o $@ $(filter %.c,$^) \
		$(SIM)/libcudart_static.a $(SIM)/libcuda.so.1 $(GPU_RPATH) -lpthread -ldl

# Imitates NCCL, which contains its own runtime.
$(BUILD)/gpu/libnccl.so.2: tests/gpu/libnccl.c tests/gpu/kernels_sim.c $(GPU_HEADERS) tests/gpu/nccl.h $(SIM)/libcudart_static.a
	$(SAY) "  LINK    $@"
	@mkdir -p $(@D)
	$(Q)$(GPU_CC) -fPIC -fvisibility=hidden -shared -Wl,-soname,libnccl.so.2 -o $@ $(filter %.c,$^) \
		$(SIM)/libcudart_static.a $(SIM)/libcuda.so.1 $(GPU_RPATH) -lpthread -ldl
$(BUILD)/gpu/transfers $(BUILD)/gpu/ranks: GPU_LINK = $(SIM)/libcudart.so.13 $(BUILD)/gpu/libnccl.so.2 -Wl,-rpath,'$$ORIGIN'
$(BUILD)/gpu/transfers $(BUILD)/gpu/ranks: $(BUILD)/gpu/libnccl.so.2

-include $(SIM_DEPS)
