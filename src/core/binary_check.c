/*
 * binary_check.c
 *		Follows a stream in COPY's binary format to see whether it ends with its trailer.
 */
#include "core/binary_check.h"

/* Signature, flags. */
#define HEADER_BYTES (11 + 4)

/* A number of that many bytes is complete. */
static void
take_number(PgosBinaryCheck *check)
{
	int32 number = check->state == PGOS_BINARY_ROW ? (int16) check->number : (int32) check->number;

	check->have = 0;
	check->number = 0;
	switch (check->state)
	{
		case PGOS_BINARY_EXTENSION:
			check->skip = Max(number, 0);
			check->state = PGOS_BINARY_ROW;
			break;
		case PGOS_BINARY_ROW:
			check->fields = number;
			if (number < 0)
				check->state = PGOS_BINARY_END;
			else if (number > 0)
				check->state = PGOS_BINARY_FIELD;
			break;
		case PGOS_BINARY_FIELD:
			check->skip = Max(number, 0);
			if (--check->fields == 0)
				check->state = PGOS_BINARY_ROW;
			break;
		case PGOS_BINARY_HEADER:
		case PGOS_BINARY_END:
			break;
	}
}

void
pgos_binary_check_feed(PgosBinaryCheck *check, const char *data, size_t len)
{
	const char *end = data + len;

	while (data < end && check->state != PGOS_BINARY_END)
	{
		if (check->state == PGOS_BINARY_HEADER)
		{
			check->skip = HEADER_BYTES;
			check->state = PGOS_BINARY_EXTENSION;
		}
		if (check->skip > 0)
		{
			int64 n = Min(check->skip, (int64) (end - data));

			check->skip -= n;
			data += n;
			continue;
		}
		check->number = check->number << 8 | (unsigned char) *data++;
		if (++check->have == (check->state == PGOS_BINARY_ROW ? 2 : 4))
			take_number(check);
	}
}
