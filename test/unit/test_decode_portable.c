/*
 * test_decode_portable.c
 *		test_decode_kernels.c without SIMD.
 */
#define PGOS_NO_SIMD
#include "test_decode_kernels.c"
