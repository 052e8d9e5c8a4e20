/*
 * encode_kernels.h
 *		Digits and escapes for the direct encoder: many bytes a step.
 *
 * Every function writes at p and returns where it stopped.  What it may write beyond that is said with it; the
 * caller has made room.  Sixteen bytes a step with SSE2 or NEON, one without (or with PGOS_NO_SIMD).
 * Pure functions that call nothing of the server; they run anywhere and never raise.
 */
#ifndef PGOS_ENCODE_KERNELS_H
#define PGOS_ENCODE_KERNELS_H

#include "postgres.h"

#include "port/pg_bitutils.h"

#if defined(__SSE2__) && !defined(PGOS_NO_SIMD)
#include <emmintrin.h>
#define PGOS_VEC_SSE2
#elif defined(__aarch64__) && defined(__ARM_NEON) && !defined(PGOS_NO_SIMD)
#include <arm_neon.h>
#define PGOS_VEC_NEON
#endif
#if defined(PGOS_VEC_SSE2) || defined(PGOS_VEC_NEON)
#define PGOS_VEC
#endif

/* ---------------------------------------------------------------- digits */

static const char pgos_digit_pairs[] = "00010203040506070809"
									   "10111213141516171819"
									   "20212223242526272829"
									   "30313233343536373839"
									   "40414243444546474849"
									   "50515253545556575859"
									   "60616263646566676869"
									   "70717273747576777879"
									   "80818283848586878889"
									   "90919293949596979899";

/* Two digits of v < 100. */
static inline char *
pgos_put2(char *p, uint32 v)
{
	memcpy(p, pgos_digit_pairs + 2 * v, 2);
	return p + 2;
}

/* Four digits of v < 10000. */
static inline char *
pgos_put4(char *p, uint32 v)
{
	uint32 high = v / 100;

	memcpy(p, pgos_digit_pairs + 2 * high, 2);
	memcpy(p + 2, pgos_digit_pairs + 2 * (v - high * 100), 2);
	return p + 4;
}

/* v < 10000 without leading zeros; writes four bytes. */
static inline char *
pgos_put_small(char *p, uint32 v)
{
	int	   zeros = (v < 1000) + (v < 100) + (v < 10);
	uint32 quotient = v / 100;
	uint16 high;
	uint16 low;
	uint32 word;

	memcpy(&high, pgos_digit_pairs + 2 * quotient, 2);
	memcpy(&low, pgos_digit_pairs + 2 * (v - quotient * 100), 2);
#ifdef WORDS_BIGENDIAN
	word = ((uint32) high << 16 | low) << (8 * zeros);
#else
	word = (high | (uint32) low << 16) >> (8 * zeros);
#endif
	memcpy(p, &word, 4);
	return p + 4 - zeros;
}

/* Any v without leading zeros, up to 20 digits; writes up to three bytes more. */
static inline char *
pgos_put_uint(char *p, uint64 v)
{
	if (v >= 10000)
	{
		if (v >= UINT64CONST(100000000))
		{
			uint64 high = v / 100000000;
			uint32 low = (uint32) (v - high * 100000000);

			if (high >= 100000000)
			{
				uint64 top = high / 100000000;
				uint32 middle = (uint32) (high - top * 100000000);

				p = pgos_put_small(p, (uint32) top);
				p = pgos_put4(p, middle / 10000);
				p = pgos_put4(p, middle % 10000);
			}
			else
			{
				if (high >= 10000)
				{
					p = pgos_put_small(p, (uint32) high / 10000);
					p = pgos_put4(p, (uint32) high % 10000);
				}
				else
					p = pgos_put_small(p, (uint32) high);
			}
			p = pgos_put4(p, low / 10000);
			return pgos_put4(p, low % 10000);
		}
		p = pgos_put_small(p, (uint32) v / 10000);
		return pgos_put4(p, (uint32) v % 10000);
	}
	return pgos_put_small(p, (uint32) v);
}

static inline char *
pgos_put_int(char *p, int64 v)
{
	uint64 u = (uint64) v;

	if (v < 0)
	{
		*p++ = '-';
		u = -u;
	}
	return pgos_put_uint(p, u);
}

