/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offsets of the fields that cprof reads in libtorch's C++ objects, for each torch version.
 *
 * cprof passes a C function to at::addGlobalCallback. By these offsets it reads the
 * at::RecordFunction, the operator's inputs (c10::IValue) and their tensors (c10::TensorImpl),
 * without a header of torch. The rows are in torch_layout.def; scripts/lint/torch_layout_check.cpp
 * compares a row with the headers of an installed torch. torch_layout_find() returns NULL for a
 * version without a row, which must not be read. Offsets are for 64-bit Linux, the same on x86-64
 * and aarch64.
 *
 * How torch.profiler (Kineto), and therefore cprof, writes inputs: read in torch's source, and seen
 * with 2.5.1 and 2.13.0. An operator without inputs gets none of the keys. Otherwise "Input Dims",
 * "Input type" and "Concrete Inputs" have one entry per input. The first row that fits counts:
 *
 *   input                                            | type        | dims          | concrete
 *   Tensor, undefined; or nested (ti_key_set has     |             |               |
 *     key_nested); or with symbolic sizes            | ""          | []            | ""
 *   Tensor: strided, sparse COO or CSR, mkldnn,      |             |               |
 *     quantized, meta, fake, subclass, vmap          | dtype name  | [sizes]       | ""
 *   Double, Int, ComplexDouble, Bool, SymInt,        |             |               |
 *     SymFloat, SymBool (but not UInt)               | Scalar      | []            | value
 *   GenericList whose elements are of TensorType:    |             |               |
 *     one of its tensors undefined/nested/symbolic   | ""          | []            | ""
 *     more than 30 tensors, or none                  | TensorList  | []            | ""
 *     else (0-dim tensors give [[], []])             | TensorList  | [[..], [..]]  | ""
 *   other GenericList: empty                         | ScalarList  | []            | [] as text
 *     first element a scalar, at most 30 elements    | ScalarList  | []            | [1, 2]
 *     else (strings, Optional[Tensor][] of index)    | ""          | []            | ""
 *   all else: None, String, Device, Generator, Dict, |             |               |
 *     Tuple, Object, Stream, Storage ...             | ""          | []            | ""
 *
 * Layout, dtype and memory format arguments are Int, so Scalar. A Python number passed as a tensor
 * (torch.add(x, 1.5)) is a 0-dim tensor by then, of type double, long int, bool or
 * c10::complex<double>, with dims []. Values are strings: True/False, 3, 0.10000000000000001 (17
 * digits; whole doubles as "1."). With mask_custom_sizes (sizes computed in Python) torch asks the
 * subclass; the fields hold the sizes that the wrapper was made with.
 *
 * "Sequence number" and "Fwd thread id" are written if rf_sequence_nr >= 0. A range
 * "autograd::engine::evaluate_function: ..." (scope FUNCTION) takes both from the thread's next
 * event if that is a BACKWARD_FUNCTION.
 *
 * Older versions, known from headers only: before 2.2 a TensorList's dims are always []. Before 2.1
 * there is no ScalarList and no concrete value. Debian's 1.13 has no Kineto, so no inputs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A torch version as one number, for comparing. */
#define TORCH_LAYOUT_VERSION(major, minor) (1000 * (major) + (minor))

/* A value that this version lacks. */
#define TORCH_LAYOUT_ABSENT 0xffff

/*
 * Mangled names (libtorch_cpu.so), the same for all versions of the table. Their C prototypes, with
 * RF = const at::RecordFunction & = const void *:
 *   ADD_GLOBAL       uint64_t f(callback by value: cb_size bytes, so in memory on the stack)
 *   DISABLE, REENABLE, REMOVE   void f(uint64_t handle)
 *   NAME             const char *f(RF)
 *   CURRENT_THREAD   uint64_t f(void)
 *   NUM_INPUTS       size_t f(RF)
 * aarch64 passes a reference to a copy of the callback. A C struct of cb_size bytes passed by value
 * fits both.
 */
#define TORCH_SYM_ADD_GLOBAL     "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE"
#define TORCH_SYM_DISABLE        "_ZN2at15disableCallbackEm"
#define TORCH_SYM_REENABLE       "_ZN2at16reenableCallbackEm"
#define TORCH_SYM_REMOVE         "_ZN2at14removeCallbackEm"
#define TORCH_SYM_NAME           "_ZNK2at14RecordFunction4nameEv"
#define TORCH_SYM_CURRENT_THREAD "_ZN2at14RecordFunction15currentThreadIdEv"
#define TORCH_SYM_NUM_INPUTS     "_ZNK2at14RecordFunction10num_inputsEv"

