/*
 * encode_json.c
 *		The direct encoder: jsonb.
 *
 * Walks the binary tree and writes the text of jsonb_out(), with the escapes of JSON and those of COPY in one pass.
 * That is possible where COPY's marks are the usual ones: in text a delimiter that JSON never contains as it
 * is (a control character), in csv the quotation mark as quote and escape.  Then
 *
 *		in JSON						in text			in csv, quoted
 *		quotation mark (of strings)	"				""
 *		\" in strings				\\"				\""
 *		\\							\\\\			\\
 *		\n, \u0001 ...				\\n, \\u0001	\n, \u0001
 *
 * Runs in a worker; raises.
 */
#include "postgres.h"

#include "copy/encode_internal.h"
#include "miscadmin.h"
#include "utils/jsonb.h"

/* Pieces of strings: each byte may become seven. */
#define PGOS_JSON_PIECE 512

bool
pgos_encode_marks_fit(PgosEncoder *enc)
{
	if (!enc->csv)
		return (unsigned char) enc->delimiter < 0x20;
	return enc->plain && enc->escape.quote == '"' && enc->escape.escape == '"' &&
		   strchr("{}[]", enc->delimiter) == NULL &&
		   (enc->null_len == 0 || strchr("{[\"n", enc->null_print[0]) == NULL);
}

/*
 * Whether csv must quote it: it contains a quotation mark (of a string or a key), or a comma if that is the
 * delimiter.
 */
static bool
pgos_json_needs_quotes(const JsonbContainer *container, bool comma)
{
	uint32		count = JsonContainerSize(container);
	const char *base = (const char *) &container->children[count];
	uint32		offset = 0;

	if (JsonContainerIsObject(container))
		return count > 0;
	if (comma && count > 1)
		return true;
	check_stack_depth();
	for (uint32 i = 0; i < count; i++)
	{
		JEntry entry = container->children[i];

		if (JBE_ISSTRING(entry))
			return true;
		if (JBE_ISCONTAINER(entry) &&
			pgos_json_needs_quotes((const JsonbContainer *) (base + INTALIGN(offset)), comma))
			return true;
		JBE_ADVANCE_OFFSET(offset, entry);
	}
	return false;
}

/*
 * The functions below find PGOS_ENCODE_ROOM at p, unless they say so, and leave at least PGOS_JSON_LEFT for what
 * stands between two values.
 */
#define PGOS_JSON_LEFT 8

/* After so many levels look at the stack: a level takes some 200 bytes of it. */
#define PGOS_JSON_LEVELS 64

/* A piece of a string, from its first special byte on. */
static char *
pgos_json_escape(PgosEncoder *enc, const char *src, const char *end, char *p)
{
	while (src < end)
	{
		unsigned char c = (unsigned char) *src++;
		const char	 *stop;

		*p++ = '\\';
		if (!enc->csv)
			*p++ = '\\';
		switch (c)
		{
			case '"':
				if (enc->csv)
					*p++ = '"';
				*p++ = '"';
				break;
			case '\\':
				*p++ = '\\';
				if (!enc->csv)
					*p++ = '\\';
				break;
			case '\b':
				*p++ = 'b';
				break;
			case '\f':
				*p++ = 'f';
				break;
			case '\n':
				*p++ = 'n';
				break;
			case '\r':
				*p++ = 'r';
				break;
			case '\t':
				*p++ = 't';
				break;
			default:
				memcpy(p, "u00", 3);
				p = pgos_put_hex(p + 3, (const char *) &c, 1);
				break;
		}
		stop = pgos_copy_plain(&enc->escape, PGOS_IN_JSON, p, src, end);
		p += stop - src;
		src = stop;
	}
	return p;
}

/* A string; makes room itself, and PGOS_ENCODE_ROOM behind it. */
static inline char *
pgos_json_string(PgosEncoder *enc, const char *src, size_t len, char *p)
{
	const char *stop;

	p = pgos_encode_room(enc, p, 7 * Min(len, PGOS_JSON_PIECE) + 2 * PGOS_ENCODE_ROOM);
	p = pgos_encode_mark(enc, p);
	while (unlikely(len > PGOS_JSON_PIECE))
	{
		const char *end = src + PGOS_JSON_PIECE;

		stop = pgos_copy_plain(&enc->escape, PGOS_IN_JSON, p, src, end);
		p = pgos_json_escape(enc, stop, end, p + (stop - src));
		p = pgos_encode_room(enc, p, 7 * PGOS_JSON_PIECE + 2 * PGOS_ENCODE_ROOM);
		src = end;
		len -= PGOS_JSON_PIECE;
	}
	stop = pgos_copy_plain(&enc->escape, PGOS_IN_JSON, p, src, src + len);
	p += stop - src;
	if (unlikely(stop < src + len))
		p = pgos_json_escape(enc, stop, src + len, p);
	return pgos_encode_mark(enc, p);
}