/*
 * YYYY-MM-DD of a day in the years 1 to 9999, given as the number of days since 1 March of the year 0 (Neri and
 * Schneider, "Euclidean affine functions and their application to calendar algorithms", 2022).
 */
static inline char *
pgos_put_date(char *p, uint32 day)
{
	uint32 n1 = 4 * day + 3;
	uint32 century = n1 / 146097;
	uint32 n2 = (n1 % 146097) | 3;
	uint64 p2 = UINT64CONST(2939745) * n2;
	uint32 year = 100 * century + (uint32) (p2 >> 32);
	uint32 year_day = (uint32) p2 / 2939745 / 4;
	uint32 n3 = 2141 * year_day + 197913;
	uint32 month = n3 >> 16;
	uint32 month_day = (n3 & 0xffff) / 2141;

	/* the year that began in March: January and February are in the next one */
	if (year_day >= 306)
	{
		year++;
		month -= 12;
	}
	p = pgos_put4(p, year);
	*p++ = '-';
	p = pgos_put2(p, month);
	*p++ = '-';
	return pgos_put2(p, month_day + 1);
}

/* HH:MM:SS of less than 100 hours, and the fraction if there is one; writes up to 15 bytes. */
static inline char *
pgos_put_time(char *p, int64 microseconds)
{
	uint32 seconds = (uint32) (microseconds / 1000000);
	uint32 fraction = (uint32) (microseconds - (int64) seconds * 1000000);
	uint32 minutes = seconds / 60;

	p = pgos_put2(p, minutes / 60);
	*p++ = ':';
	p = pgos_put2(p, minutes % 60);
	*p++ = ':';
	p = pgos_put2(p, seconds % 60);
	if (fraction != 0)
	{
		*p++ = '.';
		p = pgos_put2(p, fraction / 10000);
		p = pgos_put4(p, fraction % 10000);
		while (p[-1] == '0')
			p--;
	}
	return p;
}

/* ---------------------------------------------------------------- sixteen bytes */

#ifdef PGOS_VEC_SSE2
typedef __m128i PgosVec;

#define pgos_vec_load(p) _mm_loadu_si128((const __m128i *) (p))
#define pgos_vec_store(p, v) _mm_storeu_si128((__m128i *) (p), (v))
#define pgos_vec_fill(c) _mm_set1_epi8((char) (c))
#define pgos_vec_eq(a, b) _mm_cmpeq_epi8((a), (b))
#define pgos_vec_or(a, b) _mm_or_si128((a), (b))
#define pgos_vec_sub(a, b) _mm_sub_epi8((a), (b))
/* a <= b, without sign */
#define pgos_vec_le(a, b) _mm_cmpeq_epi8(_mm_min_epu8((a), (b)), (a))
/* PGOS_VEC_BITS bits for each byte that is not zero (all ones): the first byte's are the lowest */
#define pgos_vec_mask(v) ((uint64) (uint32) _mm_movemask_epi8(v))
#define PGOS_VEC_BITS 1
#elif defined(PGOS_VEC_NEON)
typedef uint8x16_t PgosVec;

#define pgos_vec_load(p) vld1q_u8((const uint8 *) (p))
#define pgos_vec_store(p, v) vst1q_u8((uint8 *) (p), (v))
#define pgos_vec_fill(c) vdupq_n_u8((uint8) (c))
#define pgos_vec_eq(a, b) vceqq_u8((a), (b))
#define pgos_vec_or(a, b) vorrq_u8((a), (b))
#define pgos_vec_sub(a, b) vsubq_u8((a), (b))
#define pgos_vec_le(a, b) vcleq_u8((a), (b))
#define pgos_vec_mask(v) \
	vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(v), 4)), 0)
#define PGOS_VEC_BITS 4
#endif

/* ---------------------------------------------------------------- hexadecimal */

