/*
 * decode_kernels.h
 *		Bytes and digits for the direct decoder: many bytes a step.
 *
 * Everything here may read up to PGOS_DECODE_PAD bytes behind what it is given (a walk: PGOS_MARK_BLOCK), but never
 * looks at them: the caller's buffers are so much longer.  Sixteen bytes a step with SSE2 or NEON, one without (or with
 * PGOS_NO_SIMD).  Pure functions that call nothing of the server; they run anywhere and never raise.
 */
#ifndef PGOS_DECODE_KERNELS_H
#define PGOS_DECODE_KERNELS_H

#include "postgres.h"

#include "copy/encode_kernels.h"

/* Bytes behind the end of a buffer that may be read. */
#define PGOS_DECODE_PAD 16

/* ---------------------------------------------------------------- finding bytes */

#define PGOS_MARKS 4

/* Up to PGOS_MARKS bytes to look for. */
typedef struct PgosMarks
{
#ifdef PGOS_VEC
	uint8 bytes[PGOS_MARKS][16];
#endif
	bool is_mark[256];
} PgosMarks;

static inline void
pgos_marks_init(PgosMarks *marks, char a, char b, char c, char d)
{
	const char all[PGOS_MARKS] = {a, b, c, d};

	memset(marks, 0, sizeof(*marks));
	for (int i = 0; i < PGOS_MARKS; i++)
	{
		marks->is_mark[(uint8) all[i]] = true;
#ifdef PGOS_VEC
		memset(marks->bytes[i], all[i], 16);
#endif
	}
}

#ifdef PGOS_VEC
static inline PgosVec
pgos_marks_compare(const PgosMarks *marks, const char *p)
{
	PgosVec v = pgos_vec_load(p);

	return pgos_vec_or(pgos_vec_or(pgos_vec_eq(v, pgos_vec_load(marks->bytes[0])),
								   pgos_vec_eq(v, pgos_vec_load(marks->bytes[1]))),
					   pgos_vec_or(pgos_vec_eq(v, pgos_vec_load(marks->bytes[2])),
								   pgos_vec_eq(v, pgos_vec_load(marks->bytes[3]))));
}
#endif

/* The first of the bytes between p and end, or end. */
static inline const char *
pgos_marks_find(const PgosMarks *marks, const char *p, const char *end)
{
#ifdef PGOS_VEC
	for (; p < end; p += 16)
	{
		uint64 mask = pgos_vec_mask(pgos_marks_compare(marks, p));

		if (mask != 0)
		{
			p += pg_rightmost_one_pos64(mask) / PGOS_VEC_BITS;
			break;
		}
	}
	return Min(p, end);
#else
	while (p < end && !marks->is_mark[(uint8) *p])
		p++;
	return p;
#endif
}

/*
 * A walk from mark to mark: a block is looked at once, however many marks there are in it.  One bit of the mask for
 * each of them that is yet to come.
 */
typedef struct PgosMarkWalk
{
	const char *block;
	uint64		mask;
} PgosMarkWalk;

#ifdef PGOS_VEC_NEON
#define PGOS_MARK_BLOCK 16
#define PGOS_MARK_BITS PGOS_VEC_BITS
#else
#define PGOS_MARK_BLOCK 64
#define PGOS_MARK_BITS 1
#endif

/* Goes on with the bytes from p on; may read PGOS_MARK_BLOCK bytes. */
static inline void
pgos_mark_walk_begin(PgosMarkWalk *walk, const PgosMarks *marks, const char *p)
{
	uint64 mask = 0;

#if defined(PGOS_VEC_SSE2)
	for (int i = 0; i < PGOS_MARK_BLOCK; i += 16)
		mask |= (uint64) pgos_vec_mask(pgos_marks_compare(marks, p + i)) << i;
#elif defined(PGOS_VEC_NEON)
	mask = pgos_vec_mask(pgos_marks_compare(marks, p)) & UINT64CONST(0x1111111111111111);
#else
	for (int i = 0; i < PGOS_MARK_BLOCK; i++)
		mask |= (uint64) marks->is_mark[(uint8) p[i]] << i;
#endif
	walk->block = p;
	walk->mask = mask;
}

/* The next mark before end, or end; may read PGOS_MARK_BLOCK bytes from there on. */
static inline const char *
pgos_mark_walk_next(PgosMarkWalk *walk, const PgosMarks *marks, const char *end)
{
	const char *p;

	while (walk->mask == 0)
	{
		if (end - walk->block <= PGOS_MARK_BLOCK)
			return end;
		pgos_mark_walk_begin(walk, marks, walk->block + PGOS_MARK_BLOCK);
	}
	p = walk->block + pg_rightmost_one_pos64(walk->mask) / PGOS_MARK_BITS;
	walk->mask &= walk->mask - 1;
	return Min(p, end);
}

/* Leaves out what is before p, which is not before the last mark. */
static inline void
pgos_mark_walk_skip(PgosMarkWalk *walk, const PgosMarks *marks, const char *p)
{
	if (p - walk->block >= PGOS_MARK_BLOCK)
		pgos_mark_walk_begin(walk, marks, p);
	else
		walk->mask &= PG_UINT64_MAX << ((p - walk->block) * PGOS_MARK_BITS);
}

/* ---------------------------------------------------------------- digits */

#define PGOS_BYTES_OF(byte) (UINT64CONST(0x0101010101010101) * (byte))