/* Which std::string the library was built with: libtorch_cpu.so exports exactly one of the two.
 * Wheels up to 2.5 have the old one, later ones (2.6 or 2.7, by platform) and Debian's 1.13 the new
 * one, so the version does not tell. */
/* In libc10.so: bool(), of the calling thread. */
#define TORCH_SYM_GRAD_MODE "_ZN3c108GradMode10is_enabledEv"

#define TORCH_SYM_ABI_CXX11 "_ZN5torch8profiler4impl10inputTypesB5cxx11ERKN2at14RecordFunctionE"
#define TORCH_SYM_ABI_OLD   "_ZN5torch8profiler4impl10inputTypesERKN2at14RecordFunctionE"

/* The undefined tensor (libc10.so, data): tensors in IValues and lists that are undefined point to
 * it. */
#define TORCH_SYM_UNDEFINED_TENSOR "_ZN3c1019UndefinedTensorImpl10_singletonE"

/* Vtables (libtorch_cpu.so, data): dispatch keys do not distinguish a sparse tensor from its
 * wrappers. */
#define TORCH_SYM_COO_CLASS        "_ZTVN2at16SparseTensorImplE"
#define TORCH_SYM_COMPRESSED_CLASS "_ZTVN2at19SparseCsrTensorImplE"

/* A thread's debug info (libc10.so): DebugInfoBase *f(kind). Up to 2.12 a kind is a number, from
 * 2.13 on a pointer, which the variable holds. */
#define TORCH_SYM_DEBUG_INFO  "_ZN3c1020ThreadLocalDebugInfo3getENS_13DebugInfoKindE"
#define TORCH_SYM_COMMS_KIND  "_ZN3c1013DebugInfoKind16PARAM_COMMS_INFOE"
#define TORCH_COMMS_KIND      4
#define TORCH_COMMS_TYPE_NAME "N5torch19ParamCommsDebugInfoE" /* std::type_info::name() */

/* The constructor of ParamCommsDebugInfo (libtorch_cpu.so). Its types tell the object's fields: a
 * development build with other fields does not export it. %s: "ii" or "ll" for the counts of
 * elements, then "b" if it takes whether the operation is asynchronous. From objects that g++ 12
 * made of the headers of 2.4.1 to 2.15.0 with both ABIs; seen in the libraries of 2.7 and 2.13 to
 * 2.15. */
#define TORCH_SYM_COMMS_CXX11                                                                      \
    "_ZN5torch19ParamCommsDebugInfoC1ESt5tupleIJNSt7__cxx1112basic_stringIcSt11char_"              \
    "traitsIcESaIcEEES7_EEiOS7_%sN3c1010ScalarTypeESt6vectorIlSaIlEESE_iii%s"
#define TORCH_SYM_COMMS_OLD                                                                        \
    "_ZN5torch19ParamCommsDebugInfoC1ESt5tupleIJSsSsEEiOSs%sN3c1010ScalarTypeESt6vectorIlSaIlEES8" \
    "_iii%s"

/* at::RecordScope, the same in all versions of the table. */
enum torch_scope {
    TORCH_SCOPE_FUNCTION = 0,
    TORCH_SCOPE_BACKWARD_FUNCTION = 1,
    TORCH_SCOPE_TORCHSCRIPT_FUNCTION = 2,
    TORCH_SCOPE_KERNEL_FUNCTION_DTYPE = 3,
    TORCH_SCOPE_CUSTOM_CLASS = 4,
    TORCH_SCOPE_BUILD_FEATURE = 5,
    TORCH_SCOPE_LITE_INTERPRETER = 6,
    TORCH_SCOPE_USER_SCOPE = 7,
    TORCH_SCOPE_STATIC_RUNTIME_OP = 8,
    TORCH_SCOPE_STATIC_RUNTIME_MODEL = 9,
    TORCH_SCOPE_COUNT = 10
};

/* A row. Offsets are bytes from the start of the named object. torch_layout_check.cpp needs every
 * member to be a uint16_t. */
struct torch_layout {
    uint16_t min_version; /* first torch version of the row, TORCH_LAYOUT_VERSION */
    uint16_t max_version; /* last torch version of the row */
    uint16_t cxx11_abi;   /* 1: std::string has 32 bytes; 0: 8 bytes */