/* A number: mostly a small integer. */
static inline char *
pgos_json_number(PgosEncoder *enc, const char *data, char *p)
{
	struct
	{
		uint16 header;
		uint16 digit;
	} small;

	if (VARATT_IS_4B_U(data) && VARSIZE_4B(data) == VARHDRSZ + sizeof(small))
	{
		memcpy(&small, VARDATA_4B(data), sizeof(small));
		if (small.header == PGOS_NUMERIC_SHORT)
			return pgos_put_small(p, small.digit);
	}
	return pgos_encode_numeric(enc, NULL, VARDATA_ANY(data), VARSIZE_ANY_EXHDR(data), p);
}

static char *
pgos_json_container(PgosEncoder *enc, const JsonbContainer *container, int depth, char *p);

/* A value or element whose data is from base + offset to base + end. */
static pg_attribute_always_inline char *
pgos_json_value(PgosEncoder *enc, JEntry entry, const char *base, uint32 offset, uint32 end,
				int depth, char *p)
{
	if (JBE_ISSTRING(entry))
		return pgos_json_string(enc, base + offset, end - offset, p);
	if (JBE_ISNUMERIC(entry))
		return pgos_json_number(enc, base + INTALIGN(offset), p);
	if (JBE_ISCONTAINER(entry))
		return pgos_json_container(enc, (const JsonbContainer *) (base + INTALIGN(offset)),
								   depth + 1, p);
	if (JBE_ISBOOL_FALSE(entry))
	{
		memcpy(p, "false", 5);
		return p + 5;
	}
	memcpy(p, JBE_ISNULL(entry) ? "null" : "true", 4);
	return p + 4;
}

/* Keys come first, then values; the offsets run on. */
static inline char *
pgos_json_object(PgosEncoder *enc, const JEntry *keys, uint32 count, int depth, char *p)
{
	const JEntry *values = keys + count;
	const char	 *base = (const char *) (values + count);
	uint32		  key_offset = 0;
	uint32		  offset = 0;

	for (uint32 i = 0; i < count; i++)
		JBE_ADVANCE_OFFSET(offset, keys[i]);
	*p++ = '{';
	for (uint32 i = 0; i < count; i++)
	{
		uint32 key_end = key_offset;
		uint32 end = offset;

		if (i > 0)
		{
			memcpy(p, ", ", 2);
			p += 2;
		}
		JBE_ADVANCE_OFFSET(key_end, keys[i]);
		JBE_ADVANCE_OFFSET(end, values[i]);
		p = pgos_json_string(enc, base + key_offset, key_end - key_offset, p);
		memcpy(p, ": ", 2);
		p = pgos_json_value(enc, values[i], base, offset, end, depth, p + 2);
		key_offset = key_end;
		offset = end;
	}
	*p++ = '}';
	return p;
}

static char *
pgos_json_container(PgosEncoder *enc, const JsonbContainer *container, int depth, char *p)
{
	uint32		count = JsonContainerSize(container);
	bool		scalar = JsonContainerIsScalar(container);
	const char *base = (const char *) &container->children[count];
	uint32		offset = 0;

	if (depth % PGOS_JSON_LEVELS == 0)
		check_stack_depth();
	if (JsonContainerIsObject(container))
		p = pgos_json_object(enc, container->children, count, depth, p);
	else
	{
		if (!scalar)
			*p++ = '[';
		for (uint32 i = 0; i < count; i++)
		{
			JEntry entry = container->children[i];
			uint32 end = offset;

			if (i > 0)
			{
				memcpy(p, ", ", 2);
				p += 2;
			}
			JBE_ADVANCE_OFFSET(end, entry);
			p = pgos_encode_room(enc, p, PGOS_ENCODE_ROOM);
			p = pgos_json_value(enc, entry, base, offset, end, depth, p);
			offset = end;
		}
		if (!scalar)
			*p++ = ']';
	}
	return pgos_encode_room(enc, p, PGOS_JSON_LEFT);
}

char *
pgos_encode_jsonb(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, size_t len, char *p)
{
	union
	{
		uint32 align;
		char   data[VARATT_SHORT_MAX];
	} copy;
	const JsonbContainer *root;
	bool				  quote;

	value = pgos_encode_detoast(enc, value);
	root = (const JsonbContainer *) VARDATA_ANY(value);
	if (VARATT_IS_SHORT(value))
	{
		/* its parts are aligned in it, but it is not */
		memcpy(copy.data, root, VARSIZE_SHORT(value) - VARHDRSZ_SHORT);
		root = (const JsonbContainer *) copy.data;
	}
	quote = enc->csv && pgos_json_needs_quotes(root, enc->delimiter == ',');
	if (quote)
		*p++ = '"';
	p = pgos_json_container(enc, root, 1, p);
	if (quote)
		*p++ = '"';
	return p;
}
