/*
 * random.h
 *		For tests of what reads in wide steps: bits that are the same in every run, and memory with an end.
 */
#ifndef PGOS_TEST_RANDOM_H
#define PGOS_TEST_RANDOM_H

#include "tap.h"

#include <sys/mman.h>
#include <unistd.h>

static uint64 random_state = 42;

static inline uint64
random_bits(void)
{
	/* xorshift64 */
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* The end of two pages, behind which reads are faults; *page: the bytes of one. */
static inline char *
end_of_memory(long *page)
{
	char *memory;

	*page = sysconf(_SC_PAGESIZE);
	memory = mmap(NULL, 3 * *page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || mprotect(memory + 2 * *page, *page, PROT_NONE) != 0)
		abort();
	return memory + 2 * *page;
}

#endif