/* Where the byte is in the first len, or len. */
static inline size_t
pgos_find_byte(const char *src, size_t len, char byte)
{
	size_t at = 0;

#ifndef WORDS_BIGENDIAN
	/* a byte becomes zero where it is found, and of zeros the lowest is told for certain */
	for (; at < len; at += 8)
	{
		uint64 v;

		memcpy(&v, src + at, 8);
		v ^= PGOS_BYTES_OF((uint64) (uint8) byte);
		v = (v - PGOS_BYTES_OF(0x01)) & ~v & PGOS_BYTES_OF(0x80);
		if (v != 0)
		{
			at += pg_rightmost_one_pos64(v) / 8;
			break;
		}
	}
	return Min(at, len);
#else
	while (at < len && src[at] != byte)
		at++;
	return at;
#endif
}

/* The number that 1 to 8 digits are; false if one of the bytes is none. */
static inline bool
pgos_get_digits8(const char *src, size_t len, uint32 *value)
{
#ifdef WORDS_BIGENDIAN
	uint32 v = 0;

	for (size_t i = 0; i < len; i++)
	{
		uint32 digit = (uint32) (uint8) src[i] - '0';

		if (digit > 9)
			return false;
		v = v * 10 + digit;
	}
	*value = v;
	return true;
#else
	uint64 v;

	/* the first digit is in the lowest byte: zeros move in before it, and what is behind the last one moves out */
	memcpy(&v, src, 8);
	v = (v ^ PGOS_BYTES_OF('0')) << (64 - 8 * len);
	if ((((v + PGOS_BYTES_OF(0x80 - 10)) | v) & PGOS_BYTES_OF(0x80)) != 0)
		return false;
	/* pairs, then fours, then all eight */
	v = v * 10 + (v >> 8);
	v = ((v & UINT64CONST(0x000000ff000000ff)) * UINT64CONST(0x000f424000000064) +
		 ((v >> 16) & UINT64CONST(0x000000ff000000ff)) * UINT64CONST(0x0000271000000001)) >>
		32;
	*value = (uint32) v;
	return true;
#endif
}

/* The same for 1 to 18 digits. */
static inline bool
pgos_get_digits(const char *src, size_t len, uint64 *value)
{
	uint64 v = 0;
	uint32 piece;
	size_t first = (len - 1) % 8 + 1;

	if (!pgos_get_digits8(src, first, &piece))
		return false;
	v = piece;
	for (src += first, len -= first; len > 0; src += 8, len -= 8)
	{
		if (!pgos_get_digits8(src, 8, &piece))
			return false;
		v = v * 100000000 + piece;
	}
	*value = v;
	return true;
}

/* HH:MM:SS in microseconds; false unless it is one, of less than 24 hours. */
static inline bool
pgos_get_time(const char *src, int64 *value)
{
	char   digits[PGOS_DECODE_PAD];
	uint32 n;

	if (src[2] != ':' || src[5] != ':')
		return false;
	memcpy(digits, src, 2);
	memcpy(digits + 2, src + 3, 2);
	memcpy(digits + 4, src + 6, 2);
	if (!pgos_get_digits8(digits, 6, &n) || n >= 240000 || n / 100 % 100 > 59 || n % 100 > 59)
		return false;
	*value = ((int64) (n / 10000 * 3600 + n / 100 % 100 * 60 + n % 100)) * INT64CONST(1000000);
	return true;
}

/* YYYY-MM-DD of a year from 1 on; false unless there is such a day. */
static inline bool
pgos_get_date(const char *src, int *year, int *month, int *day)
{
	static const uint8 days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	char			   digits[PGOS_DECODE_PAD];
	uint32			   n;
	uint32			   y;
	uint32			   m;
	uint32			   d;

	if (src[4] != '-' || src[7] != '-')
		return false;
	memcpy(digits, src, 4);
	memcpy(digits + 4, src + 5, 2);
	memcpy(digits + 6, src + 8, 2);
	if (!pgos_get_digits8(digits, 8, &n))
		return false;
	y = n / 10000;
	m = n / 100 % 100;
	d = n % 100;
	if (y == 0 || m - 1 > 11 || d - 1 >= days[m - 1])
		return false;
	if (d == 29 && m == 2 && (y % 4 != 0 || (y % 100 == 0 && y % 400 != 0)))
		return false;
	*year = (int) y;
	*month = (int) m;
	*day = (int) d;
	return true;
}

/* ---------------------------------------------------------------- hexadecimal */

static const uint8 pgos_hex_values[128] = {
	['0'] = 0x10, ['1'] = 0x11, ['2'] = 0x12, ['3'] = 0x13, ['4'] = 0x14, ['5'] = 0x15,
	['6'] = 0x16, ['7'] = 0x17, ['8'] = 0x18, ['9'] = 0x19, ['a'] = 0x1a, ['b'] = 0x1b,
	['c'] = 0x1c, ['d'] = 0x1d, ['e'] = 0x1e, ['f'] = 0x1f, ['A'] = 0x1a, ['B'] = 0x1b,
	['C'] = 0x1c, ['D'] = 0x1d, ['E'] = 0x1e, ['F'] = 0x1f,
};

/* n bytes out of 2 * n hexadecimal digits; false if one is none. */
static inline bool
pgos_get_hex(const char *src, size_t n, char *dst)
{
	uint8 good = 0x10;

	for (size_t i = 0; i < n; i++)
	{
		uint8 high = pgos_hex_values[(uint8) src[2 * i] & 0x7f];
		uint8 low = pgos_hex_values[(uint8) src[2 * i + 1] & 0x7f];

		good &= high & low & ~(((uint8) src[2 * i] | (uint8) src[2 * i + 1]) >> 3);
		dst[i] = (char) ((high & 0x0f) << 4 | (low & 0x0f));
	}
	return good != 0;
}

#endif
