/*
 * test_decode_kernels.c
 *		The digits and marks of the direct decoder beside slow and plain ways of the same, and reads that end
 *		PGOS_DECODE_PAD bytes behind what was given, before memory that must not be touched.
 *
 * test_decode_portable.c runs the same without SIMD.
 */
#include "random.h"

#include "copy/decode_kernels.h"

/* The last len + PGOS_DECODE_PAD bytes before memory that must not be touched. */
static char *
at_the_end(size_t len)
{
	static char *stop = NULL;
	long		 page;

	if (stop == NULL)
		stop = end_of_memory(&page);
	return stop - PGOS_DECODE_PAD - len;
}

/* The text as it may lie in a buffer: anything behind it. */
static char *
place(const char *text, size_t len)
{
	char *src = at_the_end(len);

	memcpy(src, text, len);
	for (int i = 0; i < PGOS_DECODE_PAD; i++)
		src[len + i] = (char) ('0' + random_bits() % 20);
	return src;
}

static void
digits(void)
{
	bool good = true;
	bool refused = true;

	for (int i = 0; i < 2000000; i++)
	{
		size_t len = 1 + random_bits() % 18;
		char   text[20];
		uint64 expected = 0;
		uint64 value;
		uint32 small;

		for (size_t k = 0; k < len; k++)
		{
			uint32 digit = random_bits() % 10;

			text[k] = (char) ('0' + digit);
			expected = expected * 10 + digit;
		}
		good = good && pgos_get_digits(place(text, len), len, &value) && value == expected;
		if (len <= 8)
			good = good && pgos_get_digits8(place(text, len), len, &small) && small == expected;
		/* one byte that is no digit */
		do
			text[i % len] = (char) random_bits();
		while (text[i % len] >= '0' && text[i % len] <= '9');
		refused = refused && !pgos_get_digits(place(text, len), len, &value);
	}
	ok(good, "digits of all lengths");
	ok(refused, "what is no digit is refused wherever it stands");
}

static void
dates(void)
{
	static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool			 good = true;
	bool			 refused = true;

	for (int y = 0; y <= 9999; y++)
	{
		for (int m = 0; m <= 13; m++)
		{
			bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
			int	 last = m < 1 || m > 12 ? 0 : m == 2 && leap ? 29 : lengths[m - 1];

			for (int d = 0; d <= 32; d++)
			{
				char text[32];
				int	 year;
				int	 month;
				int	 day;
				bool is_date;

				snprintf(text, sizeof(text), "%04d-%02d-%02d", y, m, d);
				is_date = pgos_get_date(text, &year, &month, &day);
				good = good && is_date == (y > 0 && d >= 1 && d <= last);
				good = good && (!is_date || (year == y && month == m && day == d));
			}
		}
	}
	ok(good, "every date of four digits, and none besides");
	for (int i = 0; i < 100000; i++)
	{
		char text[] = "2024-02-29";
		int	 at = random_bits() % 10;
		char c = (char) random_bits();
		int	 year;
		int	 month;
		int	 day;

		text[at] = c;
		if (text[4] != '-' || text[7] != '-' || (at != 4 && at != 7 && (c < '0' || c > '9')))
			refused = refused && !pgos_get_date(place(text, 10), &year, &month, &day);
	}
	ok(refused, "other bytes are refused");
}

static void
times(void)
{
	bool good = true;

	for (int h = 0; h <= 99; h++)
	{
		for (int m = 0; m <= 99; m++)
		{
			for (int s = 0; s <= 99; s++)
			{
				char  text[32];
				int64 value;
				bool  is_time;

				snprintf(text, sizeof(text), "%02d:%02d:%02d", h, m, s);
				is_time = pgos_get_time(place(text, 8), &value);
				good = good && is_time == (h < 24 && m < 60 && s < 60);
				good = good && (!is_time || value == ((h * 60 + m) * 60 + s) * INT64CONST(1000000));
			}
		}
	}
	ok(good, "every time of a day, and none besides");
}

static int
hex_value(char c)
{
	const char *digits = "0123456789abcdef";
	const char *found;

	if (c >= 'A' && c <= 'F')
		c += 'a' - 'A';
	found = c == '\0' ? NULL : strchr(digits, c);
	return found == NULL ? -1 : (int) (found - digits);
}