/* Two lower-case digits for each byte. */
static inline char *
pgos_put_hex(char *p, const char *src, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	size_t			  i = 0;

#ifdef PGOS_VEC_SSE2
	for (; i + 16 <= len; i += 16)
	{
		__m128i v = pgos_vec_load(src + i);
		__m128i nibble = pgos_vec_fill(0x0f);
		__m128i high = _mm_and_si128(_mm_srli_epi16(v, 4), nibble);
		__m128i low = _mm_and_si128(v, nibble);
		__m128i nine = pgos_vec_fill(9);
		__m128i letter = pgos_vec_fill('a' - '0' - 10);
		__m128i zero = pgos_vec_fill('0');

		high = _mm_add_epi8(_mm_add_epi8(high, zero),
							_mm_and_si128(_mm_cmpgt_epi8(high, nine), letter));
		low =
			_mm_add_epi8(_mm_add_epi8(low, zero), _mm_and_si128(_mm_cmpgt_epi8(low, nine), letter));
		pgos_vec_store(p, _mm_unpacklo_epi8(high, low));
		pgos_vec_store(p + 16, _mm_unpackhi_epi8(high, low));
		p += 32;
	}
#endif
	for (; i < len; i++)
	{
		*p++ = digits[(uint8) src[i] >> 4];
		*p++ = digits[(uint8) src[i] & 15];
	}
	return p;
}

/* ---------------------------------------------------------------- escapes */

/* Where bytes are special: each is a bit in PgosEscape.special. */
typedef enum PgosEscapeClass
{
	PGOS_IN_TEXT = 1,	/* COPY's text format: 0x08 to 0x0d, backslash, the delimiter */
	PGOS_IN_CSV = 2,	/* not yet quoted: the delimiter, the quote, line feed, carriage return */
	PGOS_IN_QUOTES = 4, /* csv, quoted: the quote and its escape */
	PGOS_IN_JSON = 8,	/* a string of JSON: below blank, quotation mark, backslash */
	PGOS_IN_ARRAY = 16	/* an element not yet quoted: those, blank, comma, braces */
} PgosEscapeClass;

typedef struct PgosEscape
{
	char  delimiter;
	char  quote;
	char  escape;
	uint8 special[256];
#ifdef PGOS_VEC
	/* each sixteen times; not PgosVec, which wants to be aligned */
	uint8 delimiters[16];
	uint8 quotes[16];
	uint8 escapes[16];
#endif
} PgosEscape;

static inline void
pgos_escape_init(PgosEscape *esc, char delimiter, char quote, char escape)
{
	memset(esc, 0, sizeof(*esc));
	esc->delimiter = delimiter;
	esc->quote = quote;
	esc->escape = escape;
	for (int c = 0; c < 0x20; c++)
		esc->special[c] |=
			PGOS_IN_JSON | PGOS_IN_ARRAY | (c >= 0x08 && c <= 0x0d ? PGOS_IN_TEXT : 0);
	for (const char *c = "\"\\"; *c != '\0'; c++)
		esc->special[(uint8) *c] |= PGOS_IN_JSON;
	for (const char *c = "\"\\ ,{}"; *c != '\0'; c++)
		esc->special[(uint8) *c] |= PGOS_IN_ARRAY;
	esc->special['\\'] |= PGOS_IN_TEXT;
	esc->special['\n'] |= PGOS_IN_CSV;
	esc->special['\r'] |= PGOS_IN_CSV;
	esc->special[(uint8) delimiter] |= PGOS_IN_TEXT | PGOS_IN_CSV;
	esc->special[(uint8) quote] |= PGOS_IN_CSV | PGOS_IN_QUOTES;
	esc->special[(uint8) escape] |= PGOS_IN_QUOTES;
#ifdef PGOS_VEC
	memset(esc->delimiters, delimiter, 16);
	memset(esc->quotes, quote, 16);
	memset(esc->escapes, escape, 16);
#endif
}

