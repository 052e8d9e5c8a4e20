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
pgos_encode_jsonb_fits(PgosEncoder *enc)
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
		JEntry		entry = container->children[i];

		if (JBE_ISSTRING(entry))
			return true;
		if (JBE_ISCONTAINER(entry) &&
			pgos_json_needs_quotes((const JsonbContainer *) (base + INTALIGN(offset)), comma))
			return true;
		JBE_ADVANCE_OFFSET(offset, entry);
	}
	return false;
}

/* A piece of a string. */
static inline char *
pgos_json_piece(PgosEncoder *enc, const char *src, size_t len, char *p)
{
	const char *end = src + len;

	for (;;)
	{
		const char *stop = pgos_copy_plain(&enc->escape, PGOS_IN_JSON, p, src, end);
		unsigned char c;

		p += stop - src;
		if (stop == end)
			return p;
		c = (unsigned char) *stop;
		src = stop + 1;
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
	}
}

static inline char *
pgos_json_string(PgosEncoder *enc, const char *src, size_t len, char *p)
{
	for (bool first = true;; first = false)
	{
		size_t		piece = Min(len, PGOS_JSON_PIECE);

		p = pgos_encode_room(enc, p, 7 * piece + PGOS_ENCODE_SLACK);
		if (first)
		{
			*p++ = '"';
			if (enc->csv)
				*p++ = '"';
		}
		p = pgos_json_piece(enc, src, piece, p);
		if (piece == len)
			break;
		src += piece;
		len -= piece;
	}
	*p++ = '"';
	if (enc->csv)
		*p++ = '"';
	return p;
}

static char *pgos_json_container(PgosEncoder *enc, const JsonbContainer *container, char *p);

/* A value or element; base + offset is where its data is. */
static inline char *
pgos_json_value(PgosEncoder *enc, JEntry entry, const char *base, uint32 offset, uint32 end, char *p)
{
	switch (entry & JENTRY_TYPEMASK)
	{
		case JENTRY_ISSTRING:
			return pgos_json_string(enc, base + offset, end - offset, p);
		case JENTRY_ISNUMERIC:
			{
				const char *numeric = base + INTALIGN(offset);

				p = pgos_encode_room(enc, p, PGOS_ENCODE_ROOM);
				return pgos_encode_numeric_body(enc, VARDATA_ANY(numeric),
												VARSIZE_ANY_EXHDR(numeric), p);
			}
		case JENTRY_ISCONTAINER:
			return pgos_json_container(enc, (const JsonbContainer *) (base + INTALIGN(offset)), p);
		case JENTRY_ISBOOL_TRUE:
			p = pgos_encode_room(enc, p, PGOS_ENCODE_ROOM);
			memcpy(p, "true", 4);
			return p + 4;
		case JENTRY_ISBOOL_FALSE:
			p = pgos_encode_room(enc, p, PGOS_ENCODE_ROOM);
			memcpy(p, "false", 5);
			return p + 5;
		case JENTRY_ISNULL:
			p = pgos_encode_room(enc, p, PGOS_ENCODE_ROOM);
			memcpy(p, "null", 4);
			return p + 4;
	}
	elog(ERROR, "unknown type of jsonb container");
	return NULL;
}

/* Keys come first, then values; offsets of both run on. */
static inline char *
pgos_json_object(PgosEncoder *enc, const JsonbContainer *container, uint32 count, char *p)
{
	const JEntry *entries = container->children;
	const char *base = (const char *) &entries[2 * count];
	uint32		key_offset = 0;
	uint32		offset = count > 0 ? getJsonbOffset(container, count) : 0;

	*p++ = '{';
	for (uint32 i = 0; i < count; i++)
	{
		uint32		key_end = key_offset;
		uint32		end = offset;

		JBE_ADVANCE_OFFSET(key_end, entries[i]);
		JBE_ADVANCE_OFFSET(end, entries[count + i]);
		p = pgos_encode_room(enc, p, PGOS_ENCODE_ROOM);
		if (i > 0)
		{
			memcpy(p, ", ", 2);
			p += 2;
		}
		p = pgos_json_string(enc, base + key_offset, key_end - key_offset, p);
		memcpy(p, ": ", 2);
		p = pgos_json_value(enc, entries[count + i], base, offset, end, p + 2);
		key_offset = key_end;
		offset = end;
	}
	p = pgos_encode_room(enc, p, PGOS_ENCODE_ROOM);
	*p++ = '}';
	return p;
}

static char *
pgos_json_container(PgosEncoder *enc, const JsonbContainer *container, char *p)
{
	uint32		count = JsonContainerSize(container);
	bool		scalar = JsonContainerIsScalar(container);
	const char *base = (const char *) &container->children[count];
	uint32		offset = 0;

	check_stack_depth();
	p = pgos_encode_room(enc, p, PGOS_ENCODE_ROOM);
	if (JsonContainerIsObject(container))
		return pgos_json_object(enc, container, count, p);
	if (!scalar)
		*p++ = '[';
	for (uint32 i = 0; i < count; i++)
	{
		JEntry		entry = container->children[i];
		uint32		end = offset;

		JBE_ADVANCE_OFFSET(end, entry);
		if (i > 0)
		{
			p = pgos_encode_room(enc, p, PGOS_ENCODE_ROOM);
			memcpy(p, ", ", 2);
			p += 2;
		}
		p = pgos_json_value(enc, entry, base, offset, end, p);
		offset = end;
	}
	p = pgos_encode_room(enc, p, PGOS_ENCODE_ROOM);
	if (!scalar)
		*p++ = ']';
	return p;
}

char *
pgos_encode_jsonb(PgosEncoder *enc, PgosEncodeColumn *col, const char *value, char *p)
{
	union
	{
		uint32		align;
		char		data[VARATT_SHORT_MAX];
	}			copy;
	const JsonbContainer *root;
	bool		quote;

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
	p = pgos_json_container(enc, root, p);
	if (quote)
		*p++ = '"';
	return p;
}
