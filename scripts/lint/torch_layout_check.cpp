/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares cprof's row of preload/core/torch_layout.def with the torch headers this is compiled
 * against.
 *
 *     g++ -std=c++20 -w -DNDEBUG -D_GLIBCXX_USE_CXX11_ABI=1 -I . \
 *         -I <torch>/include -I <torch>/include/torch/csrc/api/include \
 *         scripts/lint/torch_layout_check.cpp -o check -no-pie -Wl,--unresolved-symbols=ignore-all
 *     ./check            exit 0: the row is right; 1: it is missing, or the printed fields differ
 *     ./check --print    only print the values of the headers, for a new row
 *
 * It only needs the headers: it calls nothing of torch, so the linker may leave torch's symbols
 * undefined. With -DTABLE_APART another file defines layout_find() and layout_dtype(), so that one
 * object can be compared with several tables.
 * tests/e2e/test_torch_layout.py does all this.
 */
/* The standard headers come first: the #defines below must not affect them. */
#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <chrono>
#include <cmath>
#include <complex>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <ostream>
#include <queue>
#include <random>
#include <regex>
#include <set>
#include <shared_mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#define private public
#define protected public
#include <ATen/core/List.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <torch/version.h>
/* The versions whose rows have fields of a process group and of c10d's data about a transfer. */
#define GROUPS (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
#if GROUPS
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif
/* The versions in which c10d has more data about a transfer. */
#define COMMS_MORE (GROUPS && TORCH_VERSION_MINOR >= 12)
#undef private
#undef protected

#include "preload/core/torch_layout.h"

#ifdef TABLE_APART
extern "C" const struct torch_layout *layout_find(int major, int minor, bool cxx11_abi);
extern "C" const char *layout_dtype(const struct torch_layout *row, unsigned dtype);
#else
#define layout_find  torch_layout_find
#define layout_dtype torch_layout_dtype
#endif