#ifdef PGOS_VEC
/* As pgos_vec_mask(): which of the bytes are special. */
static inline uint64
pgos_escape_mask(const PgosEscape *esc, PgosEscapeClass where, PgosVec v)
{
	PgosVec found;

	switch (where)
	{
		case PGOS_IN_TEXT:
			found = pgos_vec_le(pgos_vec_sub(v, pgos_vec_fill(0x08)), pgos_vec_fill(0x0d - 0x08));
			found = pgos_vec_or(found, pgos_vec_eq(v, pgos_vec_fill('\\')));
			found = pgos_vec_or(found, pgos_vec_eq(v, pgos_vec_load(esc->delimiters)));
			break;
		case PGOS_IN_CSV:
			found = pgos_vec_eq(v, pgos_vec_load(esc->delimiters));
			found = pgos_vec_or(found, pgos_vec_eq(v, pgos_vec_load(esc->quotes)));
			found = pgos_vec_or(found, pgos_vec_eq(v, pgos_vec_fill('\n')));
			found = pgos_vec_or(found, pgos_vec_eq(v, pgos_vec_fill('\r')));
			break;
		case PGOS_IN_QUOTES:
			found = pgos_vec_eq(v, pgos_vec_load(esc->quotes));
			found = pgos_vec_or(found, pgos_vec_eq(v, pgos_vec_load(esc->escapes)));
			break;
		case PGOS_IN_ARRAY:
			found = pgos_vec_le(v, pgos_vec_fill(0x20));
			found = pgos_vec_or(found, pgos_vec_eq(v, pgos_vec_fill('"')));
			found = pgos_vec_or(found, pgos_vec_eq(v, pgos_vec_fill('\\')));
			found = pgos_vec_or(found, pgos_vec_eq(v, pgos_vec_fill(',')));
			found = pgos_vec_or(found, pgos_vec_eq(v, pgos_vec_fill('{')));
			found = pgos_vec_or(found, pgos_vec_eq(v, pgos_vec_fill('}')));
			break;
		default:
			found = pgos_vec_le(v, pgos_vec_fill(0x1f));
			found = pgos_vec_or(found, pgos_vec_eq(v, pgos_vec_fill('"')));
			found = pgos_vec_or(found, pgos_vec_eq(v, pgos_vec_fill('\\')));
			break;
	}
	return pgos_vec_mask(found);
}

/* Sixteen bytes from here are on one page, even if fewer belong to us (4096: the smallest page there is). */
#define PGOS_MAY_LOAD16(p) (((uintptr_t) (p) &4095) <= 4096 - 16)
#endif

/*
 * Copies src to p up to the first special byte, or to end, and returns where in src that is; as much has been
 * written, and up to 15 bytes more.
 */
static inline const char *
pgos_copy_plain(const PgosEscape *esc, PgosEscapeClass where, char *p, const char *src,
				const char *end)
{
#ifdef PGOS_VEC
	for (; end - src >= 16; src += 16, p += 16)
	{
		PgosVec v = pgos_vec_load(src);
		uint64	mask = pgos_escape_mask(esc, where, v);

		pgos_vec_store(p, v);
		if (mask != 0)
			return src + pg_rightmost_one_pos64(mask) / PGOS_VEC_BITS;
	}
	if (src < end && PGOS_MAY_LOAD16(src))
	{
		PgosVec v = pgos_vec_load(src);
		uint64	mask = pgos_escape_mask(esc, where, v);

		pgos_vec_store(p, v);
		mask &= (UINT64CONST(1) << ((end - src) * PGOS_VEC_BITS)) - 1;
		return mask == 0 ? end : src + pg_rightmost_one_pos64(mask) / PGOS_VEC_BITS;
	}
#endif
	for (; src < end && (esc->special[(uint8) *src] & where) == 0; src++)
		*p++ = *src;
	return src;
}

/* Whether a byte of the class is between src and end. */
static inline bool
pgos_has_special(const PgosEscape *esc, PgosEscapeClass where, const char *src, const char *end)
{
#ifdef PGOS_VEC
	for (; end - src >= 16; src += 16)
	{
		if (pgos_escape_mask(esc, where, pgos_vec_load(src)) != 0)
			return true;
	}
#endif
	for (; src < end; src++)
	{
		if ((esc->special[(uint8) *src] & where) != 0)
			return true;
	}
	return false;
}

#endif