static void
hexadecimal(void)
{
	bool good = true;

	for (int i = 0; i < 200000; i++)
	{
		size_t n = random_bits() % 40;
		char   text[80];
		char   bytes[40];
		char   expected[40];
		bool   is_hex = true;

		for (size_t k = 0; k < 2 * n; k++)
			text[k] = "0123456789abcdefABCDEF"[random_bits() % 22];
		if (n > 0 && i % 2)
			text[random_bits() % (2 * n)] = (char) random_bits();
		for (size_t k = 0; k < 2 * n; k++)
			is_hex = is_hex && hex_value(text[k]) >= 0;
		for (size_t k = 0; k < n && is_hex; k++)
			expected[k] = (char) (hex_value(text[2 * k]) * 16 + hex_value(text[2 * k + 1]));
		good = good && pgos_get_hex(place(text, 2 * n), n, bytes) == is_hex &&
			   (!is_hex || memcmp(bytes, expected, n) == 0);
	}
	ok(good, "hexadecimal digits");
}

static void
marks(void)
{
	bool good = true;

	for (int i = 0; i < 1000000; i++)
	{
		size_t	  len = random_bits() % 100;
		char	 *src = at_the_end(len);
		size_t	  first = len;
		char	  m[PGOS_MARKS];
		PgosMarks all;

		for (int k = 0; k < PGOS_MARKS; k++)
			m[k] = (char) random_bits();
		for (size_t k = 0; k < len + PGOS_DECODE_PAD; k++)
			src[k] = random_bits() % 64 ? (char) random_bits() : m[random_bits() % PGOS_MARKS];
		for (size_t k = len; k-- > 0;)
		{
			if (src[k] == m[0] || src[k] == m[1] || src[k] == m[2] || src[k] == m[3])
				first = k;
		}
		pgos_marks_init(&all, m[0], m[1], m[2], m[3]);
		good = good && pgos_marks_find(&all, src, src + len) == src + first;
	}
	ok(good, "the first of the marks is found, and none behind the end");
}

static void
bytes_found(void)
{
	bool good = true;

	for (int i = 0; i < 300000; i++)
	{
		size_t len = random_bits() % 40;
		char  *src = at_the_end(len);
		char   byte = (char) random_bits();
		size_t first = 0;

		for (size_t k = 0; k < len + PGOS_DECODE_PAD; k++)
			src[k] =
				random_bits() % 16 ? (char) (byte + random_bits() % 3 - 1) : (char) random_bits();
		if (random_bits() % 2)
		{
			for (size_t k = 0; k < len; k++)
				src[k] += src[k] == byte;
		}
		while (first < len && src[first] != byte)
			first++;
		good = good && pgos_find_byte(src, len, byte) == first;
	}
	ok(good, "the first of a byte is found, and none behind the end");
}

/* From mark to mark, now and then over some of them: as the decoder goes over what is in quotes. */
static void
walks(void)
{
	bool good = true;

	for (int i = 0; i < 200000; i++)
	{
		static char	 buffer[300 + PGOS_MARK_BLOCK];
		size_t		 len = 1 + random_bits() % 300;
		char		*src = buffer + 300 - len;
		char		 m[PGOS_MARKS];
		PgosMarks	 all;
		PgosMarkWalk walk;
		size_t		 from = 0;
		uint64		 rare = random_bits() % 100 + 1;

		for (int k = 0; k < PGOS_MARKS; k++)
			m[k] = (char) random_bits();
		for (size_t k = 0; k < len + PGOS_MARK_BLOCK; k++)
			src[k] = random_bits() % rare ? (char) random_bits() : m[random_bits() % PGOS_MARKS];
		pgos_marks_init(&all, m[0], m[1], m[2], m[3]);
		pgos_mark_walk_begin(&walk, &all, src);
		for (;;)
		{
			size_t expected = from;

			while (expected < len && memchr(m, src[expected], PGOS_MARKS) == NULL)
				expected++;
			good = good && pgos_mark_walk_next(&walk, &all, src + len) == src + expected;
			if (expected == len || !good)
				break;
			from = expected + 1;
			if (random_bits() % 8 == 0 && from < len)
			{
				from += random_bits() % (len - from);
				pgos_mark_walk_skip(&walk, &all, src + from);
			}
		}
	}
	ok(good, "a walk meets every mark that it is not led past, and none behind the end");
}

int
main(void)
{
	digits();
	dates();
	times();
	hexadecimal();
	marks();
	bytes_found();
	walks();
	return tap_end();
}
