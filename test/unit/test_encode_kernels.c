/*
 * test_encode_kernels.c
 *		The digits and escapes of the direct encoder beside slow and plain ways of the same, and reads up to the
 *		last byte before memory that must not be touched.
 *
 * test_encode_portable.c runs the same without SIMD.
 */
#include "random.h"

#include "copy/encode_kernels.h"

static bool
same(const char *buf, const char *end, const char *expected)
{
	return (size_t) (end - buf) == strlen(expected) && memcmp(buf, expected, end - buf) == 0;
}

static bool
uint_is_good(uint64 v)
{
	char buf[64];
	char expected[64];

	snprintf(expected, sizeof(expected), UINT64_FORMAT, v);
	return same(buf, pgos_put_uint(buf, v), expected);
}

static bool
int_is_good(int64 v)
{
	char buf[64];
	char expected[64];

	snprintf(expected, sizeof(expected), INT64_FORMAT, v);
	return same(buf, pgos_put_int(buf, v), expected);
}

static void
digits(void)
{
	bool   good = true;
	uint64 power = 1;

	for (uint32 v = 0; v < 200000; v++)
		good = good && uint_is_good(v);
	ok(good, "all numbers below 200000");
	good = true;
	for (int i = 0; i < 20; i++, power *= 10)
	{
		for (int d = -2; d <= 2; d++)
			good = good && uint_is_good(power + d) && int_is_good((int64) (power + d));
	}
	good = good && uint_is_good(PG_UINT64_MAX) && int_is_good(PG_INT64_MAX) &&
		   int_is_good(PG_INT64_MIN) && int_is_good(PG_INT32_MIN);
	ok(good, "around powers of ten, and the ends");
	good = true;
	for (int i = 0; i < 1000000; i++)
	{
		uint64 v = random_bits() >> (random_bits() % 64);

		good = good && uint_is_good(v) && int_is_good((int64) v) && int_is_good(-(int64) v);
	}
	ok(good, "numbers of all lengths");
}

/* Every day from 0001-01-01 to 9999-12-31, counted one by one. */
static void
dates(void)
{
	static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	uint32			 day = 306; /* 0001-01-01, since 0000-03-01 */
	bool			 good = true;

	for (int year = 1; year <= 9999; year++)
	{
		bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

		for (int month = 1; month <= 12; month++)
		{
			int length = lengths[month - 1] + (month == 2 && leap);

			for (int d = 1; d <= length; d++, day++)
			{
				char buf[32];
				char expected[32];

				snprintf(expected, sizeof(expected), "%04d-%02d-%02d", year, month, d);
				good = good && same(buf, pgos_put_date(buf, day), expected);
			}
		}
	}
	ok(good, "every date from 0001-01-01 to 9999-12-31");
	is_int(day, 730425 + 2921939 + 1, "days since 0000-03-01");
}

static void
times(void)
{
	bool good = true;

	for (int i = 0; i < 300000; i++)
	{
		int64  us = i < 86401 ? i * INT64CONST(1000000)
							  : (int64) (random_bits() % UINT64CONST(86400000000));
		char   buf[64];
		char   expected[64];
		size_t len;

		for (int64 step = 10; i > 86401 && step <= 1000000 && random_bits() % 3 == 0; step *= 10)
			us -= us % step;
		snprintf(expected, sizeof(expected), "%02d:%02d:%02d.%06d",
				 (int) (us / INT64CONST(3600000000)), (int) (us / 60000000 % 60),
				 (int) (us / 1000000 % 60), (int) (us % 1000000));
		for (len = strlen(expected); expected[len - 1] == '0'; len--)
			;
		if (expected[len - 1] == '.')
			len--;
		expected[len] = '\0';
		good = good && same(buf, pgos_put_time(buf, us), expected);
	}
	ok(good, "times of the day, fractions without zeros at their end");
}

static void
hexadecimal(void)
{
	char src[100];
	char buf[300];
	bool good = true;

	for (int len = 0; len <= 100; len++)
	{
		char *end;

		for (int i = 0; i < len; i++)
			src[i] = (char) random_bits();
		end = pgos_put_hex(buf, src, len);
		good = good && end == buf + 2 * len;
		for (int i = 0; i < len; i++)
		{
			char expected[3];

			snprintf(expected, sizeof(expected), "%02x", (uint8) src[i]);
			good = good && memcmp(buf + 2 * i, expected, 2) == 0;
		}
	}
	ok(good, "hexadecimal digits of 0 to 100 bytes");
}

/* The definition of each class once more, byte by byte. */
static bool
is_special(PgosEscapeClass where, unsigned char c, unsigned char delimiter, unsigned char quote,
		   unsigned char escape)
{
	switch (where)
	{
		case PGOS_IN_TEXT:
			return (c >= 8 && c <= 13) || c == '\\' || c == delimiter;
		case PGOS_IN_CSV:
			return c == delimiter || c == quote || c == '\n' || c == '\r';
		case PGOS_IN_QUOTES:
			return c == quote || c == escape;
		case PGOS_IN_JSON:
			return c < 32 || c == '"' || c == '\\';
		case PGOS_IN_ARRAY:
			return c <= 32 || strchr("\"\\{},", c) != NULL;
	}
	return false;
}

static void
escapes(void)
{
	static const PgosEscapeClass classes[] = {PGOS_IN_TEXT, PGOS_IN_CSV, PGOS_IN_QUOTES,
											  PGOS_IN_JSON, PGOS_IN_ARRAY};
	static const char			 marks[][3] = {{',', '"', '"'},
											   {'\t', '\\', '\\'},
											   {';', '\'', '\\'},
											   {'\001', '"', '$'},
											   {'|', '~', '\377'}};
	long						 page;
	char						*stop = end_of_memory(&page);
	char						*memory = stop - 2 * page;
	bool						 stopped = true;
	bool						 copied = true;
	bool						 found = true;

	for (int i = 0; i < 400000; i++)
	{
		const char	   *m = marks[random_bits() % lengthof(marks)];
		PgosEscapeClass where = classes[random_bits() % lengthof(classes)];
		int				len = random_bits() % 70;
		/* up to the end, or across the page in the middle */
		char	   *src = random_bits() % 2 ? stop - len - random_bits() % 20
											: memory + page - random_bits() % 70;
		int			kind = random_bits() % 3;
		int			first = len;
		char		buf[70 + 16];
		PgosEscape	esc;
		const char *end;

		for (int k = 0; k < len; k++)
			src[k] = kind == 0						   ? (char) random_bits()
					 : kind == 1 || random_bits() % 40 ? 'a' + random_bits() % 20
													   : (char) (random_bits() % 128);
		for (int k = len - 1; k >= 0; k--)
		{
			if (is_special(where, src[k], m[0], m[1], m[2]))
				first = k;
		}
		pgos_escape_init(&esc, m[0], m[1], m[2]);
		end = pgos_copy_plain(&esc, where, buf, src, src + len);
		stopped = stopped && end == src + first;
		copied = copied && memcmp(buf, src, first) == 0;
		found = found && pgos_has_special(&esc, where, src, src + len) == (first < len);
	}
	ok(stopped, "copies stop at the first special byte");
	ok(copied, "and have what is before it");
	ok(found, "special bytes are found");
	munmap(memory, 3 * page);
}

int
main(void)
{
	digits();
	dates();
	times();
	hexadecimal();
	escapes();
	return tap_end();
}
