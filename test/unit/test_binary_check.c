/*
 * test_binary_check.c
 *		Streams in COPY's binary format, whole, cut off anywhere, arriving in pieces.
 */
#include "tap.h"

#include "core/binary_check.h"

#define HEADER           \
	"PGCOPY\n\377\r\n\0" \
	"\0\0\0\0"           \
	"\0\0\0\0"
#define LONG_HEADER      \
	"PGCOPY\n\377\r\n\0" \
	"\0\0\0\0"           \
	"\0\0\0\3"           \
	"\377\377\377"
/* two fields: "ab" and null; one field: the bytes of a trailer; no field at all */
#define ROW1   \
	"\0\2"     \
	"\0\0\0\2" \
	"ab"       \
	"\377\377\377\377"
#define ROW2   \
	"\0\1"     \
	"\0\0\0\2" \
	"\377\377"
#define ROW3 "\0\0"
#define TRAILER "\377\377"

static bool
complete(const char *data, size_t len, size_t step)
{
	PgosBinaryCheck check = {0};

	for (size_t i = 0; i < len; i += step)
		pgos_binary_check_feed(&check, data + i, Min(step, len - i));
	return pgos_binary_check_complete(&check);
}

static void
check(const char *data, size_t len, const char *name)
{
	for (size_t step = 1; step <= len; step += 3)
		ok(complete(data, len, step), "%s, %d bytes at a time", name, (int) step);
	for (size_t cut = 0; cut < len; cut++)
		ok(!complete(data, cut, 7), "%s, cut off after %d bytes", name, (int) cut);
}

int
main(void)
{
	check(HEADER TRAILER, sizeof(HEADER TRAILER) - 1, "no rows");
	check(LONG_HEADER TRAILER, sizeof(LONG_HEADER TRAILER) - 1, "a header with an extension");
	check(HEADER ROW1 ROW2 ROW3 ROW1 TRAILER, sizeof(HEADER ROW1 ROW2 ROW3 ROW1 TRAILER) - 1,
		  "rows");
	return tap_end();
}