namespace
{
bool print_only;
const struct torch_layout *row;
int wrong;
size_t fields;

/* Checks a field: prints the headers' value, or a line if the row's value differs. */
void check(const char *name, size_t header, size_t ours)
{
    if (print_only) {
        std::printf("%s %zu\n", name, header);
    } else if (header != ours) {
        std::printf("WRONG %s: the headers say %zu, cprof's row says %zu\n", name, header, ours);
        wrong++;
    }
}

/* A member of struct torch_layout. */
#define FIELD(name, value)                                                                         \
    do {                                                                                           \
        check(#name, static_cast<size_t>(value), row ? row->name : 0);                             \
        fields++;                                                                                  \
    } while (0)
#define OFFSET(type, member) __builtin_offsetof(type, member)

/* Tags that only some versions have. */
template <class T> size_t tag_uint()
{
    if constexpr (requires { T::UInt; })
        return static_cast<size_t>(T::UInt);
    else
        return TORCH_LAYOUT_ABSENT;
}

template <class T> size_t tag_sym_bool()
{
    if constexpr (requires { T::SymBool; })
        return static_cast<size_t>(T::SymBool);
    else
        return TORCH_LAYOUT_ABSENT;
}

/* The byte that set() changes in a zeroed object of type T. */
struct place {
    size_t offset;
    size_t mask;
};

template <class T, class F> place find_place(F set)
{
    alignas(16) static unsigned char bytes[sizeof(T)];
    place p{TORCH_LAYOUT_ABSENT, 0};
    std::memset(bytes, 0, sizeof(bytes));
    set(*reinterpret_cast<T *>(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        if (bytes[i] != 0) {
            if (p.mask != 0) {
                std::printf("WRONG: a field that should lie in one byte does not\n");
                wrong++;
            }
            p = {i, bytes[i]};
        }
    }
    return p;
}

/* The offset of the byte with this value in an object. */
template <class T> size_t find_byte(const T &object, unsigned char value)
{
    unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, static_cast<const void *>(&object), sizeof(T));
    return static_cast<size_t>(std::find(bytes, bytes + sizeof(T), value) - bytes);
}

size_t key_bit(c10::DispatchKey key)
{
    return static_cast<size_t>(__builtin_ctzll(c10::DispatchKeySet(key).raw_repr()));
}

/* The number of a kind; 0 if kinds are no enumeration. */
template <class Kind> size_t kind_number(const Kind &kind)
{
    if constexpr (std::is_enum_v<Kind>)
        return static_cast<size_t>(kind);
    else
        return 0;
}

void check_functions()
{
    using Callback = at::RecordFunctionCallback;
    using Function = at::RecordFunction;
    using Inputs = decltype(Function::inputs_);

    FIELD(cb_size, sizeof(Callback));
    FIELD(cb_start, OFFSET(Callback, start_));
    FIELD(cb_end, OFFSET(Callback, end_));
    FIELD(cb_sampling_prob, OFFSET(Callback, sampling_prob_));
    FIELD(cb_scopes, OFFSET(Callback, scopes_));
    FIELD(cb_needs_inputs, OFFSET(Callback, needs_inputs_));
    FIELD(cb_needs_outputs, OFFSET(Callback, needs_outputs_));
    FIELD(cb_needs_ids, OFFSET(Callback, needs_ids_));
    static_assert(std::is_trivially_copyable_v<Callback>);

    FIELD(rf_size, sizeof(Function));
    FIELD(rf_thread_id, OFFSET(Function, step_callbacks_.thread_id_));
    FIELD(rf_scope, OFFSET(Function, step_callbacks_.scope_));
    FIELD(rf_sequence_nr, OFFSET(Function, sequence_nr_));
    FIELD(rf_inputs_data, OFFSET(Function, inputs_) + OFFSET(Inputs, Data));
    FIELD(rf_inputs_size, OFFSET(Function, inputs_) + OFFSET(Inputs, Length));
    FIELD(rf_fwd_thread_id, OFFSET(Function, fwd_thread_id_));
    FIELD(rf_handle, OFFSET(Function, handle_));
    FIELD(rf_is_async, OFFSET(Function, is_async_));

    check("TORCH_SCOPE_COUNT", static_cast<size_t>(at::RecordScope::NUM_SCOPES), TORCH_SCOPE_COUNT);
    check("TORCH_SCOPE_BACKWARD_FUNCTION", static_cast<size_t>(at::RecordScope::BACKWARD_FUNCTION),
          TORCH_SCOPE_BACKWARD_FUNCTION);
    check("TORCH_SCOPE_USER_SCOPE", static_cast<size_t>(at::RecordScope::USER_SCOPE),
          TORCH_SCOPE_USER_SCOPE);
    check("TORCH_SCOPE_STATIC_RUNTIME_MODEL",
          static_cast<size_t>(at::RecordScope::STATIC_RUNTIME_MODEL),
          TORCH_SCOPE_STATIC_RUNTIME_MODEL);
}

void check_values()
{
    using c10::IValue;
    using c10::detail::ListImpl;
    using Tag = IValue::Tag;

    FIELD(iv_size, sizeof(IValue));
    FIELD(iv_payload, OFFSET(IValue, payload));
    FIELD(iv_tag, OFFSET(IValue, tag));
    static_assert(sizeof(Tag) == 4);
    FIELD(tag_none, Tag::None);
    FIELD(tag_tensor, Tag::Tensor);
    FIELD(tag_storage, Tag::Storage);
    FIELD(tag_double, Tag::Double);
    FIELD(tag_complex_double, Tag::ComplexDouble);
    FIELD(tag_int, Tag::Int);
    FIELD(tag_uint, tag_uint<Tag>());
    FIELD(tag_sym_int, Tag::SymInt);
    FIELD(tag_sym_float, Tag::SymFloat);
    FIELD(tag_sym_bool, tag_sym_bool<Tag>());
    FIELD(tag_bool, Tag::Bool);
    FIELD(tag_tuple, Tag::Tuple);
    FIELD(tag_string, Tag::String);
    FIELD(tag_generic_list, Tag::GenericList);
    FIELD(tag_generic_dict, Tag::GenericDict);
    FIELD(tag_device, Tag::Device);
    FIELD(tag_stream, Tag::Stream);
    FIELD(tag_object, Tag::Object);
    FIELD(tag_generator, Tag::Generator);
    auto bit = [](auto tag) { return size_t{1} << static_cast<size_t>(tag); };
    size_t sym_bool = tag_sym_bool<Tag>();
    FIELD(scalar_tags, bit(Tag::Double) | bit(Tag::ComplexDouble) | bit(Tag::Int) |
                           bit(Tag::Bool) | bit(Tag::SymInt) | bit(Tag::SymFloat) |
                           (sym_bool == TORCH_LAYOUT_ABSENT ? 0 : bit(sym_bool)));

#if GROUPS
    FIELD(ob_slots, OFFSET(c10::ivalue::Object, slots_));
    FIELD(tag_capsule, Tag::Capsule);
    FIELD(pg_rank, OFFSET(c10d::ProcessGroup, rank_));
    FIELD(pg_size, OFFSET(c10d::ProcessGroup, size_));
    static_assert(sizeof(c10d::ProcessGroup::rank_) == 4);
#else
    FIELD(ob_slots, TORCH_LAYOUT_ABSENT);
    FIELD(tag_capsule, TORCH_LAYOUT_ABSENT);
    FIELD(pg_rank, TORCH_LAYOUT_ABSENT);
    FIELD(pg_size, TORCH_LAYOUT_ABSENT);
#endif

    /* libstdc++'s std::vector is begin, end, end of storage. */
    FIELD(list_begin, OFFSET(ListImpl, list));
    FIELD(list_end, OFFSET(ListImpl, list) + sizeof(void *));
    FIELD(list_element_type, OFFSET(ListImpl, elementType));
    FIELD(type_kind, OFFSET(c10::Type, kind_));
    static_assert(sizeof(c10::TypeKind) == 4);
    FIELD(kind_tensor, c10::TypeKind::TensorType);
}

void check_comms()
{
#if GROUPS
    using Comms = torch::ParamCommsDebugInfo;
    using Group = decltype(Comms::pgName_);
    alignas(16) static unsigned char bytes[sizeof(Group)];
    auto in_group = [](const std::string &part) {
        return static_cast<size_t>(reinterpret_cast<const unsigned char *>(&part) - bytes);
    };
    const Group &group = *reinterpret_cast<const Group *>(bytes);
    FIELD(pc_about, OFFSET(Comms, pgName_) + in_group(std::get<1>(group)));
    FIELD(pc_group, OFFSET(Comms, pgName_) + in_group(std::get<0>(group)));
    FIELD(pc_rank, OFFSET(Comms, rank_));
    FIELD(pc_size, OFFSET(Comms, worldSize_));
    FIELD(pc_name, OFFSET(Comms, collectiveName_));
    FIELD(pc_in, OFFSET(Comms, inMessageNelems_));
    FIELD(pc_out, OFFSET(Comms, outMessageNelems_));
    FIELD(pc_dtype, OFFSET(Comms, dType_));
    FIELD(pc_in_split, OFFSET(Comms, inputSplitSizes_));
    FIELD(pc_out_split, OFFSET(Comms, outputSplitSizes_));
    FIELD(pc_start, OFFSET(Comms, globalRankStart_));
    FIELD(pc_stride, OFFSET(Comms, globalRankStride_));
    FIELD(pc_ranks, OFFSET(Comms, groupRanks_));
    static_assert(sizeof(Comms::inMessageNelems_) ==
                  OFFSET(Comms, outMessageNelems_) - OFFSET(Comms, inMessageNelems_));
    static_assert(sizeof(Comms::dType_) == 1 && sizeof(Comms::rank_) == 4);
    /* It is passed like a number or a pointer. */
    static_assert(std::is_trivially_copyable_v<c10::DebugInfoKind>);
    constexpr bool numbered = std::is_enum_v<c10::DebugInfoKind>;
    static_assert(numbered || sizeof(c10::DebugInfoKind) == sizeof(void *));
    if (numbered)
        check("TORCH_COMMS_KIND", kind_number(c10::DebugInfoKind::PARAM_COMMS_INFO),
              TORCH_COMMS_KIND);
    check("TORCH_COMMS_TYPE_NAME", std::strcmp(typeid(Comms).name(), TORCH_COMMS_TYPE_NAME) == 0,
          true);
#else
    FIELD(pc_about, TORCH_LAYOUT_ABSENT);
    FIELD(pc_group, TORCH_LAYOUT_ABSENT);
    FIELD(pc_rank, TORCH_LAYOUT_ABSENT);
    FIELD(pc_size, TORCH_LAYOUT_ABSENT);
    FIELD(pc_name, TORCH_LAYOUT_ABSENT);
    FIELD(pc_in, TORCH_LAYOUT_ABSENT);
    FIELD(pc_out, TORCH_LAYOUT_ABSENT);
    FIELD(pc_dtype, TORCH_LAYOUT_ABSENT);
    FIELD(pc_in_split, TORCH_LAYOUT_ABSENT);
    FIELD(pc_out_split, TORCH_LAYOUT_ABSENT);
    FIELD(pc_start, TORCH_LAYOUT_ABSENT);
    FIELD(pc_stride, TORCH_LAYOUT_ABSENT);
    FIELD(pc_ranks, TORCH_LAYOUT_ABSENT);
#endif
#if COMMS_MORE
    FIELD(pc_async, OFFSET(torch::ParamCommsDebugInfo, isAsynchronizedOp_));
    FIELD(pc_seq, OFFSET(torch::ParamCommsDebugInfo, sequenceNumber_));
#else
    FIELD(pc_async, TORCH_LAYOUT_ABSENT);
    FIELD(pc_seq, TORCH_LAYOUT_ABSENT);
#endif
}

void check_tensor()
{
    using c10::StorageImpl;
    using c10::TensorImpl;
    using Device = decltype(TensorImpl::device_opt_);
    const size_t sizes = OFFSET(TensorImpl, sizes_and_strides_);
    const size_t device = OFFSET(TensorImpl, device_opt_);
    const Device known(c10::Device(c10::DeviceType::XLA, 7));
    const unsigned char type = static_cast<unsigned char>(c10::DeviceType::XLA);
    const place policy = find_place<TensorImpl>([](TensorImpl &t) { t.sizes_strides_policy_ = 3; });
    const place custom = find_place<TensorImpl>([](TensorImpl &t) {
        t.sizes_strides_policy_ = static_cast<uint8_t>(TensorImpl::SizesStridesPolicy::CustomSizes);
    });
    const place symbolic =
        find_place<TensorImpl>([](TensorImpl &t) { t.has_symbolic_sizes_strides_ = true; });

    FIELD(ti_size, sizeof(TensorImpl));
    FIELD(ti_storage, OFFSET(TensorImpl, storage_));
    static_assert(sizeof(TensorImpl::storage_) == sizeof(void *));
    FIELD(ti_ndim, sizes + OFFSET(c10::impl::SizesAndStrides, size_));
    FIELD(ti_sizes, sizes + OFFSET(c10::impl::SizesAndStrides, inlineStorage_));
    static_assert(OFFSET(c10::impl::SizesAndStrides, inlineStorage_) ==
                  OFFSET(c10::impl::SizesAndStrides, outOfLineStorage_));
    FIELD(ti_inline_max, C10_SIZES_AND_STRIDES_MAX_INLINE_SIZE);
    FIELD(ti_storage_offset, OFFSET(TensorImpl, storage_offset_));
    FIELD(ti_numel, OFFSET(TensorImpl, numel_));
    FIELD(ti_dtype, OFFSET(TensorImpl, data_type_));
    static_assert(sizeof(TensorImpl::data_type_) == 2);
    FIELD(ti_device_set, device + find_byte(known, 1));
    FIELD(ti_device_type, device + find_byte(known, type));
    FIELD(ti_device_index, device + find_byte(known, 7));
    FIELD(ti_flags, policy.offset);
    check("ti_flags (custom sizes)", custom.offset, policy.offset);
    check("ti_flags (symbolic)", symbolic.offset, policy.offset);
    FIELD(mask_policy, policy.mask);
    FIELD(mask_custom_sizes, custom.mask);
    FIELD(mask_symbolic, symbolic.mask);
    FIELD(ti_key_set, OFFSET(TensorImpl, key_set_));
    FIELD(key_nested, key_bit(c10::DispatchKey::NestedTensor));
    FIELD(key_sparse, key_bit(c10::DispatchKey::Sparse));
    check("value_strideless_keys() begin with mkldnn's", key_bit(c10::DispatchKey::MkldnnCPU),
          key_bit(c10::DispatchKey::Sparse) - 1);
    FIELD(key_python, key_bit(c10::DispatchKey::Python));
    FIELD(key_vmap, key_bit(c10::DispatchKey::FuncTorchBatched));
    FIELD(key_old_vmap, key_bit(c10::DispatchKey::Batched));
    FIELD(key_grad_wrapper, key_bit(c10::DispatchKey::FuncTorchGradWrapper));
    FIELD(st_data, OFFSET(StorageImpl, data_ptr_));
    FIELD(st_nbytes, OFFSET(StorageImpl, size_bytes_));
    FIELD(dtype_undefined, c10::ScalarType::Undefined);

#define DTYPE(type, name)                                                                          \
    do {                                                                                           \
        const auto text = caffe2::TypeMeta::TypeName<type>();                                      \
        const std::string theirs(text.data(), text.size());                                        \
        const size_t number = static_cast<size_t>(c10::ScalarType::name);                          \
        if (print_only) {                                                                          \
            std::printf("dtype %zu %s %s\n", number, #name, theirs.c_str());                       \
        } else if (theirs != layout_dtype(row, static_cast<unsigned>(number))) {             \
            std::printf("WRONG dtype %zu: the headers say %s, cprof says %s\n", number,            \
                        theirs.c_str(), layout_dtype(row, static_cast<unsigned>(number)));   \
            wrong++;                                                                               \
        }                                                                                          \
    } while (0);
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS(DTYPE)
}
} // namespace

int main(int argc, char **argv)
{
    print_only = argc > 1 && std::strcmp(argv[1], "--print") == 0;
    row = layout_find(TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, _GLIBCXX_USE_CXX11_ABI != 0);
    if (row == nullptr && !print_only) {
        std::printf("WRONG: no row for torch %d.%d with _GLIBCXX_USE_CXX11_ABI=%d\n",
                    TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, _GLIBCXX_USE_CXX11_ABI);
        return 1;
    }
    check_functions();
    check_values();
    check_comms();
    check_tensor();
    /* The row was found by min_version, max_version and cxx11_abi, which need no check. */
    if (fields + 3 != sizeof(struct torch_layout) / sizeof(uint16_t)) {
        std::printf("WRONG: %zu members of struct torch_layout are checked, it has %zu\n", fields,
                    sizeof(struct torch_layout) / sizeof(uint16_t) - 3);
        wrong++;
    }
    if (!print_only)
        std::printf("torch %d.%d, _GLIBCXX_USE_CXX11_ABI=%d: %zu fields, %d wrong\n",
                    TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, _GLIBCXX_USE_CXX11_ABI, fields,
                    wrong);
    return wrong != 0;
}
