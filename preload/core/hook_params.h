/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the parameters of wrappers from a list of types, for the .def files of hooks. */
#pragma once

/* The parameter list and the argument list for these types. */
#define HOOK_PARAMS(...) HOOK_PICK(HOOK_PARAMS_, HOOK_ARITY(__VA_ARGS__))(__VA_ARGS__)
#define HOOK_ARGS(...)   HOOK_PICK(HOOK_ARGS_, HOOK_ARITY(__VA_ARGS__))

#define HOOK_ARITY(...) HOOK_ARITY_(_, ##__VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)

#define HOOK_ARITY_(_, a, b, c, d, e, f, g, h, i, j, k, l, n, ...) n
#define HOOK_PICK(stem, n)                                         HOOK_PICK_(stem, n)
#define HOOK_PICK_(stem, n)                                        stem##n

#define HOOK_PARAMS_0(...)                       (void)
#define HOOK_PARAMS_1(A)                         (A a)
#define HOOK_PARAMS_2(A, B)                      (A a, B b)
#define HOOK_PARAMS_3(A, B, C)                   (A a, B b, C c)
#define HOOK_PARAMS_4(A, B, C, D)                (A a, B b, C c, D d)
#define HOOK_PARAMS_5(A, B, C, D, E)             (A a, B b, C c, D d, E e)
#define HOOK_PARAMS_6(A, B, C, D, E, F)          (A a, B b, C c, D d, E e, F f)
#define HOOK_PARAMS_7(A, B, C, D, E, F, G)       (A a, B b, C c, D d, E e, F f, G g)
#define HOOK_PARAMS_8(A, B, C, D, E, F, G, H)    (A a, B b, C c, D d, E e, F f, G g, H h)
#define HOOK_PARAMS_9(A, B, C, D, E, F, G, H, I) (A a, B b, C c, D d, E e, F f, G g, H h, I i)
#define HOOK_PARAMS_10(A, B, C, D, E, F, G, H, I, J)                                               \
    (A a, B b, C c, D d, E e, F f, G g, H h, I i, J j)
#define HOOK_PARAMS_11(A, B, C, D, E, F, G, H, I, J, K)                                            \
    (A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k)
#define HOOK_PARAMS_12(A, B, C, D, E, F, G, H, I, J, K, L)                                         \
    (A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k, L l)

#define HOOK_ARGS_0  ()
#define HOOK_ARGS_1  (a)
#define HOOK_ARGS_2  (a, b)
#define HOOK_ARGS_3  (a, b, c)
#define HOOK_ARGS_4  (a, b, c, d)
#define HOOK_ARGS_5  (a, b, c, d, e)
#define HOOK_ARGS_6  (a, b, c, d, e, f)
#define HOOK_ARGS_7  (a, b, c, d, e, f, g)
#define HOOK_ARGS_8  (a, b, c, d, e, f, g, h)
#define HOOK_ARGS_9  (a, b, c, d, e, f, g, h, i)
#define HOOK_ARGS_10 (a, b, c, d, e, f, g, h, i, j)
#define HOOK_ARGS_11 (a, b, c, d, e, f, g, h, i, j, k)
#define HOOK_ARGS_12 (a, b, c, d, e, f, g, h, i, j, k, l)
