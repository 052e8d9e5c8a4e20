/*
 * test_record_split.c
 *		Records of csv and text streams, whole and arriving byte by byte.
 */
#include "tap.h"

#include "core/record_split.h"
#include "mb/pg_wchar.h"

static const PgosSplitter csv = {
	.csv = true, .marker = true, .quote = '"', .escape = '"', .encoding = -1};
static const PgosSplitter backslash = {.csv = true, .quote = '"', .escape = '\\', .encoding = -1};
static const PgosSplitter plain = {.marker = true, .encoding = -1};
static const PgosSplitter big5 = {.encoding = PG_BIG5};

/*
 * The records of the stream, '|' behind each; "#n" behind one with line ends inside of quotes, "^" for the
 * marker, "~" for a stream that ends inside of quotes.  step: bytes that arrive at a time.
 */
static char *
split(PgosSplitter splitter, const char *data, size_t size, size_t step)
{
	StringInfoData out;
	size_t		   begin = 0;
	size_t		   have = Min(step, size);

	initStringInfo(&out);
	for (;;)
	{
		size_t	  len;
		size_t	  data_len;
		size_t	  again_len;
		bool	  at_end = have == size;
		PgosSplit answer =
			pgos_splitter_scan(&splitter, data + begin, have - begin, at_end, &len, &data_len);

		if (answer != PGOS_SPLIT_MORE && answer != PGOS_SPLIT_END &&
			(pgos_splitter_scan(&splitter, data + begin, have - begin, at_end, &again_len,
								&data_len) != answer ||
			 again_len != len))
			appendStringInfoString(&out, "(another answer)");
		switch (answer)
		{
			case PGOS_SPLIT_MORE:
				if (at_end)
				{
					appendStringInfoString(&out, "(more at the end)");
					return out.data;
				}
				have = Min(have + step, size);
				continue;
			case PGOS_SPLIT_END:
				return out.data;
			case PGOS_SPLIT_MARKER:
				appendBinaryStringInfo(&out, data + begin, data_len);
				appendStringInfoString(&out, "^");
				begin += len;
				appendBinaryStringInfo(&out, data + begin, size - begin);
				return out.data;
			case PGOS_SPLIT_OPEN_QUOTE:
				appendBinaryStringInfo(&out, data + begin, len);
				appendStringInfo(&out, "~%d", (int) splitter.first_line);
				return out.data;
			case PGOS_SPLIT_RECORD:
				appendBinaryStringInfo(&out, data + begin, len);
				if (splitter.newlines > 0)
					appendStringInfo(&out, "#%d", splitter.newlines);
				appendStringInfoChar(&out, '|');
				begin += len;
				pgos_splitter_next(&splitter);
				break;
		}
	}
}

static void
check(PgosSplitter splitter, const char *data, const char *want)
{
	size_t size = strlen(data);

	for (size_t step = 1; step <= 3; step++)
		is_str(keep(split(splitter, data, size, step)), want, data);
	is_str(keep(split(splitter, data, size, size + 1)), want, data);
}

int
main(void)
{
	check(csv, "", "");
	check(csv, "a\nb\n", "a\n|b\n|");
	check(csv, "a\nb", "a\n|b|");
	check(csv, "\n\n", "\n|\n|");
	check(csv, "a\r\nb\r\n", "a\r\n|b\r\n|");
	check(csv, "a\rb\r", "a\r|b\r|");
	check(csv, "a\r", "a\r|");
	/* the first line end decides */
	check(csv, "a\nb\rc\r\nd\n", "a\n|b\rc\r\n|d\n|");
	check(csv, "a\r\nb\rc\nd\r\n", "a\r\n|b\rc\n|d\r\n|");
	check(csv, "a\rb\nc\r", "a\r|b\nc\r|");

	check(csv, "x\n\"a\nb\",c\nd\n", "x\n|\"a\nb\",c\n#1|d\n|");
	check(csv, "x\n\"a\"\"\n\nb\"\n", "x\n|\"a\"\"\n\nb\"\n#2|");
	check(csv, "x\na\"b\nc\"\nd\n", "x\n|a\"b\nc\"\n#1|d\n|");
	check(csv, "x\n\"a\\\"\nb\n", "x\n|\"a\\\"\n|b\n|");
	check(csv, "x\n1,\"a\n2,b\n3,c\n", "x\n|1,\"a\n2,b\n3,c\n~5");
	check(csv, "x\r\n\"a\nb\"\r\n", "x\r\n|\"a\nb\"\r\n|");
	check(csv, "x\r\n\"a\r\nb\"\r\n", "x\r\n|\"a\r\nb\"\r\n#1|");

	check(csv, "a\n\\.\nb\n", "a\n|^b\n");
	check(csv, "a\r\n\\.\r\nb", "a\r\n|^b");
	check(csv, "a\n\\.x\nb\n", "a\n|\\.x\n|b\n|");
	check(csv, "a\nx\\.\nb\n", "a\n|x\\.\n|b\n|");
	check(csv, "a\n\\", "a\n|\\|");
	check(csv, "a\n\\.", "a\n|\\.|");
	check(backslash, "a\n\\.\nb\n", "a\n|\\.\n|b\n|");

	check(backslash, "x\n\"a\\\"\nb\"\nc\n", "x\n|\"a\\\"\nb\"\n#1|c\n|");
	check(backslash, "x\n\"a\\\\\"\nb\n", "x\n|\"a\\\\\"\n|b\n|");
	check(backslash, "x\na\\\"\nb\"\n", "x\n|a\\\"\nb\"\n#1|");
	check(backslash, "x\n\"a\\b\"\nc\n", "x\n|\"a\\b\"\n|c\n|");

	check(plain, "a\tb\nc\n", "a\tb\n|c\n|");
	check(plain, "a\\\nb\nc\n", "a\\\nb\n|c\n|");
	check(plain, "a\\\\\nb\n", "a\\\\\n|b\n|");
	check(plain, "a\\nb\n\\N\n", "a\\nb\n|\\N\n|");
	check(plain, "\"a\n\"b\n", "\"a\n|\"b\n|");
	check(plain, "a\n\\.\n", "a\n|^");
	check(plain, "a\nb\\.\nc", "a\n|b^c");
	check(plain, "a\\\\.\nb\n", "a\\\\.\n|b\n|");
	check(plain, "a\n\\", "a\n|\\|");

	/* Big5: 0xA5 0x5C is one character whose second byte is a backslash */
	check(big5, "x\xA5\x5C\ny\n", "x\xA5\x5C\n|y\n|");
	check(plain, "x\xA5\x5C\ny\n", "x\xA5\x5C\ny\n|");
	return tap_end();
}
