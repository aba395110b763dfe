/* SPDX-License-Identifier: Apache-2.0 */
/* A library whose functions end the steps of CPROF_STEP=symbol: (tests/e2e/test_step_names.py).
 * They have many arguments of every kind and results in every kind of register; one is left by
 * longjmp(). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct large {
    long a[5];
};
struct two {
    double x, y;
};

int engine_step(int i);
long engine_many(long a, double b, long c, double d, long e, double f, long g, double h, long i,
                 double j, long k, struct large l, long m, double n, double o, double p, double q);
struct large engine_large(int i);
struct two engine_two(double x);
long double engine_long(long double x);
int engine_sum(int n, ...);
void engine_leave(jmp_buf where);
int engine_inside(int n);
int engine_data = 5;

int engine_step(int i)
{
    errno = i;
    return i * 2;
}

long engine_many(long a, double b, long c, double d, long e, double f, long g, double h, long i,
                 double j, long k, struct large l, long m, double n, double o, double p, double q)
{
    return a + c * 2 + e * 3 + g * 4 + i * 5 + k * 6 + l.a[0] * 7 + l.a[4] * 8 + m * 9 +
           (long)(b + d * 2 + f * 3 + h * 4 + j * 5 + n * 6 + o * 7 + p * 8 + q * 9);
}

struct large engine_large(int i)
{
    struct large l = {{i, i + 1, i + 2, i + 3, i + 4}};
    return l;
}

struct two engine_two(double x)
{
    struct two t = {x, -x};
    return t;
}

long double engine_long(long double x)
{
    return x * 2;
}

int engine_sum(int n, ...)
{
    va_list list;
    int sum = 0;
    va_start(list, n);
    for (int i = 0; i < n; i++)
        sum += va_arg(list, int) + (int)va_arg(list, double);
    va_end(list);
    return sum;
}

void engine_leave(jmp_buf where)
{
    longjmp(where, 7);
}

int engine_inside(int n)
{
    for (int i = 0; i < n; i++)
        engine_step(i);
    return n;
}