    /* at::RecordFunctionCallback, trivially copyable. Zero it before filling it in. */
    uint16_t cb_size;
    uint16_t cb_start;         /* void *(*)(void *ret, RF): store the context in *ret, return ret */
    uint16_t cb_end;           /* void (*)(RF, void *context) */
    uint16_t cb_sampling_prob; /* double, 1.0 = every call */
    uint16_t cb_scopes;        /* bool[TORCH_SCOPE_COUNT] */
    uint16_t cb_needs_inputs;  /* bool; if false, rf_inputs_size is 0 */
    uint16_t cb_needs_outputs; /* bool */
    uint16_t cb_needs_ids;     /* bool; if false, rf_handle is 0 */

    /* at::RecordFunction. Its inputs are valid in the start callback only. */
    uint16_t rf_size;
    uint16_t rf_thread_id;     /* uint64_t, torch's own thread number, from 1 */
    uint16_t rf_scope;         /* uint8_t, enum torch_scope */
    uint16_t rf_sequence_nr;   /* int64_t, -1 = none */
    uint16_t rf_inputs_data;   /* const IValue * */
    uint16_t rf_inputs_size;   /* size_t */
    uint16_t rf_fwd_thread_id; /* uint64_t, 0 = none; set for backward nodes */
    uint16_t rf_handle;        /* uint64_t */
    uint16_t rf_is_async;      /* bool */

    /* c10::IValue. For tensors and objects, the payload is a pointer. */
    uint16_t iv_size;
    uint16_t iv_payload; /* 8 bytes: pointer, int64_t, double or bool (first byte) */
    uint16_t iv_tag;     /* uint32_t, one of the values below */
    uint16_t tag_none;
    uint16_t tag_tensor; /* never NULL: undefined is TORCH_SYM_UNDEFINED_TENSOR */
    uint16_t tag_storage;
    uint16_t tag_double;
    uint16_t tag_complex_double; /* the payload points to an object */
    uint16_t tag_int;
    uint16_t tag_uint; /* 2.9 and later */
    uint16_t tag_sym_int;
    uint16_t tag_sym_float;
    uint16_t tag_sym_bool; /* 2.1 and later */
    uint16_t tag_bool;
    uint16_t tag_tuple;
    uint16_t tag_string;
    uint16_t tag_generic_list; /* the payload points to a c10::detail::ListImpl */
    uint16_t tag_generic_dict;
    uint16_t tag_device;
    uint16_t tag_stream;
    uint16_t tag_object;
    uint16_t tag_generator;
    /* bits 1 << tag: double, complex double, int, bool and the symbolic ones */
    uint16_t scalar_tags;

    /* c10::detail::ListImpl, and the c10::Type of its elements. */
    uint16_t list_begin;        /* const IValue * */
    uint16_t list_end;          /* const IValue * */
    uint16_t list_element_type; /* const c10::Type *, never NULL */
    uint16_t type_kind;         /* in c10::Type: uint32_t */
    uint16_t kind_tensor;       /* type_kind of TensorType: such a list is a TensorList */

    /* c10::TensorImpl, and its c10::StorageImpl. */
    uint16_t ti_size;
    uint16_t ti_storage;        /* const c10::StorageImpl *, NULL for sparse and opaque tensors */
    uint16_t ti_ndim;           /* size_t */
    uint16_t ti_sizes;          /* int64_t[ndim], or int64_t * if ndim > ti_inline_max */
    uint16_t ti_inline_max;     /* strides follow the sizes: at [ti_inline_max] or at [ndim] */
    uint16_t ti_storage_offset; /* int64_t, in elements */
    uint16_t ti_numel;          /* int64_t */
    uint16_t ti_dtype;          /* uint16_t, c10::ScalarType; dtype_undefined: undefined tensor */
    uint16_t ti_device_set;     /* bool: the device is known */
    uint16_t ti_device_type;    /* int8_t, 0 = CPU, 1 = CUDA */
    uint16_t ti_device_index;   /* int8_t, -1 = none */
    uint16_t ti_flags;          /* uint8_t holding the two bit-fields below */
    uint16_t mask_policy; /* sizes_strides_policy_; if none is set, the size fields are valid */
    uint16_t mask_custom_sizes; /* its bit that makes sizes() call a virtual function */
    uint16_t mask_symbolic;     /* has_symbolic_sizes_strides_: sizes are symbols */
    uint16_t ti_key_set;        /* uint64_t, bits of DispatchKeySet */
    uint16_t st_data;           /* void *, address of the data (in c10::StorageImpl) */
    uint16_t st_nbytes;         /* int64_t, negative = symbolic */
    uint16_t key_nested;        /* bit number in the key set: nested tensor */
    uint16_t key_sparse;        /* bit number: sparse (COO) tensor */
    /* Bit numbers of wrapper tensors, which operators inside an operator get. TORCH_LAYOUT_ABSENT:
     * not read in this version. */
    uint16_t key_python;       /* subclasses handled in Python, such as DTensor */
    uint16_t key_vmap;         /* torch.func.vmap: FuncTorchBatched */
    uint16_t key_old_vmap;     /* vectorized gradients (is_grads_batched): Batched */
    uint16_t key_grad_wrapper; /* torch.func.grad, vjp, jvp: FuncTorchGradWrapper */

