/*
 * test_encode_portable.c
 *		test_encode_kernels.c without SIMD.
 */
#define PGOS_NO_SIMD
#include "test_encode_kernels.c"