    /* c10::ivalue::Object around a c10d::ProcessGroup, and the group itself. TORCH_LAYOUT_ABSENT:
     * not read in this version. */
    uint16_t ob_slots;    /* const IValue * and then its end; one element, of tag_capsule */
    uint16_t tag_capsule; /* its payload points to the group */
    uint16_t pg_rank;     /* int32_t */
    uint16_t pg_size;     /* int32_t */

    /* torch::ParamCommsDebugInfo, c10d's description of a transfer. TORCH_LAYOUT_ABSENT: unknown or
     * missing in this version. A std::vector is a begin and an end pointer. */
    uint16_t pc_about;     /* std::string: the group's description */
    uint16_t pc_group;     /* std::string: the group's name */
    uint16_t pc_rank;      /* int32_t; for a send or recv, the peer's rank in the group */
    uint16_t pc_size;      /* int32_t */
    uint16_t pc_name;      /* std::string: the collective's name */
    uint16_t pc_in;        /* number of elements; int32_t or int64_t: pc_out - pc_in bytes */
    uint16_t pc_out;       /* the same */
    uint16_t pc_dtype;     /* int8_t, c10::ScalarType */
    uint16_t pc_in_split;  /* std::vector<int64_t> */
    uint16_t pc_out_split; /* std::vector<int64_t> */
    uint16_t pc_start;     /* int32_t, world rank of the group's first member; -1: unknown */
    uint16_t pc_stride;    /* int32_t, distance to the next member; 0: unknown */
    uint16_t pc_ranks;     /* std::vector<int64_t> */
    uint16_t pc_async;     /* bool */
    uint16_t pc_seq;       /* int64_t, -1 = not known */

    uint16_t dtype_undefined; /* ScalarType::Undefined, the number of this version's dtypes */
};

/* The row of a torch version, or NULL; static and constant. cxx11_abi: libtorch_cpu.so exports
 * TORCH_SYM_ABI_CXX11. */
static inline const struct torch_layout *torch_layout_find(int major, int minor, bool cxx11_abi)
{
    static const struct torch_layout rows[] = {
#define TORCH_LAYOUT(min, max, abi, function, tags, object, tensor, keys, group, comms, undefined) \
    {.min_version = min,                                                                           \
     .max_version = max,                                                                           \
     .cxx11_abi = abi,                                                                             \
     TL_CALLBACK,                                                                                  \
     function,                                                                                     \
     tags,                                                                                         \
     object,                                                                                       \
     tensor,                                                                                       \
     keys,                                                                                         \
     group,                                                                                        \
     comms,                                                                                        \
     .dtype_undefined = undefined},
#include "preload/core/torch_layout.def"
#undef TORCH_LAYOUT
    };
    if (major < 0 || minor < 0 || minor > 999)
        return NULL;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (TORCH_LAYOUT_VERSION(major, minor) >= rows[i].min_version &&
            TORCH_LAYOUT_VERSION(major, minor) <= rows[i].max_version &&
            cxx11_abi == (rows[i].cxx11_abi != 0))
            return &rows[i];
    }
    return NULL;
}

/* The name that torch.profiler writes under "Input type" for a c10::ScalarType; "" for an undefined
 * or unknown one. New dtypes are appended, so one table serves all versions. */
static inline const char *torch_layout_dtype(const struct torch_layout *row, unsigned dtype)
{
    static const char *const names[] = {
#define TORCH_DTYPE(value, name, text) text,
#include "preload/core/torch_layout.def"
#undef TORCH_DTYPE
    };
    if (dtype >= row->dtype_undefined || dtype >= sizeof(names) / sizeof(names[0]))
        return "";
    return names[dtype];
}
